"""Online updating: yesterday's posterior as today's prior."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tbq.common.arguments import generator, whole
from tbq.common.errors import TbqError
from tbq.common.types import Array, ArrayLike
from tbq.evidence import importance
from tbq.evidence.moments import systematic_resample
from tbq.problem.prior import Method, Prior, Seed, as_rows

if TYPE_CHECKING:
    from tbq.result.result import Result


class PosteriorPrior(Prior):
    """The posterior of a :class:`tbq.Result`, used as a prior: same names, same support, learned density.

    Its working coordinates are those of the first prior's parameters, recentred and rescaled to the posterior. Samples
    are draws of a mixture fitted to the posterior, reweighted to it, so that any number of them can be had.
    """

    is_computed = True

    def __init__(self, result: Result) -> None:
        if result.surrogate is None:
            raise TbqError(f"as_prior: there is no posterior. {result.stop.value}")
        first = result.prior
        super().__init__(first.marginals, correlation=first.correlation, constraint=first.constraint, units=first.units)
        self.result, self.mixing = result, None
        z = first.unmixed.to_working(result.samples)
        spread = np.maximum(z.std(axis=0), 1e-12)
        self.axes = tuple(
            replace(axis, center=axis.center + axis.scale * m, scale=axis.scale * s)
            for axis, m, s in zip(first.axes, z.mean(axis=0), spread, strict=True)
        )
        rng = np.random.default_rng(result.seed)
        self._mixture = importance.fit_mixture(self.to_working(result.samples), *self.working_bounds, rng)

    def __repr__(self) -> str:
        return f"PosteriorPrior({', '.join(self.names)}; from {self.result.n_evaluations} evaluations)"

    def sample(self, n: int, seed: Seed = None, method: Method = "random", *, rng: Seed = None) -> Array:
        """``n`` posterior draws. ``method`` is accepted for the sake of :class:`Prior`; the draws are random."""
        n, rng = whole("Prior.sample: n", n, 0), generator("Prior.sample", seed, rng)
        z = self._mixture.sample(4 * n + 64, rng)
        log_weights = self.log_density_working(z) - self._mixture.log_density(z)
        weights = np.exp(log_weights - log_weights.max())
        return self.from_working(z[rng.permutation(systematic_resample(weights, n, rng))])

    @property
    def simulated(self) -> Prior:
        return self if self.result.prior.simulated is self.result.prior else self._simulated

    @cached_property
    def _simulated(self) -> Prior:
        return SimulatedPart(self)

    def log_density(self, theta: ArrayLike) -> Array:
        if "result" not in self.__dict__:  # while the first prior is being rebuilt
            return super().log_density(theta)
        return self.result.log_density(theta)


class SimulatedPart(Prior):
    """The simulator's parameters of a posterior that has noise parameters too: its marginal, by the fitted mixture."""

    is_computed = True

    def __init__(self, posterior: PosteriorPrior) -> None:
        first = posterior.result.prior.simulated
        super().__init__(first.marginals, correlation=first.correlation, constraint=first.constraint, units=first.units)
        self.axes, self.mixing = posterior.axes[: first.dim], None
        self._posterior, self._first = posterior, first
        self._marginal = posterior._mixture.marginal(first.dim)

    def __repr__(self) -> str:
        return f"{self._posterior!r}, those of the simulator"

    def sample(self, n: int, seed: Seed = None, method: Method = "random", *, rng: Seed = None) -> Array:
        """``n`` posterior draws, at random whatever the ``method``."""
        return self._posterior.sample(n, seed, method, rng=rng)[:, : self.dim]

    def log_density(self, theta: ArrayLike) -> Array:
        if "_first" not in self.__dict__:  # while the first prior is being rebuilt
            return super().log_density(theta)
        points, single = as_rows(theta, self.dim, "Prior.log_density")
        value, inside = np.full(len(points), -np.inf), self._first.contains(points)
        if inside.any():
            z = self.to_working(points[inside])
            slope = np.sum([a.log_slope(z[:, i]) for i, a in enumerate(self.axes)], axis=0)
            value[inside] = self._marginal.log_density(z) - slope
        return value[0] if single else value
