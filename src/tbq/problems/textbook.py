"""Problems outside the paper, on which no default was tuned: what `tbq bench calibration` adds to the library.

Evidences are closed forms or integrals over one variable; the mass of the bent normal that lies inside its box is from
4·10⁷ draws (relative error below 1e-5). Likelihoods take one θ or many rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import integrate, special, stats

from tbq.common.types import Array
from tbq.problem.prior import Prior
from tbq.problems.base import Mode, Problem, Reference

_LOG_2PI = float(np.log(2.0 * np.pi))


def mixture4() -> Problem:
    """Two narrow modes of 90 and 10 % in four dimensions."""
    centers, masses = np.array([[1.5, -1.0, 0.5, 2.0], [-2.0, 1.5, -1.5, -1.0]]), (0.9, 0.1)
    return _two_modes("mixture4", centers, masses, 0.3)


def mixture8() -> Problem:
    """Two modes of 70 and 30 % in eight dimensions: no sum of functions of two parameters."""
    centers = np.array([[1.5, -1.0, 0.5, 2.0, -1.0, 0.5, 1.0, -1.5], [-2.0, 1.5, -1.5, -1.0, 1.0, -1.5, -0.5, 1.0]])
    return _two_modes("mixture8", centers, (0.7, 0.3), 0.5)


def _two_modes(name: str, centers: Array, masses: tuple[float, float], width: float) -> Problem:
    d = centers.shape[1]
    normal, log_masses = 0.5 * (centers[0] - centers[1]), np.log(masses)
    middle = centers.mean(axis=0)

    def log_likelihood(theta: Array) -> Array:
        squared = np.sum((theta[..., None, :] - centers) ** 2, axis=-1) / width**2
        return np.logaddexp(*np.moveaxis(log_masses - 0.5 * squared, -1, 0))

    modes = (
        Mode("first", masses[0], lambda theta: (theta - middle) @ normal > 0),
        Mode("second", masses[1], lambda theta: (theta - middle) @ normal <= 0),
    )
    inside = sum(m * np.prod(_between(-4, 4, c, width)) for m, c in zip(masses, centers, strict=True))
    evidence = 0.5 * d * (_LOG_2PI + 2 * np.log(width)) - d * np.log(8.0) + np.log(inside)
    title = f"two separate modes of {masses[0]:.0%} and {masses[1]:.0%}"
    return _problem(name, title, _box(d, 4.0), log_likelihood, evidence, modes)


def _between(low: float, high: float, center: Array, width: float) -> Array:
    return special.ndtr((high - center) / width) - special.ndtr((low - center) / width)


def banana6() -> Problem:
    """A correlated normal bent along two of its six axes."""
    covariance = 0.36 * 0.6 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    precision = np.linalg.inv(covariance)

    def log_likelihood(theta: Array) -> Array:
        v = np.array(theta, dtype=float)
        v[..., 1] -= 0.8 * (v[..., 0] ** 2 - 0.36)
        v[..., 3] -= 0.8 * (v[..., 2] ** 2 - 0.36)
        return -0.5 * np.einsum("...i,ij,...j->...", v, precision, v)

    inside = 0.998654  # of the bent normal; bending keeps volumes
    evidence = 3.0 * _LOG_2PI + 0.5 * np.linalg.slogdet(covariance)[1] - 6 * np.log(8.0) + np.log(inside)
    return _problem("banana6", "a correlated normal, bent twice", _box(6, 4.0), log_likelihood, evidence)


def correlated8() -> Problem:
    """A normal whose axes are turned against the parameters, a hundredfold longer one way than the other."""
    rng = np.random.default_rng(8)
    turn = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    covariance, center = turn @ np.diag(np.logspace(-2, 0, 8)) @ turn.T, rng.uniform(-1.5, 1.5, 8)
    precision = np.linalg.inv(covariance)

    def log_likelihood(theta: Array) -> Array:
        off = theta - center
        return -0.5 * np.einsum("...i,ij,...j->...", off, precision, off)

    evidence = 4.0 * _LOG_2PI + 0.5 * np.linalg.slogdet(covariance)[1] - 8 * np.log(10.0)
    return _problem("correlated8", "a correlated normal", _box(8, 5.0), log_likelihood, evidence)


def normal12() -> Problem:
    """Twelve independent normal factors under standard normal priors."""
    variance, center = 0.6, 0.462

    def log_likelihood(theta: Array) -> Array:
        return -0.5 * np.sum((theta - center) ** 2 / variance + np.log(variance) + _LOG_2PI, axis=-1)

    evidence = 12 * float(stats.norm.logpdf(center, 0.0, np.sqrt(1.0 + variance)))
    return _problem("normal12", "a product of normals, normal priors", _normal(12), log_likelihood, evidence)


def linear3() -> Problem:
    return _linear(3)


def linear8() -> Problem:
    return _linear(8)


def linear12() -> Problem:
    return _linear(12)


def _linear(d: int) -> Problem:
    """Data y = Aθ + noise, twice as many as parameters, standard normal priors."""
    rng = np.random.default_rng(d)
    design, noise = rng.normal(size=(2 * d, d)), 0.5
    data = design @ rng.normal(size=d) + noise * rng.normal(size=2 * d)

    def log_likelihood(theta: Array) -> Array:
        misfit = (data - theta @ design.T) / noise
        return -0.5 * np.sum(misfit**2, axis=-1) - d * (_LOG_2PI + 2.0 * np.log(noise))

    spread = design @ design.T + noise**2 * np.eye(2 * d)
    evidence = float(stats.multivariate_normal(np.zeros(2 * d), spread).logpdf(data))
    return _problem(f"linear{d}", "a linear model, normal priors", _normal(d), log_likelihood, evidence)


def student3() -> Problem:
    """Independent Student-t factors with two degrees of freedom: tails that never end."""
    center, width = np.array([1.0, -0.5, 0.0]), 0.25

    def log_likelihood(theta: Array) -> Array:
        return -1.5 * np.sum(np.log1p(0.5 * ((theta - center) / width) ** 2), axis=-1)

    law = stats.t(2)
    factors = width * (law.cdf((4.0 - center) / width) - law.cdf((-4.0 - center) / width)) / law.pdf(0.0) / 8.0
    evidence = float(np.sum(np.log(factors)))
    return _problem("student3", "heavy tails along three axes", _box(3, 4.0), log_likelihood, evidence)


def funnel3() -> Problem:
    """Neal's funnel: the width of two parameters is set by the third."""
    reach, spread = 10.0, 1.0

    def log_likelihood(theta: Array) -> Array:
        v, x = theta[..., 0], theta[..., 1:]
        return -0.5 * np.sum(x**2, axis=-1) * np.exp(-v) - v - _LOG_2PI

    def integrand(v: float) -> float:
        inside = 2.0 * special.ndtr(reach * np.exp(-0.5 * v)) - 1.0
        return float(stats.norm.pdf(v, 0.0, spread) * (inside / (2.0 * reach)) ** 2)

    evidence = float(np.log(integrate.quad(integrand, -8.0, 8.0, epsabs=1e-14)[0]))
    prior = Prior({"v": stats.norm(0, spread), "x1": stats.uniform(-reach, 20), "x2": stats.uniform(-reach, 20)})
    return _problem("funnel3", "Neal's funnel", prior, log_likelihood, evidence)


def cut2() -> Problem:
    """A correlated normal of which a slanted line cuts off more than half of the prior and a third of the mass."""
    covariance = np.array([[0.8, 0.3], [0.3, 0.6]])
    precision, slope, edge = np.linalg.inv(covariance), np.array([1.0, 0.5]), 0.45

    def log_likelihood(theta: Array) -> Array:
        value = -0.5 * np.einsum("...i,ij,...j->...", theta, precision, theta)
        return np.where(theta @ slope > edge, -np.inf, value)

    below = special.ndtr(edge / np.sqrt(slope @ covariance @ slope))
    evidence = _LOG_2PI + 0.5 * np.linalg.slogdet(covariance)[1] - 2 * np.log(8.0) + np.log(below)
    return _problem("cut2", "a normal beside zero likelihood", _box(2, 4.0), log_likelihood, evidence)


def offset2() -> Problem:
    """A banana whose log-likelihood is a million below zero."""

    def log_likelihood(theta: Array) -> Array:
        a, b = theta[..., 0], theta[..., 1]
        return -0.5 * (a / 0.7) ** 2 - 0.5 * ((b - a**2 + 0.5) / 0.3) ** 2 - 1e6

    def integrand(a: float) -> float:
        return float(np.exp(-0.5 * (a / 0.7) ** 2) * _between(-4.0, 4.0, np.asarray(a**2 - 0.5), 0.3))

    inside = integrate.quad(integrand, -4.0, 4.0)[0] * 0.3 * np.sqrt(2.0 * np.pi)
    evidence = np.log(inside / 64.0) - 1e6
    return _problem("offset2", "a banana at −10⁶", _box(2, 4.0), log_likelihood, evidence)


def idle6() -> Problem:
    """A ring in two parameters; four others do nothing."""

    def log_likelihood(theta: Array) -> Array:
        return -0.5 * ((np.hypot(theta[..., 0] - 0.5, theta[..., 1]) - 1.8) / 0.25) ** 2

    ring = integrate.quad(lambda r: 2 * np.pi * r * np.exp(-0.5 * ((r - 1.8) / 0.25) ** 2), 0.0, 3.5)[0]
    evidence = float(np.log(ring / 64.0))
    return _problem("idle6", "a ring, and four idle parameters", _box(6, 4.0), log_likelihood, evidence)


def _problem(
    name: str,
    title: str,
    prior: Prior,
    log_likelihood: Callable[[Array], Array],
    log_evidence: float,
    modes: tuple[Mode, ...] = (),
) -> Problem:
    return Problem(name, title, prior, log_likelihood, Reference(float(log_evidence), modes))


def _box(d: int, half: float) -> Prior:
    return Prior({f"theta{i}": stats.uniform(-half, 2.0 * half) for i in range(1, d + 1)})


def _normal(d: int) -> Prior:
    return Prior({f"theta{i}": stats.norm() for i in range(1, d + 1)})


ALL = (
    *(cut2, offset2, funnel3, linear3, student3, mixture4, banana6, idle6),
    *(correlated8, linear8, mixture8, linear12, normal12),
)
