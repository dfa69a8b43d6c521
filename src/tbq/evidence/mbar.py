"""The multi-state Bennett acceptance ratio: normalising constants from samples of many densities at once.

Given points from densities q_k/c_k, k = 0 … K−1, MBAR finds all c_k (up to one common factor) and from them the
integral of any other density, each with the smallest variance that these points allow (Shirts and Chodera 2008).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize, special

from tbq.common.types import Array


@dataclass(frozen=True)
class Estimate:
    """log of ∫target / c₀, its Monte-Carlo standard deviation, and log-weights that integrate any other target."""

    log_value: float
    sd: float
    log_weights: Array  # log ∫f / c₀ ≈ log Σ exp(log f + log_weights)


def mbar(log_densities: Array, counts: Array, log_target: Array) -> Estimate:
    """Integrate ``log_target`` over points from K densities.

    ``log_densities`` is (K, n): every density at every point; ``counts`` (K,) says how many of the points came
    from each. The first density's constant is the unit.
    """
    free = _solve(log_densities, counts)
    log_mixture = special.logsumexp(log_densities - free[:, None], axis=0, b=counts[:, None])
    log_terms = log_target - log_mixture
    log_value = float(special.logsumexp(log_terms))
    states = np.exp(np.vstack([log_densities - free[:, None] - log_mixture, log_terms - log_value]))
    covariance = _covariance(states.T, np.append(counts, 0.0))
    variance = covariance[-1, -1] + covariance[0, 0] - 2.0 * covariance[0, -1]
    return Estimate(log_value - float(free[0]), float(np.sqrt(max(variance, 0.0))), -log_mixture - free[0])


def _solve(log_densities: Array, counts: Array) -> Array:
    """log c_k with log c₀ = 0: the minimum of a convex function, by Newton's method with a trust region."""
    shift = log_densities.max(axis=1)  # so that the start is near the solution whatever the scale
    scaled = log_densities - shift[:, None]
    total = counts.sum()

    def terms(f: Array) -> tuple[Array, Array]:
        full = np.concatenate([[0.0], f])
        log_parts = scaled + full[:, None] + np.log(counts)[:, None]
        log_mixture = special.logsumexp(log_parts, axis=0)
        return log_mixture, np.exp(log_parts - log_mixture)

    def value(f: Array) -> float:
        return float((terms(f)[0].sum() - counts[1:] @ f) / total)

    def gradient(f: Array) -> Array:
        return (terms(f)[1].sum(axis=1)[1:] - counts[1:]) / total

    def hessian(f: Array) -> Array:
        fraction = terms(f)[1][1:]
        return (np.diag(fraction.sum(axis=1)) - fraction @ fraction.T) / total

    if len(counts) == 1:
        return np.zeros(1)
    start = special.logsumexp(scaled, axis=1)
    found = optimize.minimize(
        value, -(start[1:] - start[0]), jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-9}
    )
    log_constants = np.concatenate([[0.0], -found.x]) + shift
    return log_constants - log_constants[0]


def _covariance(weights: Array, counts: Array) -> Array:
    """Asymptotic covariance of the log-constants (their eq. D9), for weights (n, K)."""
    _, s, vt = linalg.svd(weights, full_matrices=False)
    v = vt.T
    inner = np.eye(len(s)) - s[:, None] * ((v.T * counts) @ v) * s[None, :]
    # one eigenvalue is zero but for rounding: a common factor of all constants, which no difference sees
    return v @ (s[:, None] * linalg.pinvh(inner, atol=1e-10) * s[None, :]) @ v.T
