"""Models of many parameters and many outputs whose evidences are known, for `tbq bench scale`.

Each has outputs in units of the noise, data made from a θ of the prior, and independent standard normal parameters.
Evidence and posterior are taken by importance sampling with the true model around its most probable point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from tbq.common.types import Array
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior

Model = Callable[[Array], Array]
_FREEDOM = 8.0  # degrees of the Student-t density that references are sampled from
_WIDER = 1.2  # its covariance, in that of the linearised posterior
_STEP = 1e-4  # of the differences that linearise a model


@dataclass(frozen=True)
class Case:
    """A model of ``d`` parameters, what was observed of it, in units of the noise, and how it is called."""

    name: str
    d: int
    model: Model
    observed: Array  # (m,)

    @property
    def prior(self) -> Prior:
        return Prior({f"x{i + 1}": stats.norm() for i in range(self.d)})

    @property
    def likelihood(self) -> GaussianLikelihood:
        return GaussianLikelihood(self.model, self.observed, 1.0)

    def log_joint(self, theta: Array) -> Array:
        """log of likelihood times prior at the rows of ``theta``."""
        squares = np.array([np.sum((self.model(row) - self.observed) ** 2) for row in theta])
        return -0.5 * (squares + np.sum(theta**2, axis=1) + (len(self.observed) + self.d) * np.log(2.0 * np.pi))


def _observed(name: str, d: int, model: Model) -> Case:
    """The case whose data are a run at a θ of the prior, with noise."""
    rng = np.random.default_rng(0)
    clean = model(0.8 * rng.standard_normal(d))
    return Case(name, d, model, clean + rng.standard_normal(len(clean)))


def chain(storeys: int, modes: int) -> Case:
    """A shear building of unknown storey stiffnesses; frequencies (noise 1 %) and shapes (0.02) of the lowest modes."""
    plain = _modes(np.ones(storeys))[1]
    largest = np.argmax(np.abs(plain), axis=0)[:modes]

    def model(theta: Array) -> Array:
        squared, shapes = _modes(np.exp(0.3 * np.asarray(theta)))
        shapes = shapes[:, :modes]
        sign = np.sign(shapes[largest, np.arange(modes)] * plain[largest, np.arange(modes)])
        return np.concatenate([0.5 * np.log(squared[:modes]) / 0.01, (sign * shapes).T.ravel() / 0.02])

    return _observed(f"chain{storeys}", storeys, model)


def _modes(stiffness: Array) -> tuple[Array, Array]:
    """Squared frequencies and shapes of a chain of unit masses."""
    matrix = np.diag(stiffness + np.append(stiffness[1:], 0.0))
    matrix -= np.diag(stiffness[1:], 1) + np.diag(stiffness[1:], -1)
    squared, shapes = np.linalg.eigh(matrix)
    return squared, shapes


def field() -> Case:
    """The displacement of a membrane under a load, at 500 points; six waves of its log-stiffness are unknown."""
    rows, columns = 20, 25
    y, x = np.meshgrid(np.arange(1, rows + 1) / (rows + 1), np.arange(1, columns + 1) / (columns + 1), indexing="ij")
    waves = [(1, 0), (0, 1), (1, 1), (2, 0), (0, 2), (2, 1)]

    def stiffness(theta: Array, x: Array, y: Array) -> Array:
        total = sum(t * np.cos(np.pi * i * x) * np.cos(np.pi * j * y) for t, (i, j) in zip(theta, waves, strict=True))
        return np.exp(0.4 * np.asarray(total))

    number = np.arange(rows * columns).reshape(rows, columns)

    def model(theta: Array) -> Array:
        matrix = np.zeros((rows * columns, rows * columns))
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            half = stiffness(theta, x + 0.5 * dx / (columns + 1), y + 0.5 * dy / (rows + 1))
            weight = half * ((columns + 1) ** 2 if dx else (rows + 1) ** 2)
            matrix[number.ravel(), number.ravel()] += weight.ravel()
            inside = (slice(max(-dy, 0), rows - max(dy, 0)), slice(max(-dx, 0), columns - max(dx, 0)))
            beside = (slice(max(dy, 0), rows + min(dy, 0)), slice(max(dx, 0), columns + min(dx, 0)))
            matrix[number[inside].ravel(), number[beside].ravel()] -= weight[inside].ravel()
        return np.asarray(np.linalg.solve(matrix, np.ones(rows * columns)) / 0.002, dtype=float)

    return _observed("field", len(waves), model)


def mild(d: int, of: int | None = None) -> Case:
    """Twice as many outputs as parameters, each bent a little; ``of`` more parameters only the first d do anything."""
    rng = np.random.default_rng(1)
    directions = rng.standard_normal((2 * d, d)) / np.sqrt(d)

    def model(theta: Array) -> Array:
        u = directions @ np.asarray(theta)[:d]
        return (u + 0.1 * u * np.roll(u, 1) + 0.05 * np.sin(2.0 * u)) / 0.3

    return _observed(f"mild{d}" if of is None else f"mild{d}of{of}", of or d, model)


CASES: dict[str, Callable[[], Case]] = {
    "chain6": lambda: chain(6, 3),
    "chain10": lambda: chain(10, 4),
    "chain15": lambda: chain(15, 5),
    "chain20": lambda: chain(20, 6),
    "chain30": lambda: chain(30, 8),
    "field": field,
    "mild20": lambda: mild(20),
    "mild30": lambda: mild(30),
    "mild10of60": lambda: mild(10, 60),
}


@dataclass(frozen=True)
class Reference:
    """Evidence and posterior of a case by importance sampling with its true model."""

    log_evidence: float
    log_evidence_sd: float
    mean: tuple[float, ...]
    sd: tuple[float, ...]


def reference(case: Case, n: int = 20_000) -> Reference:
    """From draws of a Student-t density around the most probable θ, whose covariance is the linearised one's."""
    starts = [0.3 * np.random.default_rng(seed).standard_normal(case.d) for seed in range(3)]

    def residual(theta: Array) -> Array:
        return np.concatenate([case.model(theta) - case.observed, theta])

    best = min((optimize.least_squares(residual, start, method="lm") for start in starts), key=lambda r: r.cost)
    steps = _STEP * np.eye(case.d)
    slopes = np.array([(case.model(best.x + e) - case.model(best.x - e)) / (2.0 * _STEP) for e in steps])
    covariance = np.linalg.inv(slopes @ slopes.T + np.eye(case.d))
    proposal = stats.multivariate_t(best.x, _WIDER * covariance, df=_FREEDOM, seed=1)
    theta = proposal.rvs(n)
    log_weights = case.log_joint(theta) - proposal.logpdf(theta)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mean = weights @ theta
    return Reference(
        float(special.logsumexp(log_weights) - np.log(n)),
        float(np.sqrt(max(n * np.sum(weights**2) - 1.0, 0.0) / n)),
        tuple(float(v) for v in mean),
        tuple(float(v) for v in np.sqrt(weights @ (theta - mean) ** 2)),
    )
