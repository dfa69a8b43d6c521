"""Acquisition functions: the value of a run at z. Logarithms, in units of the evidence, larger is better.

Each is a pure function of a :class:`~tbq.evidence.target.Target` and of points z (n, d); each is written once, with
the tempering γ in it. Dividing by the evidence makes them invariant to a constant in the log-likelihood; the logarithm
keeps them finite where a young surrogate is off by hundreds of nats. Densities are those of working coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from scipy import special

from tbq.common.types import Array
from tbq.evidence.target import Target
from tbq.surrogate.protocol import log_expm1

_PAIRS = 2**18  # of points and nodes, looked at together
_LARGE = 100.0  # nats that a run may reveal before sums are taken of logarithms


Acquisition = Callable[[Target, Array], Array]


def _in_blocks(function: Acquisition) -> Acquisition:
    """The same function, some points at a time: what it computes for each pair of point and node stays in the cache."""

    @wraps(function)
    def blocks(target: Target, z: Array) -> Array:
        rows = max(_PAIRS // len(target.weights), 1)
        if len(z) <= rows:
            return function(target, z)
        return np.concatenate([function(target, z[i : i + rows]) for i in range(0, len(z), rows)])

    return blocks


def puq(target: Target, z: Array) -> Array:
    """Prediction uncertainty: σ_like(z) p(z) / Z (eq:PUQ)."""
    return puq_at(target, target.surrogate.at(z), z)


def puq_at(target: Target, points: Any, z: Array) -> Array:
    """PUQ at points already prepared."""
    log_sd = 0.5 * log_expm1(target.surrogate.log_ratio_diagonal(points, target.gamma))
    return log_sd + _log_posterior(target, points, z)


@_in_blocks
def pvc(target: Target, z: Array) -> Array:
    """Contribution to the evidence's variance: p(z) ∫ c_like(z, z') p(z') dz' / Z² (eq:PVCmodifeid).

    Negative contributions, which the maximum never takes, are floored so that the logarithm exists.
    """
    value, scale, points = _variance_contribution(target, z)
    return np.log(np.maximum(value, 0.0) + scale) + _log_posterior(target, points, z)


@_in_blocks
def abs_pvc(target: Target, z: Array) -> Array:
    """Its absolute value: a negative contribution counts as much."""
    value, scale, points = _variance_contribution(target, z)
    return np.log(np.abs(value) + scale) + _log_posterior(target, points, z)


@_in_blocks
def plur(target: Target, z: Array) -> Array:
    """Expected reduction of the likelihood's variance, over the prior, by a run at z: / Z² (eq:DefPLUR)."""
    s = target.surrogate
    revealed = s.revealed_log_ratio(s.at(z), target.nodes, target.gamma)
    with np.errstate(divide="ignore"):
        log_weights = np.log(target.weights) + s.log_mean(target.nodes, target.gamma) - target.log_evidence
    if np.max(revealed, initial=0.0) > _LARGE:
        return np.asarray(special.logsumexp(log_expm1(revealed) + log_weights, axis=1))
    top = float(np.max(log_weights))
    return top + np.log(np.expm1(np.maximum(revealed, 1e-30)) @ np.exp(log_weights - top))


@_in_blocks
def peur(target: Target, z: Array) -> Array:
    """Expected reduction of the evidence's variance by a run at z: / Z² (eq:DefPEUR), by the full double sum."""
    s = target.surrogate
    revealed = s.revealed_variance(s.at(z), target.nodes, target.weights, target.gamma)
    return np.log(np.maximum(revealed, 1e-300))


@_in_blocks
def peur_ranking(target: Target, z: Array) -> Array:
    """PEUR, or what ranks points by it where the double sum takes long."""
    s = target.surrogate
    revealed = s.revealed_variance(s.at(z), target.nodes, target.weights, target.gamma, ranking=True)
    return np.log(np.maximum(revealed, 1e-300))


def interval(target: Target, z: Array) -> Array:
    """Width of the 95 % credible interval of the posterior density, as in the original TBQ (Wei 2025): / Z."""
    points = target.surrogate.at(z)
    reach = 1.96 * np.sqrt(target.surrogate.log_ratio_diagonal(points, target.gamma)) + 1e-15
    width = reach + log_expm1(2.0 * reach) - 2.0 * reach  # log 2 sinh(reach)
    return width + _log_posterior(target, points, z)


ACQUISITIONS: dict[str, Acquisition] = {
    "puq": puq,
    "pvc": pvc,
    "abs_pvc": abs_pvc,
    "plur": plur,
    "peur": peur,
    "interval": interval,
}
RANKINGS: dict[Acquisition, Acquisition] = {peur: peur_ranking}  # functions by which the best of many points are found
ENSEMBLE = ("puq", "pvc", "plur", "peur")


def named(choice: str | Acquisition, n: int) -> list[tuple[str, Acquisition]]:
    """The functions that choose the next ``n`` points, with their names: the ensemble's take turns."""
    if callable(choice):
        return [(getattr(choice, "__name__", "callable"), choice)] * n
    names = ENSEMBLE * n if choice == "ensemble" else (choice,) * n
    return [(name, ACQUISITIONS[name]) for name in names[:n]]


def _log_posterior(target: Target, points: Any, z: Array) -> Array:
    """log of E[L^γ(z)] p(z) / Z, the normalised posterior density."""
    return target.surrogate.log_mean(points, target.gamma) + target.log_prior(z) - target.log_evidence


def _variance_contribution(target: Target, z: Array) -> tuple[Array, Array, Any]:
    """Σ_k w_k (ρ(z, z_k) − 1), and a floor far below what it could be that keeps its logarithm finite."""
    s = target.surrogate
    points = s.at(z)
    ratio = np.expm1(np.clip(s.log_ratio(points, target.nodes, target.gamma), -600.0, 600.0))
    return ratio @ target.weights, 1e-12 * (np.abs(ratio) @ target.weights) + 1e-100, points
