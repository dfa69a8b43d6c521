"""Gaussian mixtures by expectation maximisation, fast on a few thousand points.

Each step is two matrix products: responsibilities are linear in the products yᵢyⱼ of the coordinates, and so are the
components' moments. Coordinates are of unit scale, so that nothing is lost to cancellation.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.cluster import vq

from tbq.types import Array

_STEPS = 60  # at most; a fit that has not fully converged is as good a proposal
_ENOUGH = 1e-3  # gain in mean log-density per step below which the fit ends
_CLUSTER_STEPS = 5
_ATTEMPTS = 2  # at clusters to start from
_EMPTY = 1e-10  # points that a component must have, so that its moments exist


@dataclass(frozen=True)
class GaussianMixture:
    """Weights, means and covariances of K normal densities."""

    weights: Array  # (K,)
    means: Array  # (K, d)
    covariances: Array  # (K, d, d)

    def log_density(self, y: Array) -> Array:
        """At the rows of ``y``."""
        return _shares(self._log_parts(_products(y)))[1]

    def _log_parts(self, products: Array) -> Array:
        """log of each component's weight times its density, (n, K), from the products of the coordinates."""
        d = self.means.shape[1]
        precision = np.linalg.inv(self.covariances)
        slope = np.einsum("kij,kj->ki", precision, self.means)
        log_scale = np.linalg.slogdet(self.covariances)[1] + d * np.log(2.0 * np.pi)
        constant = np.log(self.weights) - 0.5 * (log_scale + np.einsum("ki,ki->k", slope, self.means))
        return products @ np.hstack([constant[:, None], slope, -0.5 * precision.reshape(-1, d * d)]).T


def fit(y: Array, k: int, floor: float) -> GaussianMixture:
    """The mixture of ``k`` components that starts from clusters of the points; ``floor`` is added to all variances."""
    products, d = _products(y), y.shape[1]
    mixture = _of(_clusters(y, k), products, d, floor)
    last = -np.inf
    for _ in range(_STEPS):
        shares, log_density = _shares(mixture._log_parts(products))
        now = float(log_density.mean())
        mixture = _of(shares, products, d, floor)
        if abs(now - last) < _ENOUGH:
            break
        last = now
    return mixture


def _products(y: Array) -> Array:
    """(1, yᵢ, yᵢyⱼ) of each point, (n, 1 + d + d²)."""
    n, d = y.shape
    return np.hstack([np.ones((n, 1)), y, (y[:, :, None] * y[:, None, :]).reshape(n, d * d)])


def _shares(log_parts: Array) -> tuple[Array, Array]:
    """Each component's share of the density at each point, (n, K), and the logarithm of their sum."""
    top = log_parts.max(axis=1, keepdims=True)
    parts = np.exp(log_parts - top)
    total = parts.sum(axis=1, keepdims=True)
    return parts / total, (top + np.log(total))[:, 0]


def _of(shares: Array, products: Array, d: int, floor: float) -> GaussianMixture:
    """The mixture whose components have these shares of the points, (n, K)."""
    moments = shares.T @ products
    counts = moments[:, :1] + _EMPTY
    means = moments[:, 1 : d + 1] / counts
    squares = (moments[:, d + 1 :] / counts).reshape(-1, d, d)
    covariances = squares - means[:, :, None] * means[:, None, :] + floor * np.eye(d)
    return GaussianMixture(counts[:, 0] / counts.sum(), means, covariances)


def _clusters(y: Array, k: int) -> Array:
    """Which of ``k`` clusters each point is in, as shares of 0 and 1: the tightest of a few attempts."""
    best, tightest = np.zeros(len(y), dtype=int), np.inf
    for attempt in range(_ATTEMPTS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty cluster is a component of no weight
            centers, label = vq.kmeans2(y, k, iter=_CLUSTER_STEPS, minit="++", rng=attempt)
        spread = float(np.sum((y - centers[label]) ** 2))
        if spread < tightest:
            best, tightest = label, spread
    return np.asarray(np.eye(k)[best])
