"""The log-likelihood as a quadratic form in a few numbers, for many noise parameters at once.

Let residuals at the data be X (1, −c) with X = [d − ȳ, B] fixed, as for outputs ȳ + Bc. Under N(0, Σ(φ))

    log L = best(φ) − ½ (1, −c) P(φ) (1, −c)ᵀ,   P = Xᵀ Σ⁻¹ X,   best = −½ n log 2π − ½ log|Σ|.

Each kind of block has tables of X from which P follows in O(K²) a point, or in O(nK²) where Σ depends on the outputs or
has no structure. Where it depends on the outputs, it is taken at the expected ones, and so is the curvature of Student
errors: their quadratic form touches log L there and is below it elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from scipy import linalg, special

from tbq.common.types import Array, IntArray
from tbq.problem.noise import Block, NoiseModel, blocks_of, smooth

_LOG_2PI = float(np.log(2.0 * np.pi))
_SPACING = 0.03  # nats between lengths of the grid: cubic interpolation errs by 1e-4 and less
_MOST_LENGTHS = 200  # of the grid, where the prior of the length is wide
_TAIL = 1e-4  # of that prior, beyond which a length counts as the grid's end
_NO_VARIANCE = 1e-12  # of the largest eigenvalue, below which one counts as none


class Form(NamedTuple):
    """At each of N points: log L of data that fit, and the matrix of the quadratic form."""

    best: Array  # (N,)
    matrix: Array  # (N, K + 1, K + 1)


class Table(Protocol):
    """What of a block and its X does not depend on the noise parameters."""

    def at(self, phi: Array, mean: Array) -> Form:
        """The form at noise parameters (N, k), for expected components (N, K)."""


@dataclass(frozen=True)
class Forms:
    """The whole likelihood: the sum of its blocks."""

    tables: tuple[Table, ...]

    def at(self, phi: Array, mean: Array) -> Form:
        parts = [t.at(phi, mean) for t in self.tables]
        return Form(
            sum((p.best for p in parts[1:]), parts[0].best), sum((p.matrix for p in parts[1:]), parts[0].matrix)
        )


def forms(model: NoiseModel, x: Array) -> Forms:
    """For X (n, K + 1), whose first column are residuals."""
    return Forms(tuple(_table(b, model, x[b.rows]) for b in model.blocks if b.size))


def log_likelihood(model: NoiseModel, outputs: Array, phi: Array) -> Array:
    """log L of outputs (N, m) at noise parameters (N, k), row by row."""
    total = np.zeros(len(phi))
    for i in range(len(phi)):
        residual = (model.data - outputs[i, model.out])[:, None]
        form = forms(model, residual).at(phi[i : i + 1], np.empty((1, 0)))
        total[i] = form.best[0] - 0.5 * form.matrix[0, 0, 0]
    return total


def _table(block: Block, model: NoiseModel, x: Array) -> Table:
    pointwise = block.share is not None or block.freedom is not None
    alone = block.correlation is None and block.discrepancy is None
    if pointwise and alone:
        return Pointwise(block, model.data[block.rows], x)
    if pointwise or (block.correlation and block.discrepancy):
        return Dense(block, model.data[block.rows], x)
    white, log_unit = _whitened(block.unit, x)
    if alone:
        return White(block, white.T @ white, log_unit)
    if block.correlation and block.correlation.kind == "exponential":
        return _markov(block, white, log_unit)
    return _spectral(block, model, white, log_unit)


def _whitened(unit: Array, x: Array) -> tuple[Array, float]:
    """X in units of the known standard deviations, and the sum of their logarithms."""
    if unit.ndim == 1:
        return x / unit[:, None], float(np.sum(np.log(unit)))
    return linalg.solve_triangular(unit, x, lower=True), float(np.sum(np.log(np.diag(unit))))


# --- independent errors -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class White:
    """Σ = level² unit²."""

    block: Block
    gram: Array  # (K + 1, K + 1)
    log_unit: float

    def at(self, phi: Array, mean: Array) -> Form:
        level = self.block.level.at(phi)
        best = -self.block.size * (0.5 * _LOG_2PI + np.log(level)) - self.log_unit
        return Form(best, level[:, None, None] ** -2 * self.gram)


@dataclass(frozen=True)
class Pointwise:
    """Errors of each datum by itself, whose scale depends on its output, or Student errors."""

    block: Block
    data: Array  # (n,)
    x: Array  # (n, K + 1)

    def at(self, phi: Array, mean: Array) -> Form:
        n, width = self.x.shape
        pairs = (self.x[:, :, None] * self.x[:, None, :]).reshape(n, width * width)
        best, matrix = np.empty(len(phi)), np.empty((len(phi), width * width))
        for some in blocks_of(len(phi), n):
            best[some], weights = self._weights(phi[some], mean[some])
            matrix[some] = weights @ pairs
        return Form(best, matrix.reshape(-1, width, width))

    def _weights(self, phi: Array, mean: Array) -> tuple[Array, Array]:
        """log L of data that fit, (N,), and the precision of each datum, (N, n), at the expected outputs."""
        residual = self.x[:, 0] - mean @ self.x[:, 1:].T
        scale = self.block.scales(phi, self.data - residual)
        if self.block.freedom is None:
            return -0.5 * self.block.size * _LOG_2PI - np.sum(np.log(scale), axis=1), scale**-2
        freedom = self.block.freedom.at(phi)[:, None]
        squared = (residual / scale) ** 2
        weight = (freedom + 1.0) / (freedom + squared)
        constant = (
            special.gammaln(0.5 * (freedom + 1.0)) - special.gammaln(0.5 * freedom) - 0.5 * np.log(freedom * np.pi)
        )
        best = constant - np.log(scale) - 0.5 * (freedom + 1.0) * np.log1p(squared / freedom) + 0.5 * weight * squared
        return np.sum(best, axis=1), weight / scale**2


@dataclass(frozen=True)
class Dense:
    """Any covariance, factorised point by point."""

    block: Block
    data: Array  # (n,)
    x: Array  # (n, K + 1)

    def at(self, phi: Array, mean: Array) -> Form:
        parts = [self._some(phi[some], mean[some]) for some in blocks_of(len(phi), self.block.size**2)]
        return Form(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _some(self, phi: Array, mean: Array) -> Form:
        outputs = self.data - (self.x[:, 0] - mean @ self.x[:, 1:].T)
        covariance = self.block.noise_covariance(phi, outputs) + self.block.discrepancy_covariance(phi)
        factor = np.linalg.cholesky(covariance)
        white = np.linalg.solve(factor, np.broadcast_to(self.x, (len(phi), *self.x.shape)))
        log_det = np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
        return Form(-0.5 * self.block.size * _LOG_2PI - log_det, np.swapaxes(white, 1, 2) @ white)


# --- exponential correlation --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Markov:
    """Residuals each of which depends on the one before alone: its precision is tridiagonal.

    With a = exp(−gap/length), (x_i − a x_{i−1})²/(1 − a²) are independent; equal gaps share their tables.
    """

    block: Block
    gaps: Array  # (u,) different distances between neighbours
    counts: Array  # (u,) how many there are of each
    first: Array  # (K + 1)²: Σ xxᵀ over the first of every replicate
    own: Array  # (u, (K + 1)²): Σ x_i x_iᵀ
    cross: Array  # (u, (K + 1)²): Σ x_i x_{i−1}ᵀ + x_{i−1} x_iᵀ
    last: Array  # (u, (K + 1)²): Σ x_{i−1} x_{i−1}ᵀ
    log_unit: float

    def at(self, phi: Array, mean: Array) -> Form:
        assert self.block.correlation is not None
        level, ratio = self.block.level.at(phi), self.gaps / self.block.correlation.length.at(phi)[:, None]
        a, left = np.exp(-ratio), -np.expm1(-2.0 * ratio)  # (N, u)
        total = self.first + (1.0 / left) @ self.own - (a / left) @ self.cross + (a * a / left) @ self.last
        width = int(np.sqrt(total.shape[1]))
        best = -self.block.size * (0.5 * _LOG_2PI + np.log(level)) - self.log_unit - 0.5 * np.log(left) @ self.counts
        return Form(best, (total / level[:, None] ** 2).reshape(-1, width, width))


def _markov(block: Block, white: Array, log_unit: float) -> Markov:
    assert block.coordinates is not None
    replicate = np.zeros(block.size, dtype=int) if block.replicate is None else block.replicate
    order = np.lexsort((block.coordinates, replicate))
    x, where, which = white[order], block.coordinates[order], replicate[order]
    starts = np.append(True, np.diff(which) != 0)
    gap = np.diff(where, prepend=where[0])[~starts]
    digits = np.round(gap / max(gap.max(initial=0.0), 1e-300), 9)  # rounding makes even gaps differ
    _, index, of, counts = np.unique(digits, return_index=True, return_inverse=True, return_counts=True)
    here, before = x[~starts], x[np.flatnonzero(~starts) - 1]
    own, last = (_summed(a, a, of, len(counts)) for a in (here, before))
    cross = _summed(here, before, of, len(counts))
    width = x.shape[1]
    cross = cross + np.swapaxes(cross.reshape(-1, width, width), 1, 2).reshape(cross.shape)
    first = (x[starts].T @ x[starts]).ravel()
    return Markov(block, gap[index], counts.astype(float), first, own, cross, last, log_unit)


def _summed(a: Array, b: Array, of: IntArray, groups: int) -> Array:
    """(groups, K²): sums of the outer products of rows, group by group."""
    total = np.zeros((groups, a.shape[1] * b.shape[1]))
    np.add.at(total, of.ravel(), (a[:, :, None] * b[:, None, :]).reshape(len(a), -1))
    return total


# --- smooth correlation, discrepancy ------------------------------------------------------------------------


class Spectrum(NamedTuple):
    """Eigenvalues and vectors of the kernel at lengths of an even grid of their logarithms."""

    start: float  # log of the first length
    step: float  # 0 where there is one length
    values: tuple[Array, ...]  # of each length: (r,), those that are not zero
    vectors: tuple[Array, ...]  # of each length: (n, n)


@dataclass(frozen=True)
class Spectral:
    """Σ = white² I + smooth² K_ℓ, in the eigenvectors of K: exact in both, cubic in log ℓ between those of a grid."""

    block: Block
    spectrum: Spectrum
    tables: tuple[Array, ...]  # of each length: outer products of the rows of UᵀX, those without variance summed up
    log_unit: float

    def at(self, phi: Array, mean: Array) -> Form:
        white, amplitude, length = self._parts(phi)
        width = int(np.sqrt(self.tables[0].shape[1]))
        best, total = (
            np.full(len(phi), -0.5 * self.block.size * _LOG_2PI - self.log_unit),
            np.zeros((len(phi), width**2)),
        )
        first, weights = self._stencil(length)
        order = np.argsort(first, kind="stable")
        nodes = np.arange(int(first.min()), int(first.max()) + len(weights))
        ends = np.searchsorted(first[order], [nodes - len(weights) + 1, nodes + 1])
        for k, start, stop in zip(nodes, *ends, strict=True):
            if start == stop:
                continue
            near = order[start:stop]
            values = self.spectrum.values[k]
            counts = np.append(np.ones(len(values)), self.block.size - len(values))
            variances = white[near, None] ** 2 + amplitude[near, None] ** 2 * np.append(values, 0.0)
            w = weights[k - first[near], near]
            total[near] += (w[:, None] / variances) @ self.tables[k]
            best[near] -= 0.5 * w * (np.log(variances) @ counts)
        return Form(best, total.reshape(-1, width, width))

    def _parts(self, phi: Array) -> tuple[Array, Array, Array]:
        """Standard deviations of the white and of the smooth part, and the length."""
        level = self.block.level.at(phi)
        if self.block.discrepancy is not None:
            amplitude, length = (t.at(phi) for t in self.block.discrepancy)
            return level, amplitude, length
        assert self.block.correlation is not None
        white = self.block.correlation.white
        return np.sqrt(white) * level, np.sqrt(1.0 - white) * level, self.block.correlation.length.at(phi)

    def _stencil(self, length: Array) -> tuple[IntArray, Array]:
        """The first of four neighbouring lengths, and Lagrange's weights of the four, (4, N); or the only one."""
        start, step, values, _ = self.spectrum
        if step == 0.0:
            return np.zeros(len(length), dtype=int), np.ones((1, len(length)))
        t = np.clip((np.log(length) - start) / step, 0.0, len(values) - 1.0)
        first = np.clip(np.floor(t).astype(int) - 1, 0, len(values) - 4)
        t = t - first
        weights = [-(t - 1) * (t - 2) * (t - 3) / 6, t * (t - 2) * (t - 3) / 2, -t * (t - 1) * (t - 3) / 2]
        return first, np.stack([*weights, t * (t - 1) * (t - 2) / 6])


def _spectral(block: Block, model: NoiseModel, white: Array, log_unit: float) -> Spectral:
    spectrum = _spectrum_of(block, model)
    tables = []
    for values, vectors in zip(spectrum.values, spectrum.vectors, strict=True):
        rows, r = vectors.T @ white, len(values)
        top = (rows[:r, :, None] * rows[:r, None, :]).reshape(r, -1)
        tables.append(np.vstack([top, (rows[r:].T @ rows[r:]).reshape(1, -1)]))
    return Spectral(block, spectrum, tuple(tables), log_unit)


def _spectrum_of(block: Block, model: NoiseModel) -> Spectrum:
    """Of the kernel in units of the known standard deviations; made once for the same data."""
    assert block.coordinates is not None
    length = block.discrepancy.length if block.discrepancy else block.correlation.length  # type: ignore[union-attr]
    low = high = length.value
    if not length.known:
        marginal = model.marginals[length.column]
        low, high = float(marginal.ppf(_TAIL)), float(marginal.isf(_TAIL))
    mask = np.ones((block.size, block.size)) if block.discrepancy else block.same_replicate
    return _spectrum(block.coordinates.tobytes(), mask.tobytes(), block.unit.tobytes(), block.unit.ndim, low, high)


@lru_cache(maxsize=16)
def _spectrum(coordinates: bytes, mask: bytes, unit: bytes, dimensions: int, low: float, high: float) -> Spectrum:
    x = np.frombuffer(coordinates)
    n = len(x)
    same = np.frombuffer(mask).reshape(n, n)
    units = np.frombuffer(unit).reshape((n,) * dimensions)
    width = np.log(high / low)
    count = 1 if width == 0.0 else int(np.clip(np.ceil(width / _SPACING) + 1, 4, _MOST_LENGTHS))
    lengths = np.exp(np.linspace(np.log(low), np.log(high), count))
    values, vectors = [], []
    for length in lengths:
        kernel = smooth(np.abs(x[:, None] - x), length) * same
        kernel = _whitened(units, _whitened(units, kernel)[0].T)[0]
        found, u = linalg.eigh(kernel)
        found, u = found[::-1], u[:, ::-1]
        values.append(found[: int(np.sum(found > _NO_VARIANCE * found[0]))])
        vectors.append(u)
    return Spectrum(float(np.log(low)), float(width / max(count - 1, 1)), tuple(values), tuple(vectors))
