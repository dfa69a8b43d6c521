"""Vanilla Bayesian Quadrature: ∫ f(θ) p(θ) dθ with a Gaussian process on f itself (Section 2.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy import linalg

from tbq.acquisition import search
from tbq.baselines.kernel_means import KERNELS, Measure, measure_of
from tbq.common.arguments import checked_seed, floats, function, positive, whole
from tbq.common.errors import ArgumentError, TbqError
from tbq.common.randomness import fresh_seed, stream
from tbq.common.types import Array
from tbq.gp import fitting
from tbq.gp import regression as gps
from tbq.problem.prior import Prior, Seed, check_prior

IntegralAcquisition = Literal["gmu", "pvc", "abs_pvc"]

_NOISE = 1e-7  # sd of the values' noise, in units of their spread
_ROUNDING = 1e-12  # spread of values that are all the same, as a fraction of them
_VANISHING = 1e-150  # whose square is hardly a number any more
_POOL = 512
_IN_A_ROW = 2


@dataclass(frozen=True)
class Integral:
    """Estimate of an integral: a normal distribution, and the runs behind it."""

    mean: float
    sd: float
    theta: Array  # (n, d) evaluated points, in order
    values: Array  # (n,)
    converged: bool
    history: tuple[tuple[int, float, float], ...]  # (evaluations, mean, sd) after each update

    @property
    def n_evaluations(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        word = "converged" if self.converged else "not converged"
        return f"{self.mean:.8g} ± {self.sd:.2g} ({self.n_evaluations} evaluations, {word})"

    def __repr__(self) -> str:
        return f"<Integral: {self}>"


@dataclass(frozen=True)
class Posterior:
    """The integral as seen by a Gaussian process: a linear functional of it, like a point."""

    gp: gps.GP
    measure: Measure
    v: Array  # (n,): L⁻¹ of the kernel means at the points
    u: Array  # (p,): what the mean's uncertain coefficients add
    mean: float
    variance: float

    @staticmethod
    def of(gp: gps.GP, measure: Measure) -> Posterior:
        """eq:IPost, with the constant mean's coefficient marginalised."""
        f = gp.factors
        v = linalg.solve_triangular(f.chol, measure.mean(gp.kernel, gp.parameters, gp.x), lower=True)
        u = linalg.solve_triangular(f.chol_basis, np.ones(1) - f.basis.T @ v, lower=True)
        mean = gp.offset + float(f.beta[0]) + float(v @ f.residual)
        variance = measure.double(gp.kernel, gp.parameters) - float(v @ v) + float(u @ u)
        return Posterior(gp, measure, v, u, mean, max(variance, 0.0))

    def covariance_with(self, points: gps.Projection) -> Array:
        """Π[c(·, z)]: covariance of the integral with the value at each point."""
        cross = self.measure.mean(self.gp.kernel, self.gp.parameters, points.x)
        return cross - points.v.T @ self.v + points.u.T @ self.u

    def variance_reduction(self, points: gps.Projection) -> Array:
        """G_μ = G_σ: what one more value is expected to take off the variance (eq:GainVBQ1_PVC)."""
        extra = float(self.gp.noise.min()) + gps.NUGGET * self.gp.kernel.diagonal(self.gp.parameters, points.x)
        return self.covariance_with(points) ** 2 / (points.variance + extra)


def integrate(
    f: Callable[[Array], Any],
    prior: Prior,
    *,
    acquisition: IntegralAcquisition = "gmu",
    kernel: Literal["se", "matern52", "auto"] = "auto",
    tolerance: float = 2e-5,
    n_initial: int | None = None,
    max_evaluations: int | None = None,
    seed: int | None = None,
    rng: Seed = None,
) -> Integral:
    """The prior mean of a smooth function ``f(theta)``, with its uncertainty.

    Stops when the standard deviation is below ``tolerance`` times the mean twice in a row, or after
    ``max_evaluations``. The next point maximises ``"gmu"`` (expected change of the mean, which is also the
    reduction of the variance), ``"pvc"`` (contribution to the variance) or ``"abs_pvc"``. What ``f`` raises is
    not caught. The standard deviation is infinite after a single value, and while all of them are zero: nothing is
    then known of the scale of ``f``.

    Examples
    --------
    >>> found = tbq.integrate(lambda theta: theta[0] ** 2, tbq.Prior({"x": stats.norm()}), seed=0)
    >>> found.converged, round(found.mean, 3)
    (True, 1.0)
    """
    function("f", f)
    check_prior(prior)
    if acquisition not in _ACQUISITIONS:
        raise ArgumentError(f"acquisition must be one of {', '.join(_ACQUISITIONS)}; got {acquisition!r}")
    if kernel not in (*KERNELS, "auto"):
        raise ArgumentError(f"kernel must be 'se', 'matern52' or 'auto'; got {kernel!r}")
    tolerance, seed = positive("tolerance", tolerance), checked_seed(seed, rng)
    seed = fresh_seed() if seed is None else seed
    first = 5 * prior.dim if n_initial is None else whole("n_initial", n_initial)
    budget = 30 * prior.dim if max_evaluations is None else whole("max_evaluations", max_evaluations)
    measure, domain = measure_of(prior), search.domain_of(prior)
    theta = prior.sample(min(first, budget), stream(seed, "design"), "lhs")
    values = np.array([_value(f, row) for row in theta])
    history: list[tuple[int, float, float]] = []
    satisfied = 0
    warm: dict[str, Array] = {}
    while True:
        z = prior.to_working(theta)
        posterior = Posterior.of(_fit(z, values, kernel, warm), measure) if _scaled(values) else None
        mean, sd = _estimate(posterior, len(values))
        history.append((len(values), mean, sd))
        satisfied = satisfied + 1 if sd <= tolerance * abs(mean) else 0
        if satisfied >= _IN_A_ROW or len(values) >= budget:
            return Integral(mean, sd, theta, values, satisfied >= _IN_A_ROW, tuple(history))
        pool = prior.to_working(prior.sample(_POOL, stream(seed, "pool", len(values)), "sobol"))
        worth = partial(_worth, acquisition, posterior, prior)
        new, _ = search.maximise(worth, pool, z, domain, climb=True)
        theta = np.vstack([theta, prior.from_working(new[None, :])])
        values = np.append(values, _value(f, theta[-1]))


def _value(f: Callable[[Array], Any], theta: Array) -> float:
    returned = f(theta.copy())
    try:
        value = floats(returned)
    except Exception:  # of an object whose own conversion fails
        raise TbqError(f"integrate: f must return one finite number; got {type(returned).__name__}") from None
    if value.size != 1 or not np.isfinite(value.reshape(-1)[0]):
        raise TbqError(f"integrate: f must return one finite number; got {value!r} at theta = {theta}")
    return float(value.reshape(-1)[0])


def _scaled(values: Array) -> bool:
    """Whether the values show the scale of the function: none that are all zero do, or so small that squares vanish."""
    return max(float(np.std(values)), _NOISE * _ROUNDING * float(np.max(np.abs(values)))) > _VANISHING


def _estimate(posterior: Posterior | None, n: int) -> tuple[float, float]:
    """Mean and standard deviation of the integral; a single value tells nothing of its spread."""
    if posterior is None:
        return 0.0, np.inf
    sd = max(np.sqrt(posterior.variance), np.spacing(abs(posterior.mean)))  # no sum is known better than it is rounded
    return posterior.mean, float(sd) if n > 1 else np.inf


def _worth(acquisition: IntegralAcquisition, posterior: Posterior | None, prior: Prior, z: Array) -> Array:
    """Where nothing is known all points are worth the same, and the search fills the largest hole."""
    return np.full(len(z), -np.inf) if posterior is None else _ACQUISITIONS[acquisition](posterior, prior, z)


def _fit(z: Array, values: Array, choice: str, warm: dict[str, Array]) -> gps.GP:
    """The kernel that the values prefer, by penalised marginal likelihood."""
    spread = max(float(np.std(values)), _ROUNDING * float(np.max(np.abs(values))), _VANISHING)
    noise = (_NOISE * spread) ** 2
    fitted = {
        name: fitting.fit(z, values, noise, KERNELS[name], "constant", warm.get(name), cold=len(z) % 5 == 0)
        for name in (KERNELS if choice == "auto" else [choice])
    }
    warm.update({name: gp.parameters for name, gp in fitted.items()})
    return max(fitted.values(), key=lambda gp: gp.score)


def _gmu(posterior: Posterior, prior: Prior, z: Array) -> Array:
    return np.log(posterior.variance_reduction(posterior.gp.project(z)) + 1e-300)


def _pvc(posterior: Posterior, prior: Prior, z: Array) -> Array:
    """eq:DefPVC; negative contributions are floored so that the logarithm exists."""
    covariance = posterior.covariance_with(posterior.gp.project(z))
    return np.log(np.maximum(covariance, 0.0) + 1e-300) + prior.log_density_working(z)


def _abs_pvc(posterior: Posterior, prior: Prior, z: Array) -> Array:
    covariance = posterior.covariance_with(posterior.gp.project(z))
    return np.log(np.abs(covariance) + 1e-300) + prior.log_density_working(z)


_ACQUISITIONS = {"gmu": _gmu, "pvc": _pvc, "abs_pvc": _abs_pvc}
