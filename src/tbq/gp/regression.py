"""The exact Gaussian process: fit, predict, condition on one more point, leave one out.

Values y = h(x)ᵀβ + f(x) + noise, with f ~ GP(0, k) and coefficients β of the mean under a wide normal prior. To the
diagonal come the caller's noise, a fraction `NUGGET` of the variance and, where rounding leaves no factor without it,
jitter of up to 1e-8 of the variance, which is in the factors alone: the noise stays what the caller gave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.linalg import blas, lapack

from tbq.common.errors import TbqError
from tbq.common.types import Array, IntArray
from tbq.gp.kernels import Gram, HyperPrior, Kernel
from tbq.gp.linalg import cholesky, solve

Basis = Literal["constant", "linear", "quadratic"]

NUGGET = 1e-12  # fraction of the kernel's variance on the diagonal: keeps a smooth kernel's Cholesky factor real
JITTER = (0.0, 1e-11, 1e-10, 1e-9, 1e-8)  # more of it, tried in turn where rounding leaves no factor
COEFFICIENT_SD = 10.0  # prior sd of the mean's coefficients, in units of the values' spread
_BLOCK = 2**13  # points from which on a set is large
_BLOCK_ELEMENTS = 2**22  # of a covariance with the training points, computed at once where the set is large


def basis_functions(basis: Basis, x: Array) -> Array:
    """h(x): {1}, {1, xᵢ} or {1, xᵢ, xᵢxⱼ}, shape (n, p)."""
    ones = np.ones((len(x), 1))
    if basis == "constant":
        return ones
    if basis == "linear":
        return np.hstack([ones, x])
    i, j = np.triu_indices(x.shape[1])
    return np.hstack([ones, x, x[:, i] * x[:, j]])


@dataclass(frozen=True)
class Factors:
    """Everything linear algebra knows about a training set at given hyperparameters."""

    chol: Array  # (n, n): L, with L Lᵀ = K + noise
    basis: Array  # L⁻¹ H, shape (n, p)
    chol_basis: Array  # Cholesky factor of G = Hᵀ(K + noise)⁻¹H + Λ
    beta: Array  # (p,): posterior mean of the mean's coefficients
    residual: Array  # L⁻¹ (y − Hβ)
    precision: float  # Λ = precision · I


@dataclass(frozen=True)
class Projection:
    """What the process says about a set of points, kept so that covariances need no second solve.

    Of a large set only mean and variance are kept; those of its points that are taken are projected ``again``.
    """

    x: Array  # (m, d)
    mean: Array  # (m,)
    variance: Array  # (m,)
    v: Array  # L⁻¹ k(X, x)
    u: Array  # (p, n): what the mean's uncertain coefficients add
    again: Callable[[Array], Projection] | None = None

    def take(self, index: IntArray) -> Projection:
        if self.again is not None:
            return self.again(self.x[index])
        return Projection(self.x[index], self.mean[index], self.variance[index], self.v[:, index], self.u[:, index])


@dataclass(frozen=True)
class GP:
    """A Gaussian process conditioned on data; immutable. Build it with :func:`fit` or :func:`build`."""

    kernel: Kernel
    basis: Basis
    parameters: Array  # (p,) logarithms of the hyperparameters
    x: Array  # (n, d)
    y: Array  # (n,)
    noise: Array  # (n,) variance of each point's noise
    offset: float  # subtracted from y before anything else
    scale: float  # spread of y, the unit of the priors
    factors: Factors
    score: float  # log marginal likelihood + log prior of the hyperparameters

    @property
    def nugget(self) -> Array:
        """Variance added to the diagonal beyond the caller's noise."""
        return NUGGET * self.kernel.diagonal(self.parameters, self.x)

    def project(self, x: Array) -> Projection:
        """Mean and variance at ``x``, with the factors that covariances need; in blocks of bounded memory."""
        if len(x) <= _BLOCK:
            return self._project(x)
        width = max(min(_BLOCK, _BLOCK_ELEMENTS // len(self.x)), 1)
        blocks = [self._moments(x[i : i + width]) for i in range(0, len(x), width)]
        mean, variance = np.concatenate(blocks, axis=1)
        return Projection(x, mean, variance, np.empty((0, 0)), np.empty((0, 0)), again=self.project)

    def _moments(self, x: Array) -> tuple[Array, Array]:
        points = self._project(x)
        return points.mean, points.variance

    def _project(self, x: Array) -> Projection:
        f = self.factors
        v = solve(f.chol, self.kernel.matrix(self.parameters, self.x, x), overwrite=True)
        basis = basis_functions(self.basis, x)
        u = solve(f.chol_basis, basis.T - f.basis.T @ v, overwrite=True)
        mean = self.offset + basis @ f.beta + v.T @ f.residual
        variance = self.kernel.diagonal(self.parameters, x) - _squares(v) + _squares(u)
        return Projection(x, mean, np.maximum(variance, 0.0), v, u)

    def mean(self, x: Array) -> Array:
        """The mean alone at ``x``, without a solve for each point; shape (n,)."""
        f = self.factors
        value = self.offset + basis_functions(self.basis, x) @ f.beta
        return value + self.kernel.matrix(self.parameters, x, self.x) @ self.pull

    @cached_property
    def pull(self) -> Array:
        """(K + noise)⁻¹(y − Hβ): by how much each point pulls the mean; (n,)."""
        return solve(self.factors.chol, self.factors.residual, transposed=True)

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Mean and variance of the process (without noise) at ``x``."""
        points = self.project(x)
        return points.mean, points.variance

    def covariance(self, a: Projection, b: Projection) -> Array:
        """Posterior covariance between two sets of projected points, shape (n, m)."""
        if a.again is not None:
            parts = np.array_split(np.arange(len(a.x)), len(a.x) // _BLOCK + 1)
            return np.vstack([self.covariance(a.take(part), b) for part in parts])
        if b.again is not None:
            return self.covariance(b, a).T
        value = self.kernel.matrix(self.parameters, a.x, b.x).T
        value = blas.dgemm(-1.0, b.v.T, a.v.T, 1.0, value, trans_b=1, overwrite_c=1)
        return np.asarray(blas.dgemm(1.0, b.u.T, a.u.T, 1.0, value, trans_b=1, overwrite_c=1).T)

    def condition(self, x: Array, y: float, noise: float) -> GP:
        """The same process with one more point, by a rank-one extension of the factors (no refit)."""
        point = self.project(x[None, :])
        prior_variance = float(self.kernel.diagonal(self.parameters, x[None, :])[0])
        extra = noise + NUGGET * prior_variance
        corner = np.sqrt(max(prior_variance + extra - float(point.v[:, 0] @ point.v[:, 0]), extra))
        h = basis_functions(self.basis, x[None, :])
        chol, basis = _appended(self.factors, point.v, np.array([[corner]]), h)
        values = np.append(self.y, y)
        factors = _mean_factors(chol, basis, values - self.offset, self.factors.precision)
        return replace(
            self,
            x=np.vstack([self.x, x]),
            y=values,
            noise=np.append(self.noise, noise),
            factors=factors,
        )

    def leave_one_out(self) -> tuple[Array, Array]:
        """Mean and variance (noise included) of each value as predicted from all the others."""
        f = self.factors
        inverse = solve(f.chol, np.eye(len(self.x)), overwrite=True)
        projected = solve(f.chol_basis, f.basis.T @ inverse, overwrite=True)
        diagonal = _squares(inverse) - _squares(projected)
        return self.y - (inverse.T @ f.residual) / diagonal, 1.0 / diagonal


def build(
    x: Array,
    y: Array,
    noise: Array | float,
    kernel: Kernel,
    basis: Basis,
    parameters: Array,
    units: tuple[float, float] | None = None,
    known: GP | None = None,
) -> GP:
    """The process at given hyperparameters. Raises :class:`TbqError` where its covariance has no factor.

    ``units`` are offset and scale of a process that was conditioned since it was fitted; else they are the values' own.
    ``known`` is a process at the same hyperparameters whose points are the first of these: its factor is extended.
    """
    problem = Problem.of(x, y, noise, kernel, basis, units)
    factors = problem.extend(known, parameters) if known is not None else None
    for jitter in JITTER:
        if factors is None:
            more = problem.noise + jitter * kernel.diagonal(parameters, x)
            factors = replace(problem, noise=more).factorise(parameters)
    if factors is None:
        raise TbqError(f"GP: the {kernel.name} covariance cannot be factorised at parameters {parameters}")
    score = problem.score(factors, parameters)
    return GP(kernel, basis, parameters, x, y, problem.noise, problem.offset, problem.scale, factors, score)


@dataclass(frozen=True)
class Problem:
    """A training set and a model, ready to be scored at any hyperparameters."""

    x: Array  # (n, d)
    centred: Array  # (n,) values less their offset
    noise: Array  # (n,) variance of each point's noise
    offset: float
    scale: float
    kernel: Kernel
    basis: Array
    hyperprior: HyperPrior

    @staticmethod
    def of(
        x: Array,
        y: Array,
        noise: Array | float,
        kernel: Kernel,
        basis: Basis,
        units: tuple[float, float] | None = None,
    ) -> Problem:
        noise = np.broadcast_to(np.asarray(noise, dtype=float), y.shape)
        offset, scale = units or units_of(y, noise)
        functions, hyperprior = basis_functions(basis, x), kernel.hyperprior(x.shape[1], scale)
        return Problem(x, y - offset, noise, offset, scale, kernel, functions, hyperprior)

    @cached_property
    def gram(self) -> Gram:
        return self.kernel.gram(self.x)

    @property
    def precision(self) -> float:
        return 1.0 / (COEFFICIENT_SD * self.scale) ** 2

    def extend(self, known: GP, parameters: Array) -> Factors | None:
        """Factors from those of a process that knows the first points; None where it does not."""
        n = len(known.x)
        same = known.kernel is self.kernel and np.array_equal(known.parameters, parameters) and n <= len(self.x)
        if not (same and np.array_equal(known.x, self.x[:n]) and np.array_equal(known.noise, self.noise[:n])):
            return None
        if n == len(self.x):
            return _mean_factors(known.factors.chol, known.factors.basis, self.centred, self.precision)
        new = self.x[n:]
        v = solve(known.factors.chol, self.kernel.matrix(parameters, known.x, new), overwrite=True)
        corner = self.kernel.matrix(parameters, new, new) - v.T @ v
        corner[np.diag_indices_from(corner)] += self.noise[n:] + NUGGET * self.kernel.diagonal(parameters, new)
        chol_corner = cholesky(corner)
        if chol_corner is None:
            return None
        chol, basis = _appended(known.factors, v, chol_corner, self.basis[n:])
        return _mean_factors(chol, basis, self.centred, self.precision)

    def factorise(self, parameters: Array) -> Factors | None:
        """Factors at these hyperparameters, or None where the covariance is not positive definite."""
        return self._factors(self.gram(parameters)[0])

    def _factors(self, covariance: Array, more: Array | float = 0.0) -> Factors | None:
        K = covariance.copy()
        diagonal = K.reshape(-1)[:: len(K) + 1]
        diagonal *= 1.0 + NUGGET
        diagonal += self.noise + more
        chol = cholesky(K)
        if chol is None:
            return None
        return _mean_factors(chol, solve(chol, self.basis), self.centred, self.precision)

    def score(self, f: Factors, parameters: Array) -> float:
        """Log marginal likelihood plus log prior of the hyperparameters."""
        n, p = f.basis.shape
        log_likelihood = (
            -0.5 * (f.residual @ f.residual + f.precision * (f.beta @ f.beta))
            - np.log(np.diag(f.chol)).sum()
            - np.log(np.diag(f.chol_basis)).sum()
            + 0.5 * p * np.log(f.precision)
            - 0.5 * n * np.log(2.0 * np.pi)
        )
        return float(log_likelihood) + self.hyperprior.log_density(parameters)

    def log_posterior(self, parameters: Array) -> tuple[float, Array]:
        """The score and its gradient; −inf where the covariance cannot be factorised."""
        value, gradient, _ = self.with_noise_gradient(parameters)
        return value, gradient

    def with_noise_gradient(self, parameters: Array, more: Array | float = 0.0) -> tuple[float, Array, Array]:
        """The score with ``more`` noise, and its gradients by the parameters and by each point's variance."""
        covariance, contract = self.gram(parameters)
        f = self._factors(covariance, more)
        if f is None:
            return -np.inf, np.zeros_like(parameters), np.zeros_like(self.noise)
        alpha = solve(f.chol, f.residual, transposed=True)
        projected = solve(f.chol_basis, solve(f.chol, f.basis, transposed=True).T)
        # ααᵀ − K⁻¹ + PᵀP, P the projected basis; LAPACK fills one triangle: elements beside the diagonal count twice
        weights, _ = lapack.dpotri(f.chol, lower=1)
        weights = blas.dsyrk(2.0, projected, trans=1, beta=-2.0, c=weights, lower=1, overwrite_c=1)
        weights = blas.dsyr(2.0, alpha, lower=1, a=weights, overwrite_a=1).T
        diagonal = weights.reshape(-1)[:: len(alpha) + 1]
        of_noise = 0.25 * diagonal
        diagonal *= 0.5 * (1.0 + NUGGET)  # the nugget scales with the kernel
        gradient = 0.5 * contract(weights)
        return self.score(f, parameters), gradient + self.hyperprior.gradient(parameters), of_noise


def units_of(y: Array, noise: Array) -> tuple[float, float]:
    """Offset and scale in which values are modelled."""
    return float(np.mean(y)), float(max(np.std(y), np.sqrt(np.mean(noise))))


def _appended(known: Factors, v: Array, corner: Array, functions: Array) -> tuple[Array, Array]:
    """L and L⁻¹H with more rows: v = L⁻¹ k(X, new) and the new points' own factor and basis functions."""
    n, m = v.shape
    chol = np.zeros((n + m, n + m), order="F")
    chol[:n, :n], chol[n:, :n], chol[n:, n:] = known.chol, v.T, corner
    return chol, np.vstack([known.basis, solve(corner, functions - v.T @ known.basis)])


def _squares(columns: Array) -> Array:
    """Sum of squares of each column."""
    return np.asarray(np.einsum("ij,ij->j", columns, columns))


def _mean_factors(chol: Array, basis: Array, centred: Array, precision: float) -> Factors:
    white = solve(chol, centred)
    G = basis.T @ basis
    G[np.diag_indices_from(G)] += precision + 1e-13 * np.trace(G)  # rounding
    chol_basis = cholesky(G)
    assert chol_basis is not None
    beta = solve(chol_basis, solve(chol_basis, basis.T @ white), transposed=True)
    return Factors(chol, basis, chol_basis, beta, white - basis @ beta, precision)
