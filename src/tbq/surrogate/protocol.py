"""What engines, acquisition functions, stopping rules and evidences see of a surrogate.

A surrogate is a random function: its belief about the likelihood L. All of the method is written in three
quantities of the tempered likelihood L^γ, so that a Gaussian process on the log-likelihood and Gaussian processes
on a simulator's outputs can stand behind the same engine:

* log E[L^γ(z)],
* log ρ(z, z') with ρ = E[L^γ(z) L^γ(z')] / (E[L^γ(z)] E[L^γ(z')]), so that ρ − 1 is the relative covariance,
* the same ratio ρ⁺ of what one more run is expected to reveal: of z ↦ E[L^γ(z) | the run].

Points live in the prior's working coordinates. ``at`` does the expensive part once per set of points.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, Self, TypeVar

import numpy as np
from scipy.spatial import distance

from tbq.common.types import Array, BoolArray, IntArray

# The most nats (1 sd) that anything is believed to move the log-likelihood by. Beyond, expectations of exponentials
# rest on events no one will see, and a few points of large spread would rule.
SPREAD_CLIP = 4.0
_SAME = 1e-9  # points this close in working coordinates are one run


class Points(Protocol):
    """A set of points with whatever the surrogate precomputed for them."""

    def take(self, index: IntArray) -> Self:
        """The chosen points."""


P = TypeVar("P", bound=Points)


class Surrogate(Protocol[P]):
    """A belief about the likelihood. Immutable."""

    @property
    def description(self) -> str:
        """Which model it is, in words."""

    @property
    def unguarded(self) -> Self:
        """Without what keeps it from believing in likelihoods far from all runs."""

    def at(self, z: Array) -> P:
        """Prepare points, shape (n, d)."""

    def log_likelihood(self, points: P) -> tuple[Array, Array]:
        """Mean and variance of log L, shapes (n,)."""

    def log_upper(self, points: P, deviations: float) -> Array:
        """log L so many standard deviations above what is expected, shape (n,)."""

    def left_out(self, z: Array) -> tuple[Array, Array] | None:
        """Mean and variance of log L at runs made at ``z``, each as predicted from all others.

        The runs are given in the order in which they were learned; None where not all of them were, but nan for those
        that a local surrogate did not learn because they are deep.
        """

    def log_mean(self, points: P, gamma: float) -> Array:
        """log E[L^γ], shape (n,)."""

    def log_ratio(self, a: P, b: P, gamma: float) -> Array:
        """log ρ between two sets of points, shape (n, m)."""

    def log_ratio_diagonal(self, points: P, gamma: float) -> Array:
        """log ρ(z, z), shape (n,): the relative variance of L^γ is exp of it, minus one."""

    def revealed_log_ratio(self, new: P, nodes: P, gamma: float) -> Array:
        """log ρ⁺(z_k, z_k) for a run at each new point, shape (n_new, n_nodes)."""

    def revealed_variance(self, new: P, nodes: P, weights: Array, gamma: float, *, ranking: bool = False) -> Array:
        """Σ_kl w_k w_l (ρ⁺(z_k, z_l) − 1) for a run at each new point, shape (n_new,).

        Where only the best of many are wanted (``ranking``), the leading terms do if the sum takes long.
        """

    def condition_on_mean(self, z: Array) -> Self:
        """The surrogate after a run at one point z that returns just what is expected there."""

    def alternatives(self, n: int, rng: np.random.Generator) -> Iterator[Self]:
        """The surrogate at up to ``n`` other plausible hyperparameters."""


def are_among(x: Array, z: Array) -> BoolArray:
    """Which of the points ``z`` are rows of ``x``."""
    return np.asarray(distance.cdist(z, x).min(axis=1, initial=np.inf) < _SAME)


def rows_at(x: Array, z: Array) -> IntArray | None:
    """Which rows of ``x`` are the points ``z``, both in the same order; None where that is not certain."""
    if len(x) == 0 or len(z) == 0:
        return None
    rows = np.flatnonzero(distance.cdist(x, z).min(axis=1) < _SAME)
    return rows if len(rows) == len(z) else None


def log_expm1(x: Array) -> Array:
    """log(eˣ − 1) for x ≥ 0, finite everywhere: x below 1e-30 counts as 1e-30, and large x does not overflow."""
    x = np.maximum(x, 1e-30)
    return np.where(x > 30.0, x, np.log(np.expm1(np.minimum(x, 30.0))))
