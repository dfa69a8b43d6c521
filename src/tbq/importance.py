"""Importance sampling of a surrogate's posterior from a density fitted to draws of it.

The draws' marginals are mapped to normal ones, a Gaussian mixture is fitted there, and a share of the prior is mixed
in, so that no region of the prior goes unseen and no weight is unbounded where the fit is poor.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from tbq.types import Array

_COMPONENTS = (1, 2, 4, 8, 16, 32)
_KNOTS = 33
_SPREAD_SHARE = 0.1  # of each marginal map that is uniform over the prior's range
_INFLATION = 1.15  # of the mixture's standard deviations: heavier than the target, rather than lighter
_FIT_DRAWS = 4000
PRIOR_SHARE = 0.1


@dataclass(frozen=True)
class Margin:
    """A piecewise linear distribution function of one coordinate."""

    knots: Array
    levels: Array  # the function at the knots, from 0 to 1

    def to_normal(self, x: Array) -> tuple[Array, Array]:
        """Φ⁻¹(F(x)) and the log-density that a standard normal there has at x."""
        inside = np.clip(np.searchsorted(self.knots, x, side="right") - 1, 0, len(self.knots) - 2)
        slope = np.diff(self.levels)[inside] / np.diff(self.knots)[inside]
        y = special.ndtri(np.clip(np.interp(x, self.knots, self.levels), 1e-12, 1.0 - 1e-12))
        return y, np.log(slope) + 0.5 * y**2 + 0.5 * np.log(2.0 * np.pi)

    def from_normal(self, y: Array) -> Array:
        return np.interp(special.ndtr(y), self.levels, self.knots)


@dataclass(frozen=True)
class Mixture:
    """A Gaussian mixture in normal coordinates, as a density of working coordinates."""

    margins: tuple[Margin, ...]
    weights: Array
    means: Array
    factors: Array  # Cholesky factors of the covariances, (K, d, d)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        edges = np.cumsum(self.weights)
        component = np.searchsorted(edges / edges[-1], (rng.random() + np.arange(n)) / n)
        component = np.minimum(component, len(self.weights) - 1)
        noise = rng.standard_normal((n, len(self.margins)))
        y = self.means[component] + np.einsum("nij,nj->ni", self.factors[component], noise)
        return np.column_stack([m.from_normal(y[:, i]) for i, m in enumerate(self.margins)])

    def log_density(self, z: Array) -> Array:
        mapped = [m.to_normal(z[:, i]) for i, m in enumerate(self.margins)]
        y, slopes = np.column_stack([a for a, _ in mapped]), np.sum([b for _, b in mapped], axis=0)
        return _log_mixture(y, self.weights, self.means, self.factors) + slopes


@dataclass(frozen=True)
class Draws:
    """Weighted points: Z = Σ e^{ω_k} L(z_k) for any likelihood L of the same posterior."""

    z: Array
    log_weights: Array


def fit_mixture(z: Array, low: Array, high: Array, rng: np.random.Generator) -> Mixture:
    """A mixture close to the density that ``z`` was drawn from; its size is chosen by the draws left out."""
    from sklearn.mixture import GaussianMixture

    z = np.unique(z, axis=0)  # copies from resampling would make every extra component look good
    z = z[rng.permutation(len(z))[:_FIT_DRAWS]]
    margins = tuple(_margin(column, a, b) for column, a, b in zip(z.T, low, high, strict=True))
    y = np.column_stack([m.to_normal(z[:, i])[0] for i, m in enumerate(margins)])
    half = len(y) // 2
    best, best_score = None, -np.inf
    for k in _COMPONENTS:
        if k * (y.shape[1] + 2) > half:
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that has not fully converged is as good a proposal
            fitted = GaussianMixture(k, reg_covar=1e-3, max_iter=60, random_state=0).fit(y[:half])
        score = float(fitted.score(y[half:]))
        if score < best_score + 0.005:
            break
        best, best_score = fitted, score
    if best is None:  # fewer draws than one component needs
        return Mixture(margins, np.ones(1), np.zeros((1, z.shape[1])), np.eye(z.shape[1])[None])
    factors = np.array([linalg.cholesky(c, lower=True) for c in best.covariances_])
    return Mixture(margins, best.weights_, best.means_, _INFLATION * factors)


def sample(
    mixture: Mixture, prior_draws: Array, log_prior: Callable[[Array], Array], n: int, rng: np.random.Generator
) -> Draws:
    """``n`` points of the mixture together with the prior's own, weighted by what both would have drawn."""
    z = np.vstack([mixture.sample(n, rng), prior_draws])
    prior = log_prior(z)
    share = len(prior_draws) / len(z)
    log_proposal = np.logaddexp(np.log1p(-share) + mixture.log_density(z), np.log(share) + prior)
    inside = np.isfinite(prior)
    return Draws(z[inside], (prior - log_proposal)[inside] - np.log(len(z)))


def _margin(x: Array, low: float, high: float) -> Margin:
    quantiles = np.quantile(x, np.linspace(0.0, 1.0, _KNOTS))
    pad = 0.1 * (quantiles[-1] - quantiles[0]) + 1e-3 * (high - low)
    knots = np.unique(
        np.clip(np.concatenate([[low, high, quantiles[0] - pad, quantiles[-1] + pad], quantiles]), low, high)
    )
    knots = knots[np.append(True, np.diff(knots) > 1e-9 * (high - low))]
    knots[-1] = high
    counts = np.histogram(x, knots)[0] / len(x)
    mass = (1.0 - _SPREAD_SHARE) * counts + _SPREAD_SHARE * np.diff(knots) / (high - low)
    levels = np.concatenate([[0.0], np.cumsum(mass)])
    return Margin(knots, levels / levels[-1])


def _log_mixture(y: Array, weights: Array, means: Array, factors: Array) -> Array:
    d = y.shape[1]
    parts = []
    for weight, mean, factor in zip(weights, means, factors, strict=True):
        white = linalg.solve_triangular(factor, (y - mean).T, lower=True, check_finite=False)
        log_det = np.log(np.diag(factor)).sum()
        parts.append(np.log(weight + 1e-300) - 0.5 * np.sum(white**2, axis=0) - log_det)
    return np.asarray(special.logsumexp(parts, axis=0)) - 0.5 * d * np.log(2.0 * np.pi)
