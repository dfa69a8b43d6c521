"""Integrals over the noise parameters φ: the likelihood of a run that no longer has to say which noise.

A run has outputs y and the likelihood ∫ L(y, φ) p(φ) dφ. The integral is an importance sum over points of Student-t
densities about where L(y, φ) p(φ) lies, and of the prior; in normal scores of φ, which have no bounds and a standard
normal prior. Base points are the same for all runs, so that the sum is a smooth function of y.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import linalg, special
from scipy.stats import qmc

from tbq.common.types import Array
from tbq.problem.noise import NoiseModel
from tbq.problem.noise_forms import forms
from tbq.problem.prior import Prior

_FREEDOM = 6.0  # degrees of the Student-t densities: heavier tails than a posterior of levels and lengths has
_WIDER = 1.2  # factor of their widths
_SEARCH = 512  # points of each step of the search for where φ lies
_LEAST = 80.0  # effective points of a step that it may go on from
_STEPS = 20  # of the search, at most
_REFINED = 2  # steps after the first that needs no tempering
_OF_RUN = 8192  # points of a run's integral: its error is some 1e-3 nats
_FARTHEST = 8.0  # scores: beyond, a prior has no mass to speak of
_OF_PRIOR = 0.2  # fraction of a rule's points that are the prior's

Log = Callable[[Array], Array]


class Bell(NamedTuple):
    """Where the noise parameters of a run lie, in normal scores."""

    mean: Array  # (k,)
    factor: Array  # (k, k) lower Cholesky factor of the covariance


class Rule(NamedTuple):
    """∫ f(φ) p(φ) dφ ≈ Σ exp(log_weights) f(phi)."""

    phi: Array  # (S, k)
    log_weights: Array  # (S,)


def of_run(model: NoiseModel, outputs: Array) -> float:
    """log ∫ L(y, φ) p(φ) dφ of a run with outputs y (m,); nan where one of them is missing."""
    if np.isnan(outputs[np.unique(model.out)]).any():
        return float(np.nan)
    log_likelihood = likelihood_of(model, outputs)
    if model.prior is None:
        return float(log_likelihood(np.empty((1, 0)))[0])
    phi, log_weights = rule([located(model, outputs)], model.prior, _OF_RUN)
    return float(special.logsumexp(log_weights + log_likelihood(phi)))


def likelihood_of(model: NoiseModel, outputs: Array) -> Log:
    """log L(y, φ) of outputs y (m,) as a function of φ (N, k)."""
    table = forms(model, (model.data - outputs[model.out])[:, None])

    def log_likelihood(phi: Array) -> Array:
        form = table.at(phi, np.empty((len(phi), 0)))
        return np.asarray(form.best - 0.5 * form.matrix[:, 0, 0])

    return log_likelihood


def located(model: NoiseModel, outputs: Array) -> Bell:
    """Where the noise parameters lie given outputs (m,); remembered, since runs are asked about again and again."""
    assert model.prior is not None
    key = outputs.tobytes()
    if key not in model.located:
        model.located[key] = locate(likelihood_of(model, outputs), model.prior)
    return model.located[key]


def locate(log_likelihood: Log, prior: Prior) -> Bell:
    """The mean and spread of φ under L(φ) p(φ), from the prior on through tempered densities L^β p."""
    z = _normal(prior.dim, _SEARCH)
    log_value, log_ratio, left = log_likelihood(from_scores(z, prior)), np.zeros(len(z)), _REFINED
    bell = Bell(np.zeros(prior.dim), np.eye(prior.dim))
    for _ in range(_STEPS):
        beta, weights = _tempered(log_value, log_ratio)
        bell = _bell(z, weights)
        left -= beta == 1.0
        if left < 0:
            break
        z = _student(bell, _SEARCH)
        log_ratio, log_value = _log_normal(z) - _log_student(bell, z), log_likelihood(from_scores(z, prior))
    return bell


def rule(bells: Sequence[Bell], prior: Prior, n: int) -> Rule:
    """``n`` points about bells, which are worth the same, and of the prior."""
    of_prior = round(_OF_PRIOR * n)
    each = -(-(n - of_prior) // len(bells))
    z = np.vstack([*(_student(b, each, i) for i, b in enumerate(bells)), _normal(prior.dim, of_prior)])
    log_prior, total = _log_normal(z), len(z)
    densities = [np.log(each / total) + _log_student(b, z) for b in bells]
    log_density = special.logsumexp([*densities, np.log(of_prior / total) + log_prior], axis=0)
    return Rule(from_scores(z, prior), log_prior - log_density - np.log(total))


def from_scores(z: Array, prior: Prior) -> Array:
    """Noise parameters, which are independent, of their normal scores."""
    z = np.clip(z, -_FARTHEST, _FARTHEST)
    columns = zip(prior.marginals.values(), z.T, strict=True)
    return np.column_stack([np.where(c < 0.0, m.ppf(special.ndtr(c)), m.isf(special.ndtr(-c))) for m, c in columns])


def _log_normal(z: Array) -> Array:
    return np.asarray(-0.5 * np.sum(z**2, axis=1) - 0.5 * z.shape[1] * np.log(2.0 * np.pi))


@lru_cache(maxsize=64)
def _normal(k: int, n: int) -> Array:
    """Points of a standard normal density, always the same."""
    u = qmc.Sobol(k, rng=99).random_base2(max(n - 1, 1).bit_length())[:n]
    return np.asarray(special.ndtri(np.clip(u, 1e-12, 1.0 - 1e-12)))


def _tempered(log_value: Array, log_ratio: Array) -> tuple[float, Array]:
    """The largest β ≤ 1 at which the weights of L^β p are worth enough points, and these weights."""

    def at(beta: float) -> Array:
        terms = beta * log_value + log_ratio
        weights = np.exp(terms - terms.max())
        return np.asarray(weights / weights.sum())

    def worth(beta: float) -> float:
        return float(1.0 / np.sum(at(beta) ** 2))

    enough = min(_LEAST, 0.5 * len(log_value))
    if worth(1.0) >= enough:
        return 1.0, at(1.0)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if worth(middle) >= enough else (low, middle)
    return low, at(low)


def _bell(z: Array, weights: Array) -> Bell:
    mean = weights @ z
    away = z - mean
    covariance = _WIDER**2 * (away.T * weights) @ away
    return Bell(mean, linalg.cholesky(covariance + 1e-12 * np.eye(len(mean)), lower=True))


def _student(bell: Bell, n: int, which: int = 0) -> Array:
    return np.asarray(bell.mean + _base(len(bell.mean), n, which) @ bell.factor.T)


@lru_cache(maxsize=64)
def _base(k: int, n: int, which: int) -> Array:
    """Points of a standard Student-t density of k dimensions, always the same."""
    u = qmc.Sobol(k + 1, rng=which).random_base2(max(n - 1, 1).bit_length())[:n]
    u = np.clip(u, 1e-12, 1.0 - 1e-12)
    heavy = np.sqrt(_FREEDOM / special.chdtri(_FREEDOM, u[:, 0]))
    return np.asarray(special.ndtri(u[:, 1:]) * heavy[:, None])


def _log_student(bell: Bell, z: Array) -> Array:
    k = len(bell.mean)
    white = linalg.solve_triangular(bell.factor, (z - bell.mean).T, lower=True)
    constant = special.gammaln(0.5 * (_FREEDOM + k)) - special.gammaln(0.5 * _FREEDOM)
    constant -= 0.5 * k * np.log(_FREEDOM * np.pi) + np.sum(np.log(np.diag(bell.factor)))
    return np.asarray(constant - 0.5 * (_FREEDOM + k) * np.log1p(np.sum(white**2, axis=0) / _FREEDOM))
