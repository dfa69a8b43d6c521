"""The Gaussian copula between marginals, by the correlation that parameters are to have (the Nataf model)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import linalg, optimize, special

from tbq.common.errors import ArgumentError
from tbq.common.types import Array, Distribution

_STRONG = 0.1  # smallest eigenvalue of a correlation matrix: a pair's at a correlation of 0.9


def normal_score(marginal: Distribution, x: Array) -> Array:
    """Φ⁻¹(F(x)), from the nearer tail so that it stays finite far out."""
    lower = marginal.cdf(x)
    score = np.where(lower < 0.5, special.ndtri(lower), -special.ndtri(marginal.sf(x)))
    return np.clip(score, -38.0, 38.0)  # beyond, the tail probability underflows


def log_copula(normal: Array, correlation: Array) -> Array:
    """Log density of the copula at normal scores, rows of which are points."""
    factor = linalg.cholesky(correlation, lower=True)
    white = linalg.solve_triangular(factor, normal.T, lower=True).T
    return 0.5 * np.sum(normal**2 - white**2, axis=1) - np.log(np.diag(factor)).sum()


def whitening(copula: Array) -> Array | None:
    """Lower triangular F, with which F⁻¹u of normal scores u are independent; None where they nearly are.

    Weak correlations are left alone: F⁻¹ slants the borders of bounded parameters, and a process needs no help there.
    """
    return np.asarray(linalg.cholesky(copula, lower=True)) if linalg.eigvalsh(copula)[0] < _STRONG else None


def nataf(correlation: Array, marginals: Mapping[str, Distribution]) -> Array:
    """Correlation of the underlying normals that gives the parameters the wanted correlation."""
    names = list(marginals)
    nodes, weights = np.polynomial.hermite_e.hermegauss(48)
    weights = weights / weights.sum()
    copula = np.eye(len(names))
    for i, j in np.argwhere(np.triu(correlation, 1)):
        copula[i, j] = copula[j, i] = _nataf_pair(
            float(correlation[i, j]), (names[i], names[j]), marginals, nodes, weights
        )
    if not linalg.eigvalsh(copula)[0] > 1e-10:
        raise ArgumentError(
            "Prior: correlation cannot be had with these marginals: the Gaussian copula that would "
            "give it is not positive definite; use weaker correlations"
        )
    return copula


def _nataf_pair(
    wanted: float, pair: tuple[str, str], marginals: Mapping[str, Distribution], nodes: Array, weights: Array
) -> float:
    def standardised(name: str, normal: Array) -> Array:
        m = marginals[name]
        x = np.where(normal < 0, m.ppf(special.ndtr(normal)), m.isf(special.ndtr(-normal)))
        return (x - m.mean()) / m.std()

    if not all(np.isfinite(marginals[name].std()) for name in pair):
        raise ArgumentError(f"Prior: correlation between {pair[0]!r} and {pair[1]!r} does not exist: infinite variance")
    first = standardised(pair[0], nodes)

    def correlation(r: float) -> float:
        second = standardised(pair[1], r * nodes[:, None] + np.sqrt(1.0 - r * r) * nodes[None, :])
        return float((weights * first) @ second @ weights)

    low, high = correlation(-0.9999), correlation(0.9999)
    if not low < wanted < high:
        raise ArgumentError(
            f"Prior: correlation {wanted:g} between {pair[0]!r} and {pair[1]!r} cannot be had with these "
            f"marginals; they allow {low:.3f} to {high:.3f}"
        )
    return float(optimize.brentq(lambda r: correlation(r) - wanted, -0.9999, 0.9999, xtol=1e-10))
