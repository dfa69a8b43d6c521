"""Simulator and data → log-likelihood, for Gaussian noise.

What the simulator returns is kept beside the log-likelihood: outputs are smooth functions of θ where the
log-likelihood is steep and folded, and the same runs serve other data and another noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from tbq.common.arguments import floats
from tbq.common.errors import ArgumentError, TbqError
from tbq.common.types import Array, ArrayLike, IntArray
from tbq.common.words import described

Model = Callable[[Array], Any]


@dataclass(frozen=True)
class Experiment:
    """One data set: a model, what was observed, and the noise between them."""

    model: Model
    observed: Array  # (m,)
    factor: Array  # standard deviations (m,), or the covariance's lower Cholesky factor (m, m)
    scale: Callable[[Array], Any] | None  # multiplies the standard deviations
    normalized: bool

    @property
    def full_constant(self) -> float:
        """log of (2π)^(−m/2) |Σ|^(−1/2)."""
        sd = self.factor if self.factor.ndim == 1 else np.diag(self.factor)
        return float(-0.5 * len(self.observed) * np.log(2.0 * np.pi) - np.sum(np.log(sd)))

    @property
    def log_constant(self) -> float:
        """What of it is part of the likelihood: all, or 0 where that is not normalised."""
        return self.full_constant if self.normalized else 0.0

    def run(self, theta: Array) -> Array:
        """The model's outputs, shape (..., m); what is not finite is missing."""
        expected = (*theta.shape[:-1], len(self.observed))
        outputs = floats(self.model(theta))
        if outputs.shape != expected and outputs.size == np.prod(expected) and expected[-1] == 1:
            outputs = outputs.reshape(expected)
        if outputs.shape != expected:
            raise TbqError(f"the model returned outputs of shape {outputs.shape}, not {expected}")
        return np.where(np.isfinite(outputs), outputs, np.nan)

    def whiten(self, outputs: Array) -> Array:
        """Residuals in units of the noise, before its scale; rows of (n, m)."""
        residual = outputs - self.observed
        if self.factor.ndim == 1:
            return residual / self.factor
        return linalg.solve_triangular(self.factor, residual.T, lower=True, check_finite=False).T

    def noise(self, n: int, rng: np.random.Generator) -> Array:
        """``n`` draws of the noise before its scale, (n, m)."""
        white = rng.standard_normal((n, len(self.observed)))
        return white * self.factor if self.factor.ndim == 1 else white @ self.factor.T

    def log_scale(self, theta: Array) -> Array:
        """log of the noise's scale at the rows of ``theta``."""
        if self.scale is None:
            return np.zeros(len(theta))
        values = np.array([float(self.scale(row)) for row in theta])
        if not np.all(values > 0.0):
            raise TbqError(f"the noise's scale must be positive; got {values[~(values > 0.0)][0]}")
        return np.log(values)


class GaussianLikelihood:
    """The log-likelihood of a simulator under Gaussian noise: ``log N(observed; model(theta), noise)``.

    A function of ``theta``; ``a + b`` is the likelihood of two independent experiments that share parameters. It can
    be sent to other processes if the model can.

    Parameters
    ----------
    model
        Function of ``theta`` that returns as many numbers as were observed; nan where an output is missing, in which
        case the run has no likelihood but what it did return is still learned from.
    observed
        The data, one number or a 1-D array.
    noise
        Standard deviation, one per datum, or the full covariance matrix.
    scale
        Function of ``theta`` that multiplies all standard deviations, for noise that is itself unknown:
        ``scale=lambda theta: theta[2]``.
    normalized
        Whether the factor (2π)^(−m/2) |noise|^(−1/2) is part of the likelihood. Without it only ratios of evidences
        for the same data and noise mean anything.
    """

    experiments: tuple[Experiment, ...]

    def __init__(
        self,
        model: Model,
        observed: ArrayLike,
        noise: ArrayLike,
        *,
        scale: Callable[[Array], Any] | None = None,
        normalized: bool = True,
    ) -> None:
        if not callable(model):
            raise ArgumentError(f"GaussianLikelihood: model must be a function of theta; got {type(model).__name__}")
        if scale is not None and not callable(scale):
            raise ArgumentError(f"GaussianLikelihood: scale must be a function of theta; got {type(scale).__name__}")
        if scale is not None and not normalized:
            raise ArgumentError(
                "GaussianLikelihood: normalized must be True where scale is given: without the factor an unknown noise "
                "would be as large as its prior allows"
            )
        data = _numbers("observed", observed)
        if data.ndim > 1 or data.size == 0:
            raise ArgumentError(f"GaussianLikelihood: observed must be a number or a 1-D array; got shape {data.shape}")
        data = np.atleast_1d(data)
        self.experiments = (Experiment(model, data, _factor(noise, len(data)), scale, bool(normalized)),)

    @classmethod
    def of(cls, experiments: tuple[Experiment, ...]) -> GaussianLikelihood:
        """The likelihood of independent experiments."""
        likelihood = object.__new__(cls)
        likelihood.experiments = experiments
        return likelihood

    def __repr__(self) -> str:
        count, m = len(self.experiments), len(self.observed)
        return f"GaussianLikelihood({m} data" + (f", {count} experiments)" if count > 1 else ")")

    def __add__(self, other: GaussianLikelihood) -> GaussianLikelihood:
        if not isinstance(other, GaussianLikelihood):
            return NotImplemented
        return GaussianLikelihood.of(self.experiments + other.experiments)

    def __call__(self, theta: ArrayLike) -> Any:
        """Log-likelihood of one θ, or of the rows of an array where the model takes such."""
        return self.evaluate(theta)[0]

    def evaluate(self, theta: ArrayLike) -> tuple[Any, Array]:
        """Run the model: the log-likelihood and the outputs it came from. Missing outputs make it nan."""
        theta = np.asarray(theta, dtype=float)
        outputs = np.concatenate([e.run(theta) for e in self.experiments], axis=-1)
        return self.from_outputs(theta, outputs), outputs

    def from_outputs(self, theta: ArrayLike, outputs: ArrayLike) -> Any:
        """The log-likelihood of runs already made; shapes (d,) and (m,), or with any leading dimensions."""
        theta, outputs = np.asarray(theta, dtype=float), np.asarray(outputs, dtype=float)
        if outputs.shape[-1:] != self.observed.shape or outputs.shape[:-1] != theta.shape[:-1]:
            raise ArgumentError(
                f"GaussianLikelihood: outputs must have shape {(*theta.shape[:-1], len(self.observed))}; "
                f"got {outputs.shape}"
            )
        rows = theta.reshape(-1, theta.shape[-1])
        white = self.whiten(outputs.reshape(-1, outputs.shape[-1]))
        log_scales = self.log_scales(rows)
        value = -0.5 * np.sum((white * np.exp(-log_scales[:, self.experiment_of])) ** 2, axis=1)
        value += self.log_constant(log_scales)
        return float(value[0]) if theta.ndim == 1 else value.reshape(theta.shape[:-1])

    def noise(self, theta: Array, rng: np.random.Generator) -> Array:
        """A draw of the noise at each row of ``theta``, (n, m)."""
        parts = np.hstack([e.noise(len(theta), rng) for e in self.experiments])
        return parts * np.exp(self.log_scales(theta)[:, self.experiment_of])

    @property
    def normalized(self) -> bool:
        """Whether it is a density of the data."""
        return all(e.normalized for e in self.experiments)

    @property
    def missing_constant(self) -> float:
        """What must be added to its logarithm to make it one."""
        return sum(e.full_constant - e.log_constant for e in self.experiments)

    # --- what a surrogate of the outputs needs --------------------------------------------------------------

    @property
    def observed(self) -> Array:
        """The data of all experiments, one after the other."""
        return np.concatenate([e.observed for e in self.experiments])

    @property
    def experiment_of(self) -> IntArray:
        """Which experiment each output belongs to."""
        return np.repeat(np.arange(len(self.experiments)), [len(e.observed) for e in self.experiments])

    @property
    def sd(self) -> Array | None:
        """Standard deviations of the noise before its scale; None where a covariance ties outputs together."""
        factors = [e.factor for e in self.experiments]
        return np.concatenate(factors) if all(f.ndim == 1 for f in factors) else None

    @property
    def scaled(self) -> bool:
        """Whether some noise is unknown."""
        return any(e.scale is not None for e in self.experiments)

    def whiten(self, outputs: Array) -> Array:
        """Residuals of all outputs in units of the noise before its scale: independent, of unit variance; (n, m)."""
        parts = np.split(outputs, np.cumsum([len(e.observed) for e in self.experiments])[:-1], axis=1)
        return np.hstack([e.whiten(part) for e, part in zip(self.experiments, parts, strict=True)])

    def log_scales(self, theta: Array) -> Array:
        """log of each experiment's noise scale at the rows of ``theta``, shape (n, experiments)."""
        return np.column_stack([e.log_scale(theta) for e in self.experiments])

    def check_scales(self, theta: Array) -> None:
        """Refuse noise whose scale is not a positive number at each row of ``theta``."""
        for scale in (e.scale for e in self.experiments if e.scale is not None):
            for row in theta:
                try:
                    value = float(scale(row.copy()))
                except Exception as error:
                    failed = f"failed with {described(error)}"
                    raise ArgumentError(f"GaussianLikelihood: scale {failed} at theta = {row}") from error
                if not 0.0 < value < np.inf:
                    raise ArgumentError(
                        "GaussianLikelihood: scale must be a positive number everywhere in the prior; "
                        f"got {value} at theta = {row}"
                    )

    def log_constant(self, log_scales: Array) -> Array:
        """The log-likelihood of data that fit exactly, at these scales; shape (n,)."""
        counts = np.array([len(e.observed) for e in self.experiments], dtype=float)
        return np.asarray(sum(e.log_constant for e in self.experiments) - log_scales @ counts)


def _numbers(name: str, value: ArrayLike) -> Array:
    try:
        array = np.array(floats(value))
    except (TypeError, ValueError):
        raise ArgumentError(f"GaussianLikelihood: {name} must be numbers; got {type(value).__name__}") from None
    if not np.all(np.isfinite(array)):
        raise ArgumentError(f"GaussianLikelihood: {name} must be finite; got {array[~np.isfinite(array)].flat[0]}")
    return array


def _factor(noise: ArrayLike, m: int) -> Array:
    """Standard deviations, or the Cholesky factor of a covariance."""
    array = _numbers("noise", noise)
    if array.ndim < 2:
        if array.size not in (1, m):
            raise ArgumentError(f"GaussianLikelihood: noise must have 1 or {m} standard deviations; got {array.size}")
        if not np.all(array > 0.0):
            raise ArgumentError(f"GaussianLikelihood: noise must be positive; got {array[array <= 0.0].flat[0]}")
        return np.array(np.broadcast_to(array, m))
    if array.shape != (m, m) or not np.allclose(array, array.T, rtol=1e-8, atol=0.0):
        raise ArgumentError(
            f"GaussianLikelihood: noise as a covariance must be symmetric, of shape ({m}, {m}); got shape {array.shape}"
        )
    try:
        return np.asarray(linalg.cholesky(array, lower=True))
    except linalg.LinAlgError:
        raise ArgumentError("GaussianLikelihood: noise as a covariance must be positive definite") from None
