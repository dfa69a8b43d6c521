"""Gaussian processes of two levels: what a dear simulator returns, with the help of a cheap one (Kennedy and O'Hagan).

With processes g on the values of the cheap level, a value of the dear one is y = hᵀβ + ρg + δ. Given the runs, g is
independent of (β, ρ, δ) where a cheap run was made at every dear one, so that exactly

    mean = hᵀβ̂ + ρ̂ m_g + m_δ,   cov(a, b) = cov_δ(a, b) + E[ρ²] cov_g(a, b),   E[ρ²] = ρ̂² + var ρ,

where the mean of g is one more term of δ's mean and ρ one more of its coefficients: cov_δ has what is not known of β
and ρ. A cheap run tells of g alone: of y only the second part.

All of it looks like one :class:`tbq.gp.batch.Batch`, so that what is made of such processes need not know of levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol, Self

import numpy as np

from tbq.common.types import Array, BoolArray, IntArray
from tbq.gp import batch_fitting, common
from tbq.gp.batch import Batch, Projection
from tbq.gp.kernels import Kernel
from tbq.gp.values import Values

_LEAST = 1e-300  # of a variance that is divided by


class Processes(Protocol):
    """Processes of one level or of two: what surrogates of outputs ask of them. See :class:`tbq.gp.batch.Batch`."""

    @property
    def size(self) -> int: ...

    @property
    def kernel(self) -> Kernel: ...

    @property
    def values(self) -> Values: ...

    @property
    def x(self) -> Array: ...

    @property
    def new_noise(self) -> Array: ...

    def project(self, z: Array) -> Any: ...

    def covariance(self, a: Any, b: Any) -> Array: ...

    def leave_one_out(self) -> tuple[Array, Array]: ...

    def condition_on_mean(self, z: Array) -> Self: ...


@dataclass(frozen=True)
class LevelsProjection:
    """What processes of two levels say about points. See :class:`tbq.gp.batch.Projection`."""

    x: Array  # (m, d)
    mean: Array  # (K, m)
    variance: Array  # (K, m)
    delta: Projection
    coarse: Projection

    def take(self, index: IntArray) -> LevelsProjection:
        parts = self.delta.take(index), self.coarse.take(index)
        return LevelsProjection(self.x[index], self.mean[:, index], self.variance[:, index], *parts)


@dataclass(frozen=True)
class Levels:
    """K processes of the dear level on J of the cheap one; immutable.

    ``part`` says which part of the variances and covariances it shows: all, what a cheap run could tell, or the rest.
    """

    delta: Batch  # K processes on points whose last J columns are the means of g, in units of ``spread``
    coarse: Batch  # J processes
    centre: Array  # (J,) of the values of the cheap level
    spread: Array  # (J,)
    part: Literal["all", "coarse", "delta"] = "all"

    # --- as of a batch --------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return self.delta.size

    @property
    def kernel(self) -> Kernel:
        return self.delta.kernel

    @property
    def values(self) -> Values:
        return self.delta.values

    @property
    def x(self) -> Array:
        """Points of the dear level, (n, d)."""
        return self.delta.x[:, : self.delta.values.dim]

    @cached_property
    def new_noise(self) -> Array:
        """(K,) variance of what a new run would return about each process; a cheap one, where that part is shown."""
        if self.part != "coarse":
            return self.delta.new_noise
        return np.maximum(self._weights * self.coarse.new_noise[self.column], _LEAST)

    def project(self, z: Array) -> LevelsProjection:
        """Mean and variance of all processes at points (m, d)."""
        coarse = self.coarse.project(z)
        delta = self.delta.project(self._with_coarse(z, coarse.mean))
        known = 0.0 if self.part == "coarse" else delta.variance
        variance = known if self.part == "delta" else known + self._weighted(coarse.variance)
        return LevelsProjection(z, delta.mean, np.asarray(variance), delta, coarse)

    def covariance(self, a: LevelsProjection, b: LevelsProjection) -> Array:
        """Posterior covariances between two sets of points, (K, n, m)."""
        if self.part == "delta":
            return self.delta.covariance(a.delta, b.delta)
        of_coarse = self._weighted(self.coarse.covariance(a.coarse, b.coarse))
        return of_coarse if self.part == "coarse" else self.delta.covariance(a.delta, b.delta) + of_coarse

    def leave_one_out(self) -> tuple[Array, Array]:
        """Mean and variance of each dear value as predicted from all others and from the cheap run at its point."""
        return self.delta.leave_one_out()

    def condition_on_mean(self, z: Array) -> Self:
        """With one more run of both levels at a point (d,) that returns what is expected there."""
        column = self.coarse.project(z[None, :]).mean
        delta = self.delta.condition_on_mean(self._with_coarse(z[None, :], column)[0])
        return replace(self.condition_on_coarse_mean(z), delta=delta)

    # --- of levels alone ------------------------------------------------------------------------------------

    def condition_on_coarse_mean(self, z: Array) -> Self:
        """With one more run of the cheap level."""
        return replace(self, coarse=self.coarse.condition_on_mean(z))

    @cached_property
    def rho(self) -> tuple[Array, Array]:
        """ρ of each process and its standard deviation, (K,); nan where it does not use the cheap level."""
        factors = self.delta.factors
        sd = np.sqrt(np.sum(factors.inverse_basis[:, :, -1] ** 2, axis=1))
        unit = np.where(self.uses, self.spread[self.column], np.nan)
        return factors.beta[:, -1] / unit, sd / unit

    @property
    def uses(self) -> BoolArray:
        """(K,) whether a process has the cheap level in its mean."""
        assert self.values.given is not None
        return self.values.given >= 0

    @property
    def column(self) -> IntArray:
        """(K,) of the cheap processes; any where there is none."""
        assert self.values.given is not None
        return np.maximum(self.values.given, 0)

    @cached_property
    def _weights(self) -> Array:
        """(K,): E[ρ²]."""
        mean, sd = self.rho
        return np.where(self.uses, mean**2 + sd**2, 0.0)

    def _weighted(self, of_coarse: Array) -> Array:
        """(K, ...) from (J, ...)."""
        weights = self._weights.reshape(-1, *(1,) * (of_coarse.ndim - 1))
        return np.asarray(weights * of_coarse[self.column])

    def _with_coarse(self, z: Array, mean: Array) -> Array:
        return with_coarse(z, mean, self.centre, self.spread)


def with_coarse(z: Array, mean: Array, centre: Array, spread: Array) -> Array:
    """Points (m, d) with means (J, m) of the cheap level as further columns, in units of its spread."""
    return np.ascontiguousarray(np.hstack([z, ((mean - centre[:, None]) / spread[:, None]).T]))


def hyperparameter_draws(batch: Processes, n: int, rng: np.random.Generator) -> Iterator[Processes]:
    """As :func:`tbq.gp.batch_fitting.hyperparameter_draws`, of either level by itself."""
    if isinstance(batch, Batch):
        yield from batch_fitting.hyperparameter_draws(batch, n, rng)
        return
    if isinstance(batch, common.Common):
        yield from common.hyperparameter_draws(batch, n, rng)
        return
    assert isinstance(batch, Levels)
    deltas = batch_fitting.hyperparameter_draws(batch.delta, n, rng)
    coarse = batch_fitting.hyperparameter_draws(batch.coarse, n, rng)
    for one, other in zip(deltas, coarse, strict=True):
        yield replace(batch, delta=one, coarse=other)
