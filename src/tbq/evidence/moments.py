"""The evidence under a surrogate, by quadrature over weighted points: mean, standard deviation and upper bound.

A population of points z_k with log-weights ω_k stands for a measure: ∫ φ ≈ Σ_k e^{ω_k} φ(z_k). For draws from the
prior, ω_k = −log n. Then Z = Σ_k e^{ω_k} E[L^γ(z_k)], and w_k, the normalised terms, are posterior weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from tbq.common.types import Array, IntArray
from tbq.surrogate.protocol import P, Surrogate

_LARGEST_LOG_RATIO = 600.0  # exp of it is finite; a surrogate with such a spread has not converged anyway
_FEWEST_TAIL = 5  # weights from which a tail can be told
_LEAST_TAIL = 0.01  # of the sum that their excess over the others must be: less cannot rule it, whatever its shape
_PLACEMENT_CAP = 2.0  # nodes are placed for the variance too, but not beyond this many nats of spread


def normalise(log_terms: Array) -> tuple[float, Array]:
    """log Σ exp(terms) and each term's fraction of the sum."""
    total = float(special.logsumexp(log_terms))
    return total, np.exp(log_terms - total)


def mean_and_sd(draws: Array) -> tuple[Array, Array]:
    """Of each column; its scale may be one whose squares are no floating-point numbers."""
    centre = np.median(draws, axis=0)
    unit = np.max(np.abs(draws - centre), axis=0)
    unit[unit == 0.0] = 1.0
    scaled = (draws - centre) / unit
    return centre + unit * scaled.mean(axis=0), unit * scaled.std(axis=0)


def effective_sample_size(weights: Array) -> float:
    """(Σw)²/Σw²: n for equal weights, 1 for a single one."""
    return float(weights.sum() ** 2 / np.sum(weights**2))


class Nodes(NamedTuple):
    """A few of many weighted points, which do the work of all."""

    which: IntArray  # (k,) rows of the points
    weights: Array  # (k,)
    own: Array  # (k,) fraction of its weight squared with which a node's pair with itself counts


def evidence_cov(
    surrogate: Surrogate[P],
    nodes: P,
    weights: Array,
    gamma: float = 1.0,
    cap: float = np.inf,
    own: Array | None = None,
) -> float:
    """σ_Z/μ_Z by the double sum over all pairs of nodes (eq:PostVarEvidence, eq:PostVarRatio).

    ``cap`` is the largest spread, in nats, that a node may have. ``own`` is as of :class:`Nodes`: points that a
    node stands for err together less than the node with itself.
    """
    log_ratio = np.minimum(surrogate.log_ratio(nodes, nodes, gamma), min(cap**2, _LARGEST_LOG_RATIO))
    pairs = np.outer(weights, weights)
    if own is not None:
        pairs[np.diag_indices(len(weights))] *= own
        pairs /= pairs.sum()
    return float(np.sqrt(np.maximum(np.sum(pairs * np.expm1(log_ratio)), 0.0)))


def evidence_cov_bound(
    surrogate: Surrogate[P], points: P, weights: Array, gamma: float = 1.0, cap: float = np.inf
) -> float:
    """Its Cauchy–Schwarz upper bound σ̄_Z/μ_Z, which needs no pairs (eq:UppBoundVarZ, eq:PostVarBoundRatio).

    ``cap`` is the largest spread, in nats, that a point may have. Without it the bound is ruled by the empty corners
    of the prior, and astronomically large where the surrogate has converged everywhere that matters.
    """
    log_ratio = np.minimum(surrogate.log_ratio_diagonal(points, gamma), min(cap**2, _LARGEST_LOG_RATIO))
    return float(weights @ np.sqrt(np.expm1(log_ratio)))


def log_bridge(lower_at_lower: Array, upper_at_lower: Array, lower_at_upper: Array, upper_at_upper: Array) -> float:
    """log Z_j/Z_{j−1} from both populations through their geometric mean (eq:bridgeestimate).

    The arguments are the log-densities of stages j − 1 (lower) and j (upper) at the points of each.
    """
    numerator = special.logsumexp(0.5 * (upper_at_lower - lower_at_lower)) - np.log(len(lower_at_lower))
    denominator = special.logsumexp(0.5 * (lower_at_upper - upper_at_upper)) - np.log(len(upper_at_upper))
    return float(numerator - denominator)


def place_nodes(
    surrogate: Surrogate[P], points: P, weights: Array, gamma: float, n: int, rng: np.random.Generator
) -> Nodes:
    """Choose ``n`` of many weighted points so that few do the work of all.

    Points are resampled in proportion to w·√ρ, which is where the evidence and its variance live, and carry the
    rest as weight. One that was expected e < 1 times stands for 1/e points like it, whose pairs with themselves are a
    fraction e of all pairs among them.
    """
    spread = np.minimum(surrogate.log_ratio_diagonal(points, gamma), _PLACEMENT_CAP**2)
    boost = np.exp(0.5 * spread)
    density = weights * boost
    index, counts = np.unique(systematic_resample(density, n, rng), return_counts=True)
    chosen = counts / boost[index]
    expected = n * density[index] / density.sum()
    return Nodes(index, chosen / chosen.sum(), np.minimum(expected, 1.0))


def systematic_resample(weights: Array, n: int, rng: np.random.Generator) -> IntArray:
    """``n`` indices drawn in proportion to the weights with one random number: each count is within one of n·w."""
    edges = np.cumsum(weights)
    positions = (rng.random() + np.arange(n)) / n * edges[-1]
    return np.minimum(np.searchsorted(edges, positions, side="right"), len(weights) - 1)


def tail_index(weights: Array) -> float:
    """k̂ of a generalised Pareto distribution fitted to the largest weights (Zhang and Stephens 2009, as in PSIS).

    Below 0.5 their variance is finite; above 0.7 the sum they make is not to be believed. Nearly equal weights have no
    tail.
    """
    ordered = np.sort(weights)
    n = int(min(0.2 * len(ordered), 3.0 * np.sqrt(len(ordered))))
    tail = ordered[-n:] - ordered[-n - 1] if n else ordered
    tail = tail[tail > 1e-12 * ordered[-1]]
    if len(tail) < _FEWEST_TAIL or tail.sum() < _LEAST_TAIL * ordered.sum():
        return 0.0
    m = 30 + int(np.sqrt(len(tail)))
    quarter = tail[int(len(tail) / 4 + 0.5) - 1]
    b = 1.0 / tail[-1] + (1.0 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3.0 * quarter)
    b[b == 0.0] = 1e-9 / tail[-1]  # an exponential tail, where the ratio of b and k has only a limit
    k = np.mean(np.log1p(-b[:, None] * tail), axis=1)
    _, fraction = normalise(len(tail) * (np.log(-b / k) - k - 1.0))
    estimate = float(np.mean(np.log1p(-(fraction @ b) * tail)))
    return (len(tail) * estimate + 5.0) / (len(tail) + 10.0)  # ten observations' worth of prior at one half
