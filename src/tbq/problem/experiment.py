"""One data set: a model, what was observed, and the noise between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from tbq.common.arguments import floats, real
from tbq.common.errors import ArgumentError, TbqError
from tbq.common.types import Array, IntArray
from tbq.problem.labels import NO_LABELS, Labels
from tbq.problem.noise import NoiseModel

Model = Callable[[Array], Any]


@dataclass(frozen=True)
class Experiment:
    """One data set: a model, what was observed, and the noise between them."""

    model: Model
    observed: Array  # (m,)
    factor: Array  # standard deviations (m,), or the covariance's lower Cholesky factor (m, m)
    scale: Callable[[Array], Any] | None  # multiplies the standard deviations
    normalized: bool
    labels: Labels = NO_LABELS
    noise_model: NoiseModel | None = None  # where there is more to the noise; ``factor`` is then what is typical of it
    used: IntArray | None = None  # (m,) which of the model's outputs are measured; None: all
    coarse: Model | None = None  # a cheaper model of the same outputs
    cost: float | None = None  # of its runs, in runs of the model; None: to be timed

    @classmethod
    def of_noise(cls, model: Model, noise: NoiseModel, labels: Labels, used: IntArray | None = None) -> Experiment:
        """Data whose noise has more to it."""
        observed = noise.observed
        typical = noise.scales(noise.typical, np.nan_to_num(observed)[None, :])[0]
        return cls(model, observed, typical, None, True, labels, noise, used)

    def with_coarse(self, coarse: Any, cost: Any) -> Experiment:
        """The same with a cheaper model of its outputs."""
        if coarse is None and cost is None:
            return self
        if not callable(coarse):
            raise ArgumentError(f"GaussianLikelihood: coarse must be a function of theta; got {type(coarse).__name__}")
        if cost is not None and not 0.0 < real(cost) <= 1.0:
            raise ArgumentError(
                f"GaussianLikelihood: cost must be that of a coarse run in fine ones, at most 1, or None; got {cost!r}"
            )
        return replace(self, coarse=coarse, cost=None if cost is None else real(cost))

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
        return self.taken(self.model(theta), theta)

    def taken(self, answer: Any, theta: Array) -> Array:
        """The outputs in what the model answered."""
        expected = (*theta.shape[:-1], len(self.observed))
        outputs = floats(answer)
        if self.used is not None:
            if outputs.shape[:-1] != expected[:-1] or outputs.shape[-1] <= self.used.max():
                wanted = f"(..., more than {self.used.max()})"
                raise TbqError(f"the model returned outputs of shape {outputs.shape}, not {wanted}, which index needs")
            outputs = outputs[..., self.used]
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
