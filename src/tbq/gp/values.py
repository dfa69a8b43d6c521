"""Values of many functions at the same points, and the linear algebra of Gaussian processes on them.

A value that is missing in one process leaves its row and column there: the covariance has a one on the diagonal and
zeros beside it, and all that is computed from it is that of the other points, exactly. Inverses of the Cholesky factors
are kept, not the factors: with them a projection is one product of stacked matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tbq.common.types import Array, BoolArray, IntArray
from tbq.gp.kernels import HyperPrior, Kernel
from tbq.gp.linalg import triangular_inverse
from tbq.gp.regression import COEFFICIENT_SD, NUGGET

FEWEST_FREE = 4  # values more than parameters from which on a mean is linear whose slopes are flat


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
    slopes: Array | None = None  # (d,) prior sd of the slopes of linear means, in units of the constant's; one if None

    def take(self, index: IntArray) -> Values:
        """Those of some of the functions."""
        rows = (self.y[index], self.noise[index], self.seen[index], self.linear[index])
        given = None if self.given is None else self.given[index]
        return Values(self.x, *rows, self.offset[index], self.scale[index], given, self.extra, self.slopes)

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
        """h(x) of each process, (K, m, p): {1} or {1, xᵢ}, and a given one; zeros where a mean has no such term.

        The coordinates are in units of their slopes, so that all coefficients have the same prior.
        """
        if not self.linear.any() and self.given is None:
            return np.ones((len(self.linear), len(x), 1))
        coordinates = functions_of(x[:, : self.dim], bool(self.linear.any()), self.slopes)
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
    inverse_basis, log_basis = inverse_of_basis(basis, values.precision)
    half = inverse_basis @ (np.swapaxes(basis, 1, 2) @ white[:, :, None])
    beta = (np.swapaxes(inverse_basis, 1, 2) @ half)[:, :, 0]
    residual = white - (basis @ beta[:, :, None])[:, :, 0]
    alpha = (residual[:, None, :] @ inverse)[:, 0]
    precision, p = values.precision, basis.shape[2]
    score = -0.5 * (np.sum(residual**2, axis=1) + precision * np.sum(beta**2, axis=1))
    score += 0.5 * p * np.log(precision) - log_determinants - log_basis
    score -= 0.5 * values.seen.sum(axis=1) * np.log(2.0 * np.pi)
    return Factors(inverse, basis, inverse_basis, beta, alpha), score, ok


def inverse_of_basis(basis: Array, precision: Array) -> tuple[Array, Array]:
    """Inverse of the Cholesky factor of G = BᵀB + Λ, (K, p, p), and the factor's log-determinant (K,)."""
    gram = np.swapaxes(basis, 1, 2) @ basis
    np.einsum("kii->ki", gram)[...] += precision[:, None]
    inverse = np.linalg.inv(np.linalg.cholesky(gram))
    return inverse, -np.log(np.einsum("kii->ki", inverse)).sum(axis=1)


def functions_of(x: Array, linear: bool, slopes: Array | None = None) -> Array:
    ones = np.ones((len(x), 1))
    return np.hstack([ones, x if slopes is None else x * slopes]) if linear else ones
