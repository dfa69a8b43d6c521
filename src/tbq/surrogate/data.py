"""Runs that a surrogate of log-likelihoods is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tbq.common.types import Array, BoolArray
from tbq.problem.tuning import Tuning
from tbq.surrogate.warp import Frame

_SHARP = 0.1  # tempering below which a nat of noise does not matter
_FARTHEST = 7.0  # logarithm of a relative depth from which on it is compressed once more: likelihoods explode there
_ENOUGH = 1.5  # times as many runs that matter as a quadratic has numbers, and a few more: of fewer, no local model
_UNSKEWED = 40.0  # standard deviations of noise: a log-depth's mean is then off by a fortieth of one


@dataclass(frozen=True)
class Data:
    """Runs to learn from, and what they are learned for."""

    z: Array  # (n, d) in working coordinates
    y: Array  # (n,) log-likelihoods
    noise: Array  # (n,) variances of their noise, squared nats
    gamma: float  # tempering that the surrogate is for
    frame: Frame | None  # coordinates of the population; None for the working ones
    tuning: Tuning
    learns_noise: bool = False  # whether there may be more of it than is known
    far: bool = False  # whether the posterior is far from most of the prior
    found: bool = False  # whether it is known where the posterior is

    @property
    def may_be_noisy(self) -> bool:
        """Whether noise may matter and can be told from shape: by more runs than a quadratic has numbers."""
        return self.learns_noise and self.gamma >= _SHARP and int(self.near.sum()) > few(self.z.shape[1])

    @cached_property
    def best_depths(self) -> Array:
        """Depths of the best runs, a few of them."""
        return np.sort(np.max(self.y) - self.y)[: few(self.z.shape[1])]

    @property
    def scale(self) -> float:
        """Nats in which depths are seen, and by which no run is expected to exceed the best one."""
        return max(self.tuning.warp_depth, float(np.median(self.best_depths)))

    @cached_property
    def raised(self) -> Array:
        """Log-likelihoods, of which those thousands of times deeper than the best runs are raised; (n,).

        A depth of 10^20 nats, where an exponential explodes, must not rule over how smooth log-depths are said to be.
        """
        best = np.max(self.y)
        log_depth = np.log1p((best - self.y) / self.scale)
        beyond = np.maximum(log_depth - _FARTHEST, 0.0)
        return np.where(beyond > 0.0, best - self.scale * np.expm1(_FARTHEST + np.log1p(beyond)), self.y)

    @property
    def expected_noise(self) -> float:
        """Squared nats of noise that a further run has; none where runs are noisy by no more than rounding."""
        typical = float(np.median(self.noise))
        return typical if typical > (2.0 * self.tuning.noise_sd) ** 2 else 0.0

    def compressed_from(self, depth: float) -> float:
        """Nats below the best from where on values are compressed: far more than noise, which that would make skew."""
        return max(depth, _UNSKEWED * float(np.sqrt(np.median(self.noise))))

    @property
    def depth(self) -> float:
        """Nats below the best run within which runs matter."""
        return max(self.tuning.near_depth / self.gamma, float(self.best_depths[-1]))

    @cached_property
    def near(self) -> BoolArray:
        return np.asarray(np.max(self.y) - self.y <= self.depth)

    @property
    def asks_locally(self) -> bool:
        """Whether models of the runs that matter alone are asked: where the posterior is far and has been found.

        And where these are more than the numbers of a quadratic: with as many, any model fits.
        """
        enough = np.count_nonzero(self.near) >= _ENOUGH * few(self.z.shape[1])
        return bool(self.far and self.found and enough and not self.near.all())

    @cached_property
    def best(self) -> Data:
        """The runs that matter."""
        return replace(self, z=self.z[self.near], y=self.y[self.near], noise=self.noise[self.near])


def few(dim: int) -> int:
    """As many runs as a quadratic of so many parameters has coefficients, and a few more."""
    return (dim + 1) * (dim + 2) // 2 + dim
