"""Many Gaussian processes on the same points as one object, which owns the linear algebra of all of them.

Each process is that of :mod:`tbq.gp.regression`, with hyperparameters, noise and mean of its own; they share the points
and the kind of kernel. The last columns of the points may be given functions, which means have as a term and kernels do
not see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from tbq.common.errors import TbqError
from tbq.common.types import Array, IntArray
from tbq.gp import regression
from tbq.gp.kernels import ArdKernel, HyperPrior, Kernel
from tbq.gp.regression import GP, JITTER, NUGGET, Basis
from tbq.gp.values import Factors, Values, factorise, functions_of, inverse_of_basis

_SMALL = 512  # points of a set up to which what covariances need is kept
_BLOCK = 2**15  # kernel values computed at once, which stay in the processor's cache


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

        ``less`` is the coefficient of that term. Where slopes have standard deviations of their own, its coordinates
        are in those units.
        """
        values, seen = self.values, self.values.seen[k]
        units = float(values.offset[k]), float(values.scale[k])
        y = values.y[k, seen]
        if (terms := values.given_terms(values.x[seen])) is not None:
            y = y - less * terms[k]
        x, parameters = values.x[seen, : values.dim], self.parameters[k]
        if values.slopes is not None:
            x, parameters = x * values.slopes, parameters + np.append(np.log(values.slopes), 0.0)
        basis: Basis = "linear" if values.linear[k] else "constant"
        return regression.build(x, y, values.noise[k, seen], self.kernel, basis, parameters, units)

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
        plain = np.ascontiguousarray(functions_of(z[:, : values.dim], bool(values.linear.any()), values.slopes).T)
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
        return Projection(z, mean, np.maximum(variance, 0.0, out=variance), NONE, NONE, again=self._kept)

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
        factors = Factors(inverse, basis, inverse_of_basis(basis, values.precision)[0], f.beta, alpha)
        return replace(self, values=more, factors=factors)


NONE = np.empty((0, 0, 0))


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


def log_prior(prior: HyperPrior, parameters: Array) -> Array:
    """Log-density of hyperparameters (K, p), but for a constant."""
    return np.asarray(-0.5 * np.sum(((parameters - prior.mean) / prior.sd) ** 2, axis=1))


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
