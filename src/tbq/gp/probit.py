"""A Gaussian process of which only signs are known, by expectation propagation.

Given signs yᵢ = ±1, the process h is normal before and truncated after: p(h | y) ∝ N(h | 0, K) Πᵢ Φ(yᵢhᵢ/s). Each
factor is replaced by a normal one, its *site*, that gives h the right mean and variance given all other sites
(Rasmussen & Williams, Section 3.6). What results is an ordinary Gaussian process that was told the sites' values with
the sites' noise, and is returned as one: two neighbours of different sign say that the process is zero somewhere
between them, not where.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize, special

from tbq.common.types import Array
from tbq.gp import fitting
from tbq.gp import regression as gps
from tbq.gp.kernels import Kernel

_UNITS = (0.0, 1.0)  # a sign has no scale
_NOISE = 1e-4  # s²: signs are certain
_SWEEPS = 60
_DAMPING = 0.7  # fraction of a new site that is taken over, so that neighbours do not overshoot together
_CONVERGED = 1e-4  # largest change of a site's mean of h, in its standard deviations
_VAGUE = 1e-6  # precision of a site that says nothing
_STEPS = 40  # of the search for hyperparameters


@dataclass(frozen=True)
class Sites:
    """Normal factors in h, one per point: exp(shift·h − precision·h²/2)."""

    shift: Array  # (n,)
    precision: Array  # (n,)

    @property
    def values(self) -> Array:
        return self.shift / self.precision

    @property
    def noise(self) -> Array:
        return 1.0 / self.precision

    @staticmethod
    def of(gp: gps.GP, x: Array) -> Sites:
        """Those of a process that knows the first of these points, and vague ones at the others."""
        n = len(gp.x) if np.array_equal(gp.x, x[: len(gp.x)]) else 0
        vague = np.full(len(x) - n, _VAGUE)
        return Sites(np.append(gp.y[:n] / gp.noise[:n], 0.0 * vague), np.append(1.0 / gp.noise[:n], vague))


def match(sign: Array, mean: Array, variance: Array) -> tuple[Array, Sites]:
    """log ∫ Φ(sign·h/s) N(h | mean, variance) dh, and the sites that give h the mean and variance of that product."""
    width = np.sqrt(_NOISE + variance)
    t = sign * mean / width
    log_mass = special.log_ndtr(t)
    hazard = np.exp(-0.5 * t**2 - 0.5 * np.log(2.0 * np.pi) - log_mass)
    curvature = hazard * (t + hazard) / width**2  # 1/variance of the product's loss of width
    precision = np.maximum(curvature / np.maximum(1.0 - variance * curvature, 1e-12), _VAGUE)
    after = mean + sign * variance * hazard / width
    shift = after * (1.0 / variance + precision) - mean / variance
    return log_mass, Sites(shift, precision)


def propagate(covariance: Array, sign: Array, start: Sites | None = None) -> tuple[Sites, float]:
    """Sites for signs of a process with this covariance, and log P(signs) as they have it."""
    n = len(sign)
    sites = start or Sites(np.zeros(n), np.full(n, _VAGUE))
    mean, variance = _marginals(covariance, sites)
    for _ in range(_SWEEPS):
        _, new = match(sign, *_cavity(mean, variance, sites))
        sites = Sites(
            (1.0 - _DAMPING) * sites.shift + _DAMPING * new.shift,
            (1.0 - _DAMPING) * sites.precision + _DAMPING * new.precision,
        )
        before = mean
        mean, variance = _marginals(covariance, sites)
        if np.max(np.abs(mean - before) / np.sqrt(variance)) < _CONVERGED:
            break
    return sites, _log_mass(covariance, sign, sites, mean, variance)


def fit(x: Array, sign: Array, kernel: Kernel, basis: gps.Basis, last: gps.GP | None = None) -> gps.GP:
    """The process at the hyperparameters that make the signs likeliest, times their prior."""
    prior = kernel.hyperprior(x.shape[1], _UNITS[1])
    sites = None if last is None else Sites.of(last, x)

    def objective(parameters: Array) -> tuple[float, Array]:
        nonlocal sites  # each step starts from those of the one before
        sites, log_mass = propagate(_covariance(x, kernel, basis, parameters), sign, sites)
        # at the sites' fixed point the gradient is that of a regression on them
        gradient = fitting.log_posterior(x, sites.values, sites.noise, kernel, basis, parameters, _UNITS)[1]
        return -(log_mass + prior.log_density(parameters)), -gradient

    found = optimize.minimize(
        objective,
        prior.mean if last is None else last.parameters,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(prior.low, prior.high, strict=True)),
        options={"maxiter": _STEPS, "ftol": 1e-5},
    )
    return at(x, sign, kernel, basis, found.x, sites)


def at(
    x: Array, sign: Array, kernel: Kernel, basis: gps.Basis, parameters: Array, start: Sites | None = None
) -> gps.GP:
    """The process at given hyperparameters."""
    sites, _ = propagate(_covariance(x, kernel, basis, parameters), sign, start)
    return gps.build(x, sites.values, sites.noise, kernel, basis, parameters, _UNITS)


def _covariance(x: Array, kernel: Kernel, basis: gps.Basis, parameters: Array) -> Array:
    """Of the process and its marginalised mean."""
    functions = gps.basis_functions(basis, x)
    return kernel.matrix(parameters, x, x) + gps.COEFFICIENT_SD**2 * functions @ functions.T


def _marginals(covariance: Array, sites: Sites) -> tuple[Array, Array]:
    root = np.sqrt(sites.precision)
    B = np.eye(len(root)) + root[:, None] * covariance * root
    half = linalg.solve_triangular(
        linalg.cholesky(B, lower=True, check_finite=False), root[:, None] * covariance, lower=True, check_finite=False
    )
    mean = covariance @ sites.shift - half.T @ (half @ sites.shift)
    return mean, np.maximum(np.diag(covariance) - np.sum(half**2, axis=0), 1e-12)


def _cavity(mean: Array, variance: Array, sites: Sites) -> tuple[Array, Array]:
    """Mean and variance of each h without its own site."""
    without = 1.0 / np.maximum(1.0 / variance - sites.precision, 1e-10)
    return without * (mean / variance - sites.shift), without


def _log_mass(covariance: Array, sign: Array, sites: Sites, mean: Array, variance: Array) -> float:
    cavity_mean, cavity_variance = _cavity(mean, variance, sites)
    log_masses, _ = match(sign, cavity_mean, cavity_variance)
    spread = cavity_variance + sites.noise
    # of each site, what its normal factor leaves to be accounted for
    rest = log_masses + 0.5 * np.log(2.0 * np.pi * spread) + (cavity_mean - sites.values) ** 2 / (2.0 * spread)
    chol = linalg.cholesky(covariance + np.diag(sites.noise), lower=True)
    white = linalg.solve_triangular(chol, sites.values, lower=True)
    regression = -0.5 * white @ white - np.log(np.diag(chol)).sum() - 0.5 * len(sign) * np.log(2.0 * np.pi)
    return float(regression + rest.sum())
