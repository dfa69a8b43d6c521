"""Many Gaussian processes on the same points as one object, which owns the linear algebra of all of them.

Each process is that of :mod:`tbq.gp.regression`, with hyperparameters, noise and mean of its own; they share the points
and the kind of kernel. The last columns of the points may be given functions, which means have as a term and kernels do
not see. A value that is missing in one process leaves its row and column there: the covariance has a one
on the diagonal and zeros beside it, and all that is computed from it is that of the other points, exactly.

Inverses of the Cholesky factors are kept, not the factors: with them a projection is one product of stacked matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from tbq.common.errors import TbqError
from tbq.common.types import Array, BoolArray, IntArray
from tbq.gp import regression
from tbq.gp.kernels import ArdKernel, HyperPrior, Kernel
from tbq.gp.linalg import triangular_inverse
from tbq.gp.regression import COEFFICIENT_SD, GP, JITTER, NUGGET

_SMALL = 512  # points of a set up to which what covariances need is kept
_BLOCK = 2**15  # kernel values computed at once, which stay in the processor's cache


@dataclass(frozen=True)
class Values:
    """What is known of K functions at n points, and in which units they are modelled."""

    x: Array  # (n, d + given)
    y: Array  # (K, n); 0 where missing
    noise: Array  # (K, n) variances
    seen: BoolArray  # (K, n)
    linear: BoolArray  # (K,) whether the mean is linear, or constant
    offset: Array  # (K,) subtracted from y before anything else
    scale: Array  # (K,) spread of y, the unit of the priors
    given: IntArray | None = None  # (K,) which of the last columns of x is a term of the mean; −1: none
    extra: int = 0  # such columns

    def take(self, index: IntArray) -> Values:
        """Those of some of the functions."""
        rows = (self.y[index], self.noise[index], self.seen[index], self.linear[index])
        given = None if self.given is None else self.given[index]
        return Values(self.x, *rows, self.offset[index], self.scale[index], given, self.extra)

    def some(self, step: int) -> Values:
        """Those at every ``step``-th point."""
        rows = (self.y[:, ::step], self.noise[:, ::step], self.seen[:, ::step])
        return replace(self, x=self.x[::step], y=rows[0], noise=rows[1], seen=rows[2])

    @property
    def complete(self) -> bool:
        return bool(self.seen.all())

    @property
    def dim(self) -> int:
        """Columns of x that are coordinates."""
        return self.x.shape[1] - self.extra

    @property
    def precision(self) -> Array:
        """(K,) of the mean's coefficients, a priori."""
        return np.asarray(1.0 / (COEFFICIENT_SD * self.scale) ** 2)

    def mean_functions(self, x: Array) -> Array:
        """h(x) of each process, (K, m, p): {1} or {1, xᵢ}, and a given one; zeros where a mean has no such term."""
        if not self.linear.any() and self.given is None:
            return np.ones((len(self.linear), len(x), 1))
        coordinates = _functions(x[:, : self.dim], bool(self.linear.any()))
        functions = np.tile(coordinates, (len(self.linear), 1, 1))
        functions[~self.linear, :, 1:] = 0.0
        given = self.given_terms(x)
        return functions if given is None else np.concatenate([functions, given[:, :, None]], axis=2)

    def given_terms(self, x: Array) -> Array | None:
        """(K, m): the given function of each mean at points, zero where it has none."""
        if self.given is None:
            return None
        return np.where(self.given >= 0, x[:, self.dim + np.maximum(self.given, 0)], 0.0).T

    def hyperprior(self, kernel: Kernel) -> HyperPrior:
        """Of all processes: fields of shape (K, parameters)."""
        each = [kernel.hyperprior(self.dim, float(s)) for s in self.scale]
        return HyperPrior(*(np.array([getattr(p, name) for p in each]) for name in ("mean", "sd", "low", "high")))


def values_of(
    x: Array, y: Array, noise: Array, linear: BoolArray, given: IntArray | None = None, extra: int = 0
) -> Values:
    """From values (K, n), nan where they are missing, in their own units."""
    seen = np.isfinite(y)
    count = seen.sum(axis=1)
    y = np.where(seen, y, 0.0)
    offset = y.sum(axis=1) / count
    spread = np.sqrt(np.sum(np.where(seen, y - offset[:, None], 0.0) ** 2, axis=1) / count)
    least = np.sqrt(np.sum(np.where(seen, noise, 0.0), axis=1) / count)
    return Values(x, y, noise, seen, linear, offset, np.maximum(spread, least), given, extra)


@dataclass(frozen=True)
class Factors:
    """Everything linear algebra knows of the values at given hyperparameters; zeros where a value is missing."""

    inverse: Array  # (K, n, n): L⁻¹, with L Lᵀ = covariance + noise
    basis: Array  # (K, n, p): L⁻¹ H
    inverse_basis: Array  # (K, p, p): inverse of the Cholesky factor of G = Hᵀ(K + noise)⁻¹H + Λ
    beta: Array  # (K, p): posterior mean of the mean's coefficients
    alpha: Array  # (K, n): (K + noise)⁻¹ (y − Hβ)

    @cached_property
    def projected(self) -> Array:
        """(K, p, n): what takes covariances with the points to what the mean's coefficients explain of them."""
        return np.asarray(self.inverse_basis @ np.swapaxes(self.basis, 1, 2) @ self.inverse)


@dataclass(frozen=True)
class Projection:
    """What the processes say about points; of many, mean and variance only, and the rest ``again`` for those taken."""

    x: Array  # (m, d)
    mean: Array  # (K, m)
    variance: Array  # (K, m)
    v: Array  # (K, n, m): L⁻¹ k(X, x)
    u: Array  # (K, p, m): what the mean's uncertain coefficients add
    again: Callable[[Array], Projection] | None = None

    def take(self, index: IntArray) -> Projection:
        if self.again is not None:
            return self.again(self.x[index])
        columns = (self.mean[:, index], self.variance[:, index], self.v[:, :, index], self.u[:, :, index])
        return Projection(self.x[index], *columns)


@dataclass(frozen=True)
class Batch:
    """K Gaussian processes conditioned on values at the same points; immutable. Build it with :func:`build`."""

    kernel: Kernel
    parameters: Array  # (K, hyperparameters) logarithms
    values: Values
    factors: Factors
    score: Array  # (K,) log marginal likelihood + log prior of the hyperparameters

    @property
    def size(self) -> int:
        return len(self.parameters)

    @property
    def x(self) -> Array:
        return self.values.x

    @cached_property
    def variance(self) -> Array:
        """(K,) of each process a priori, the mean's apart."""
        return np.array([self.kernel.diagonal(p, self.x[:1])[0] for p in self.parameters])

    @cached_property
    def new_noise(self) -> Array:
        """(K,) variance of what a new run would return about each process."""
        noise = np.min(np.where(self.values.seen, self.values.noise, np.inf), axis=1)
        return np.asarray(noise + NUGGET * self.variance)

    @cached_property
    def _weights(self) -> Array:
        """(K, n + p + 1, n): what takes covariances with the points to v, to −u less its start, and to the mean."""
        f = self.factors
        stacked = np.concatenate([f.inverse, f.projected, f.alpha[:, None, :]], axis=1)
        return np.ascontiguousarray(stacked * self._unit[:, None, None])

    @property
    def _unit(self) -> Array:
        """(K,) what the values of ``_profiles`` are multiples of."""
        return self.variance if isinstance(self.kernel, ArdKernel) else np.ones(self.size)

    def process(self, k: int, less: float = 0.0) -> GP:
        """One of the processes by itself, on the points that it saw; with a given term, that of the rest.

        ``less`` is the coefficient of that term.
        """
        values, seen = self.values, self.values.seen[k]
        units = float(values.offset[k]), float(values.scale[k])
        y = values.y[k, seen]
        if (terms := values.given_terms(values.x[seen])) is not None:
            y = y - less * terms[k]
        data = (values.x[seen, : values.dim], y, values.noise[k, seen])
        return regression.build(
            *data, self.kernel, "linear" if values.linear[k] else "constant", self.parameters[k], units
        )

    # --- projections ----------------------------------------------------------------------------------------

    def project(self, z: Array) -> Projection:
        """Mean and variance of all processes at points, with what covariances need where these are few."""
        return self._kept(z) if len(z) <= _SMALL else self._moments(z)

    def _kept(self, z: Array) -> Projection:
        n = len(self.x)
        full = self._weights @ self._profiles(self.x, z)
        functions = np.swapaxes(self.values.mean_functions(z), 1, 2)
        u = self.factors.inverse_basis @ functions - full[:, n:-1]
        v = full[:, :n]
        mean = self._prior_mean(functions) + full[:, -1]
        variance = self.variance[:, None] - _squares(v) + _squares(u)
        return Projection(z, mean, np.maximum(variance, 0.0), v, u)

    def _moments(self, z: Array) -> Projection:
        """Process by process, in blocks that stay in the processor's cache."""
        n, width = len(self.x), max(_BLOCK // len(self.x), 64)
        mean, variance = np.empty((self.size, len(z))), np.empty((self.size, len(z)))
        values = self.values
        plain = np.ascontiguousarray(_functions(z[:, : values.dim], bool(values.linear.any())).T)
        given = values.given_terms(z)
        for j, profiles in enumerate(self._profiles_by_process(z)):
            functions = plain if values.linear[j] else np.vstack([plain[:1], np.zeros_like(plain[1:])])
            functions = functions if given is None else np.vstack([functions, given[j]])
            for i in range(0, len(z), width):
                some = slice(i, i + width)
                full = self._weights[j] @ profiles(some)
                u = self.factors.inverse_basis[j] @ functions[:, some]
                u -= full[n:-1]
                v = full[:n]
                mean[j, some] = full[-1]
                variance[j, some] = np.einsum("ij,ij->j", u, u) - np.einsum("ij,ij->j", v, v)
            mean[j] += values.offset[j] + self.factors.beta[j] @ functions
        variance += self.variance[:, None]
        return Projection(z, mean, np.maximum(variance, 0.0, out=variance), _NONE, _NONE, again=self._kept)

    def _prior_mean(self, functions: Array) -> Array:
        """(K, m), from functions (K, p, m)."""
        return self.values.offset[:, None] + (self.factors.beta[:, None, :] @ functions)[:, 0]

    def covariance(self, a: Projection, b: Projection) -> Array:
        """Posterior covariances between two sets of points, (K, n, m)."""
        if a.again is not None:
            parts = np.array_split(np.arange(len(a.x)), len(a.x) // _SMALL + 1)
            return np.concatenate([self.covariance(a.take(part), b) for part in parts], axis=1)
        if b.again is not None:
            return np.swapaxes(self.covariance(b, a), 1, 2)
        value = self._profiles(a.x, b.x)
        value *= self._unit[:, None, None]
        value -= np.swapaxes(a.v, 1, 2) @ b.v
        value += np.swapaxes(a.u, 1, 2) @ b.u
        return value

    def _profiles(self, a: Array, b: Array) -> Array:
        """Covariances a priori between two sets of points, (K, n, m), in ``_unit``."""
        if not isinstance(self.kernel, ArdKernel):
            return np.stack([self.kernel.matrix(p, a, b) for p in self.parameters])
        left = self._left if a is self.x else _left(self._stretched(a))
        b = self._stretched(b)
        right = np.concatenate([np.swapaxes(b, 1, 2), np.ones((len(b), 1, b.shape[1])), _norms(b)[:, None, :]], axis=1)
        return self.kernel.profile(_positive(left @ right))

    def _stretched(self, x: Array) -> Array:
        """Points in units of each process's length-scales, (K, n, d), about the centre of the known ones."""
        return np.asarray((x[:, : self.values.dim] - self._centre) * np.exp(-self.parameters[:, None, :-1]))

    @cached_property
    def _centre(self) -> Array:
        return np.asarray(self.x[:, : self.values.dim].mean(axis=0))

    @cached_property
    def _left(self) -> Array:
        return _left(self._stretched(self.x))

    def _profiles_by_process(self, z: Array) -> Iterator[Callable[[slice], Array]]:
        """The same between the known points and some of ``z``, process by process."""
        kernel = self.kernel
        if not isinstance(kernel, ArdKernel):
            for parameters in self.parameters:
                yield lambda some, p=parameters: kernel.matrix(p, self.x, z[some])  # type: ignore[misc]
            return
        columns = np.ascontiguousarray((z[:, : self.values.dim] - self._centre).T)
        squares, right = columns**2, np.ones((len(columns) + 2, len(z)))
        for left, lengths in zip(self._left, np.exp(self.parameters[:, :-1]), strict=True):
            np.divide(columns, lengths[:, None], out=right[:-2])
            np.matmul(lengths**-2, squares, out=right[-1])
            yield lambda some, left=left: kernel.profile(_positive(left @ right[:, some]))  # type: ignore[misc]

    # --- other views ----------------------------------------------------------------------------------------

    def leave_one_out(self) -> tuple[Array, Array]:
        """Mean and variance (noise included) of each value as predicted from all others, (K, n); nan where missing."""
        f = self.factors
        diagonal = _squares(f.inverse) - _squares(f.projected)
        diagonal = np.where(self.values.seen, diagonal, np.nan)
        return self.values.y - f.alpha / diagonal, 1.0 / diagonal

    def condition_on_mean(self, z: Array) -> Self:
        """All processes with one more value at a point (d,), the one that each expects there: means do not change."""
        point, values, f = self._kept(z[None, :]), self.values, self.factors
        noise = self.new_noise - NUGGET * self.variance
        v = point.v[:, :, 0]
        corner = np.sqrt(np.maximum(self.variance + self.new_noise - np.sum(v * v, axis=1), self.new_noise))
        inverse = np.zeros((self.size, len(self.x) + 1, len(self.x) + 1))
        inverse[:, :-1, :-1] = f.inverse
        inverse[:, -1, :-1] = -(v[:, None, :] @ f.inverse)[:, 0] / corner[:, None]
        inverse[:, -1, -1] = 1.0 / corner
        row = values.mean_functions(z[None, :]) - v[:, None, :] @ f.basis
        basis = np.concatenate([f.basis, row / corner[:, None, None]], axis=1)
        one = np.ones((self.size, 1))
        more = replace(
            values,
            x=np.vstack([values.x, z]),
            y=np.hstack([values.y, point.mean]),
            noise=np.hstack([values.noise, noise[:, None]]),
            seen=np.hstack([values.seen, one > 0.0]),
        )
        alpha = np.hstack([f.alpha, 0.0 * one])
        factors = Factors(inverse, basis, _inverse_basis(basis, values.precision)[0], f.beta, alpha)
        return replace(self, values=more, factors=factors)


_NONE = np.empty((0, 0, 0))


def build(values: Values, kernel: Kernel, parameters: Array) -> Batch:
    """The processes at given hyperparameters (K, p). Raises :class:`TbqError` where a covariance has no factor."""
    x = values.x[:, : values.dim]
    covariances = np.stack([kernel.matrix(p, x, x) for p in parameters])
    variance = np.array([kernel.diagonal(p, values.x[:1])[0] for p in parameters])
    factors, score, ok = factorise(values, covariances, variance)
    for jitter in JITTER:
        bad = np.flatnonzero(~ok)
        if len(bad) == 0:
            break
        part = values.take(bad)
        part = replace(part, noise=part.noise + jitter * variance[bad, None])
        again, better, good = factorise(part, covariances[bad], variance[bad])
        for name in ("inverse", "basis", "inverse_basis", "beta", "alpha"):
            getattr(factors, name)[bad] = getattr(again, name)
        score[bad], ok[bad] = better, good
    if not ok.all():
        where = parameters[~ok][0]
        raise TbqError(f"GP: the {kernel.name} covariance cannot be factorised at parameters {where}")
    prior = values.hyperprior(kernel)
    return Batch(kernel, parameters, values, factors, score + log_prior(prior, parameters))


def factorise(values: Values, covariances: Array, variance: Array) -> tuple[Factors, Array, BoolArray]:
    """Factors and log marginal likelihoods (K,) for covariances (K, n, n), of which the upper triangles are read.

    The last is where there are any: what the others say means nothing.
    """
    size, n = len(covariances), len(values.x)
    matrices, functions, centred = (
        covariances.copy(),
        values.mean_functions(values.x),
        values.y - values.offset[:, None],
    )
    diagonals = np.einsum("kii->ki", matrices)
    diagonals += values.noise + NUGGET * variance[:, None]
    if not values.complete:
        matrices *= values.seen[:, :, None] & values.seen[:, None, :]
        diagonals += ~values.seen
        functions = functions * values.seen[:, :, None]
        centred = np.where(values.seen, centred, 0.0)
    inverse, log_determinants, ok = np.empty((size, n, n)), np.zeros(size), np.ones(size, dtype=bool)
    for j in range(size):
        found = triangular_inverse(matrices[j])
        ok[j] = found is not None
        inverse[j] = np.eye(n) if found is None else found
    log_determinants = -np.log(np.einsum("kii->ki", inverse)).sum(axis=1)
    if not values.complete:
        np.einsum("kii->ki", inverse)[~values.seen] = 0.0
    basis = inverse @ functions
    white = (inverse @ centred[:, :, None])[:, :, 0]
    inverse_basis, log_basis = _inverse_basis(basis, values.precision)
    half = inverse_basis @ (np.swapaxes(basis, 1, 2) @ white[:, :, None])
    beta = (np.swapaxes(inverse_basis, 1, 2) @ half)[:, :, 0]
    residual = white - (basis @ beta[:, :, None])[:, :, 0]
    alpha = (residual[:, None, :] @ inverse)[:, 0]
    precision, p = values.precision, basis.shape[2]
    score = -0.5 * (np.sum(residual**2, axis=1) + precision * np.sum(beta**2, axis=1))
    score += 0.5 * p * np.log(precision) - log_determinants - log_basis
    score -= 0.5 * values.seen.sum(axis=1) * np.log(2.0 * np.pi)
    return Factors(inverse, basis, inverse_basis, beta, alpha), score, ok


def log_prior(prior: HyperPrior, parameters: Array) -> Array:
    """Log-density of hyperparameters (K, p), but for a constant."""
    return np.asarray(-0.5 * np.sum(((parameters - prior.mean) / prior.sd) ** 2, axis=1))


def _inverse_basis(basis: Array, precision: Array) -> tuple[Array, Array]:
    """Inverse of the Cholesky factor of G = BᵀB + Λ, (K, p, p), and the factor's log-determinant (K,)."""
    gram = np.swapaxes(basis, 1, 2) @ basis
    np.einsum("kii->ki", gram)[...] += precision[:, None]
    inverse = np.linalg.inv(np.linalg.cholesky(gram))
    return inverse, -np.log(np.einsum("kii->ki", inverse)).sum(axis=1)


def _functions(x: Array, linear: bool) -> Array:
    ones = np.ones((len(x), 1))
    return np.hstack([ones, x]) if linear else ones


def _left(stretched: Array) -> Array:
    """What gives squared distances to points (xᵢ, 1, |x|²) when multiplied by these, (K, n, d + 2)."""
    ones = np.ones((*stretched.shape[:2], 1))
    return np.concatenate([-2.0 * stretched, _norms(stretched)[:, :, None], ones], axis=2)


def _norms(stretched: Array) -> Array:
    return np.asarray(np.einsum("knd,knd->kn", stretched, stretched))


def _positive(squared: Array) -> Array:
    return np.maximum(squared, 0.0, out=squared)


def _squares(columns: Array) -> Array:
    """Sum of squares of each column, (K, m)."""
    return np.asarray(np.einsum("kij,kij->kj", columns, columns))
