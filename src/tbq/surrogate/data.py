"""Runs that a surrogate of log-likelihoods is made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tbq.common.types import Array, BoolArray
from tbq.problem.tuning import Tuning
from tbq.surrogate.warp import Frame


@dataclass(frozen=True)
class Data:
    """Runs to learn from, and what they are learned for."""

    z: Array  # (n, d) in working coordinates
    y: Array  # (n,) log-likelihoods
    noise: Array  # (n,) variances of their noise
    gamma: float  # tempering that the surrogate is for
    frame: Frame | None  # coordinates of the population; None for the working ones
    tuning: Tuning

    @cached_property
    def best_depths(self) -> Array:
        """Depths of the best runs, a few of them."""
        return np.sort(np.max(self.y) - self.y)[: few(self.z.shape[1])]

    @property
    def scale(self) -> float:
        """Nats in which depths are seen, and by which no run is expected to exceed the best one."""
        return max(self.tuning.warp_depth, float(np.median(self.best_depths)))

    @property
    def depth(self) -> float:
        """Nats below the best run within which runs matter."""
        return max(self.tuning.near_depth / self.gamma, float(self.best_depths[-1]))

    @cached_property
    def near(self) -> BoolArray:
        return np.asarray(np.max(self.y) - self.y <= self.depth)


def few(dim: int) -> int:
    """As many runs as a quadratic of so many parameters has coefficients, and a few more."""
    return (dim + 1) * (dim + 2) // 2 + dim
