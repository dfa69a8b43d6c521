"""Importance sampling of a surrogate's posterior from a density fitted to draws of it.

The draws' marginals are mapped to normal ones, Gaussian mixtures are fitted there, and a fraction of the prior is mixed
in, so that no region of the prior goes unseen and no weight is unbounded where the fit is poor.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, special
from scipy.cluster import vq
from scipy.sparse import csgraph
from scipy.stats import qmc

from tbq.common.types import Array, IntArray
from tbq.evidence.moments import systematic_resample

_COMPONENTS = (1, 2, 4, 8, 16, 32)
_KNOTS = 33
_SPREAD_FRACTION = 0.2  # of the draws that some marginal map spreads over the prior's range
_INFLATION = 1.15  # of the mixture's standard deviations: heavier than the target, rather than lighter
_FIT_DRAWS = 4000
_BINS = 8  # per coordinate, of the estimate of mutual information
_DEPENDENT = 0.03  # nats of it that make two coordinates dependent
PRIOR_FRACTION = 0.1
FREEDOM = 8.0  # degrees of the Student-t densities where there are few parameters
_STUDENT_INFLATION = 1.05
_EM_STEPS = 60  # at most; a fit that has not fully converged is as good a proposal
_EM_GAIN = 1e-3  # gain in mean log-density per step below which the fit ends
_CLUSTER_STEPS = 5
_ATTEMPTS = 2  # at clusters to start from
_AT_ONCE = 2**20  # elements of the factors that are copied at once
_EMPTY = 1e-10  # points that a component must have, so that its moments exist


@dataclass(frozen=True)
class Margin:
    """A piecewise linear distribution function of one coordinate."""

    knots: Array  # (k,)
    levels: Array  # (k,): the function at the knots, from 0 to 1

    def to_normal(self, x: Array) -> tuple[Array, Array]:
        """Φ⁻¹(F(x)) and the log-density that a standard normal there has at x."""
        inside = np.clip(np.searchsorted(self.knots, x, side="right") - 1, 0, len(self.knots) - 2)
        slope = np.diff(self.levels)[inside] / np.diff(self.knots)[inside]
        y = special.ndtri(np.clip(np.interp(x, self.knots, self.levels), 1e-12, 1.0 - 1e-12))
        return y, np.log(slope) + 0.5 * y**2 + 0.5 * np.log(2.0 * np.pi)

    def from_normal(self, y: Array) -> Array:
        return np.interp(special.ndtr(y), self.levels, self.knots)


@dataclass(frozen=True)
class Block:
    """A Gaussian mixture of some coordinates, in normal coordinates."""

    columns: IntArray  # (d,)
    weights: Array  # (K,)
    means: Array  # (K, d)
    factors: Array  # Cholesky factors of the covariances, (K, d, d)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        component = rng.permutation(systematic_resample(self.weights, n, rng))
        noise = rng.standard_normal((n, len(self.columns)))
        return self.means[component] + _stretched(self.factors, component, noise)

    def log_density(self, y: Array) -> Array:
        parts = []
        for weight, mean, factor in zip(self.weights, self.means, self.factors, strict=True):
            white = linalg.solve_triangular(factor, (y[:, self.columns] - mean).T, lower=True, check_finite=False)
            parts.append(np.log(weight + 1e-300) - 0.5 * np.sum(white**2, axis=0) - np.log(np.diag(factor)).sum())
        return np.asarray(special.logsumexp(parts, axis=0)) - 0.5 * len(self.columns) * np.log(2.0 * np.pi)


@dataclass(frozen=True)
class Mixture:
    """Independent blocks of mixtures in normal coordinates, as a density of working coordinates."""

    margins: tuple[Margin, ...]
    blocks: tuple[Block, ...]

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        y = np.empty((n, len(self.margins)))
        for block in self.blocks:
            y[:, block.columns] = block.sample(n, rng)
        return np.column_stack([m.from_normal(y[:, i]) for i, m in enumerate(self.margins)])

    def marginal(self, d: int) -> Mixture:
        """That of the first so many coordinates."""
        kept = [(block, np.flatnonzero(block.columns < d)) for block in self.blocks]
        blocks = [Block(b.columns[i], b.weights, b.means[:, i], _factor_of(b.factors, i)) for b, i in kept if len(i)]
        return Mixture(self.margins[:d], tuple(blocks))

    def log_density(self, z: Array) -> Array:
        mapped = [m.to_normal(z[:, i]) for i, m in enumerate(self.margins)]
        y = np.column_stack([a for a, _ in mapped])
        return np.sum([b for _, b in mapped] + [block.log_density(y) for block in self.blocks], axis=0)


@dataclass(frozen=True)
class StudentMixture:
    """A mixture of Student-t densities of working coordinates: for a few narrow modes, however they lie."""

    weights: Array  # (K,)
    means: Array  # (K, d)
    factors: Array  # (K, d, d)
    freedom: float  # degrees

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        d = self.means.shape[1]
        u = np.clip(qmc.Sobol(d + 2, rng=rng).random_base2(int(np.ceil(np.log2(n))))[:n], 1e-12, 1.0 - 1e-12)
        component = np.minimum(np.searchsorted(np.cumsum(self.weights), u[:, 0]), len(self.weights) - 1)
        heavy = np.sqrt(self.freedom / special.chdtri(self.freedom, u[:, 1]))
        noise = special.ndtri(u[:, 2:]) * heavy[:, None]
        order = rng.permutation(n)  # systematic resampling of a Sobol sequence would see its pattern
        component, noise = component[order], noise[order]
        return self.means[component] + _stretched(self.factors, component, noise)

    def log_density(self, z: Array) -> Array:
        d, parts = self.means.shape[1], []
        for weight, mean, factor in zip(self.weights, self.means, self.factors, strict=True):
            white = linalg.solve_triangular(factor, (z - mean).T, lower=True, check_finite=False)
            tail = 0.5 * (self.freedom + d) * np.log1p(np.sum(white**2, axis=0) / self.freedom)
            parts.append(np.log(weight + 1e-300) - np.log(np.diag(factor)).sum() - tail)
        constant = special.gammaln(0.5 * (self.freedom + d)) - special.gammaln(0.5 * self.freedom)
        return np.asarray(special.logsumexp(parts, axis=0)) + constant - 0.5 * d * np.log(self.freedom * np.pi)


@dataclass(frozen=True)
class Draws:
    """Weighted points: Z = Σ e^{ω_k} L(z_k) for any likelihood L of the same posterior."""

    z: Array  # (n, d)
    log_weights: Array  # (n,)
    total: int  # points drawn, those outside the prior included


def fit_mixture(z: Array, low: Array, high: Array, rng: np.random.Generator) -> Mixture:
    """A density close to the one that ``z`` was drawn from.

    Coordinates that depend on each other share a mixture, whose size is chosen by the draws left out; in ten
    dimensions one mixture for all would need more draws than there are.
    """
    z = np.unique(z, axis=0)  # copies from resampling would make every extra component look good
    z = z[rng.permutation(len(z))[:_FIT_DRAWS]]
    spread = _SPREAD_FRACTION / z.shape[1]
    margins = tuple(_margin(column, a, b, spread) for column, a, b in zip(z.T, low, high, strict=True))
    y = np.column_stack([m.to_normal(z[:, i])[0] for i, m in enumerate(margins)])
    return Mixture(margins, tuple(_fit_block(y, columns) for columns in dependent_blocks(y)))


def fit_student_mixture(z: Array, rng: np.random.Generator, freedom: float = FREEDOM) -> StudentMixture:
    """Student-t densities of so many degrees around the draws; their number is chosen by the draws left out."""
    z = np.unique(z, axis=0)
    z = z[rng.permutation(len(z))[:_FIT_DRAWS]]
    mean = z.mean(axis=0)
    away = z - mean  # nothing at all where chains never left one point
    root = linalg.cholesky(away.T @ away / max(len(z) - 1, 1) + 1e-12 * np.eye(z.shape[1]), lower=True)
    block = _fit_block(linalg.solve_triangular(root, away.T, lower=True).T, np.arange(z.shape[1]), 1e-6)
    factors = np.einsum("ij,kjl->kil", root, block.factors / _INFLATION * _STUDENT_INFLATION)
    return StudentMixture(block.weights, mean + block.means @ root.T, factors, freedom)


def _stretched(factors: Array, component: IntArray, noise: Array) -> Array:
    """Each row of noise times the factor of its component, (n, d); few rows at once have a copy of theirs."""
    rows = max(_AT_ONCE // factors[0].size, 1)
    parts = [slice(i, i + rows) for i in range(0, len(noise), rows)]
    return np.concatenate([np.einsum("nij,nj->ni", factors[component[some]], noise[some]) for some in parts])


def _factor_of(factors: Array, index: IntArray) -> Array:
    """Cholesky factors of the covariances of some coordinates, from those of all."""
    covariances = factors @ np.swapaxes(factors, 1, 2)
    return np.asarray(np.linalg.cholesky(covariances[:, index[:, None], index]), dtype=float)


def dependent_blocks(y: Array) -> list[IntArray]:
    """Groups of coordinates connected by mutual information, estimated on a grid of quantiles."""
    n, d = y.shape
    bins = _BINS if n >= 4 * _BINS**2 else 2
    cell = np.minimum(np.argsort(np.argsort(y, axis=0), axis=0) * bins // n, bins - 1)
    information = np.zeros((d, d))
    for i in range(d):
        for j in range(i):
            fraction = np.bincount(cell[:, i] * bins + cell[:, j], minlength=bins**2) / n
            seen = fraction[fraction > 0]
            information[i, j] = np.sum(seen * np.log(seen * bins**2)) - (bins - 1) ** 2 / (2 * n)  # less its bias
    _, label = csgraph.connected_components(information > _DEPENDENT, directed=False)
    return [np.flatnonzero(label == k) for k in range(label.max() + 1)]


def _fit_block(y: Array, columns: IntArray, floor: float = 1e-3) -> Block:
    """A mixture of some coordinates: half of the draws choose how many components, all of them which."""
    part, half, d = y[:, columns], len(y) // 2, len(columns)
    best, best_score = None, -np.inf
    for k in _COMPONENTS:
        if k * (d + 2) > half:
            break
        fitted = fit_gaussians(part[:half], k, floor)
        score = float(fitted.log_density(part[half:]).mean())
        if score < best_score + 0.005:
            break
        best, best_score = k, score
    if best is None:  # fewer draws than one component needs
        return Block(columns, np.ones(1), np.zeros((1, d)), np.eye(d)[None])
    fitted = fit_gaussians(part, best, floor)
    factors = np.asarray(np.linalg.cholesky(fitted.covariances), dtype=float)
    return Block(columns, fitted.weights, fitted.means, _INFLATION * factors)


def sample(
    mixture: Mixture | StudentMixture,
    prior_draws: Array,
    log_prior: Callable[[Array], Array],
    n: int,
    rng: np.random.Generator,
) -> Draws:
    """``n`` points of the mixture together with the prior's own, weighted by what both would have drawn."""
    z = np.vstack([mixture.sample(n, rng), prior_draws])
    prior = log_prior(z)
    fraction = len(prior_draws) / len(z)
    log_proposal = np.logaddexp(np.log1p(-fraction) + mixture.log_density(z), np.log(fraction) + prior)
    inside = np.isfinite(prior)
    return Draws(z[inside], (prior - log_proposal)[inside] - np.log(len(z)), len(z))


def _margin(x: Array, low: float, high: float, spread: float) -> Margin:
    quantiles = np.quantile(x, np.linspace(0.0, 1.0, _KNOTS))
    pad = 0.1 * (quantiles[-1] - quantiles[0]) + 1e-3 * (high - low)
    knots = np.unique(
        np.clip(np.concatenate([[low, high, quantiles[0] - pad, quantiles[-1] + pad], quantiles]), low, high)
    )
    knots = knots[np.append(True, np.diff(knots) > 1e-9 * (high - low))]
    knots[-1] = high
    counts = np.histogram(x, knots)[0] / len(x)
    mass = (1.0 - spread) * counts + spread * np.diff(knots) / (high - low)
    levels = np.concatenate([[0.0], np.cumsum(mass)])
    return Margin(knots, levels / levels[-1])


# --- Gaussian mixtures ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GaussianMixture:
    """Weights, means and covariances of K normal densities."""

    weights: Array  # (K,)
    means: Array  # (K, d)
    covariances: Array  # (K, d, d)

    def log_density(self, y: Array) -> Array:
        """At the rows of ``y``."""
        return _fractions(self._log_parts(_products(y)))[1]

    def _log_parts(self, products: Array) -> Array:
        """log of each component's weight times its density, (n, K), from the products of the coordinates."""
        d = self.means.shape[1]
        precision = np.linalg.inv(self.covariances)
        slope = np.einsum("kij,kj->ki", precision, self.means)
        log_scale = np.linalg.slogdet(self.covariances)[1] + d * np.log(2.0 * np.pi)
        constant = np.log(self.weights) - 0.5 * (log_scale + np.einsum("ki,ki->k", slope, self.means))
        return products @ np.hstack([constant[:, None], slope, -0.5 * precision.reshape(-1, d * d)]).T


def fit_gaussians(y: Array, k: int, floor: float) -> GaussianMixture:
    """The mixture of ``k`` components that starts from clusters of the points; ``floor`` is added to all variances.

    Each step of expectation maximisation is two matrix products: responsibilities are linear in the products yᵢyⱼ of
    the coordinates, and so are the components' moments. Coordinates are of unit scale: nothing is lost to cancellation.
    """
    products, d = _products(y), y.shape[1]
    mixture = _of(_clusters(y, k), products, d, floor)
    last = -np.inf
    for _ in range(_EM_STEPS):
        fractions, log_density = _fractions(mixture._log_parts(products))
        now = float(log_density.mean())
        mixture = _of(fractions, products, d, floor)
        if abs(now - last) < _EM_GAIN:
            break
        last = now
    return mixture


def _products(y: Array) -> Array:
    """(1, yᵢ, yᵢyⱼ) of each point, (n, 1 + d + d²)."""
    n, d = y.shape
    return np.hstack([np.ones((n, 1)), y, (y[:, :, None] * y[:, None, :]).reshape(n, d * d)])


def _fractions(log_parts: Array) -> tuple[Array, Array]:
    """Each component's fraction of the density at each point, (n, K), and the logarithm of their sum."""
    top = log_parts.max(axis=1, keepdims=True)
    parts = np.exp(log_parts - top)
    total = parts.sum(axis=1, keepdims=True)
    return parts / total, (top + np.log(total))[:, 0]


def _of(fractions: Array, products: Array, d: int, floor: float) -> GaussianMixture:
    """The mixture whose components have these fractions of the points, (n, K)."""
    moments = fractions.T @ products
    counts = moments[:, :1] + _EMPTY
    means = moments[:, 1 : d + 1] / counts
    squares = (moments[:, d + 1 :] / counts).reshape(-1, d, d)
    covariances = squares - means[:, :, None] * means[:, None, :] + floor * np.eye(d)
    return GaussianMixture(counts[:, 0] / counts.sum(), means, covariances)


def _clusters(y: Array, k: int) -> Array:
    """Which of ``k`` clusters each point is in, as fractions of 0 and 1: the tightest of a few attempts."""
    best, tightest = np.zeros(len(y), dtype=int), np.inf
    for attempt in range(_ATTEMPTS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty cluster is a component of no weight
            centers, label = vq.kmeans2(y, k, iter=_CLUSTER_STEPS, minit="++", rng=attempt)
        spread = float(np.sum((y - centers[label]) ** 2))
        if spread < tightest:
            best, tightest = label, spread
    return np.asarray(np.eye(k)[best])
