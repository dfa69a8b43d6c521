"""Evidences of the real posteriors of `tbq bench real`, by adaptive importance sampling with the true log-likelihood.

Run: python benchmarks/real_references.py [problem ...]; all take some ten minutes of one core.

In coordinates in which the prior is standard normal, populations climb to the posterior by tempering, each from
nothing; a mixture of Student-t densities is fitted to all of them, and again to what importance sampling makes of it.
The last draws are independent of the fit, and repeated.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize, special, stats
from sklearn.mixture import GaussianMixture

from tbq import problems
from tbq.common.types import Array
from tbq.problems import Problem

LogDensity = Callable[[Array], Array]
COMPONENTS = (1, 2, 4, 8, 16, 32)  # of a mixture; chosen by draws left out
FREEDOM = 5.0  # of the Student-t densities: tails heavier than any of these posteriors' in normal coordinates
WIDENED = 1.1  # their scales
BROAD, BROAD_SHARE = 4.0, 0.1  # a copy of the mixture with scales so many times as large, and its share of the draws
SWEEPS, RISE = 30, 0.1  # of moves per stage, at most, and nats by which the tempered log-likelihood may still rise
ROUNDS = 3  # of importance sampling that the last mixture is fitted to


@dataclass(frozen=True)
class Estimate:
    """What repetitions of importance sampling say of a posterior."""

    log_evidence: float
    sd: float  # the larger of what weights and repetitions say
    effective: float  # sample size, the smallest of the repetitions'
    masses: Array  # of the modes
    climbed: list[float]  # log-evidences by tempering alone: nats too low where moves fill a narrow funnel badly


@dataclass(frozen=True)
class StudentMixture:
    """Student-t densities, and broader copies of them."""

    weights: Array
    means: Array
    covariances: Array

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        d = self.means.shape[1]
        component = rng.choice(len(self.weights), n, p=self.weights)
        heavy = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, n)) * np.where(rng.random(n) < BROAD_SHARE, BROAD, 1.0)
        factors = np.linalg.cholesky(self.covariances)[component]
        return self.means[component] + heavy[:, None] * np.einsum("nij,nj->ni", factors, rng.standard_normal((n, d)))

    def log_density(self, z: Array) -> Array:
        d, parts = self.means.shape[1], []
        constant = (
            special.gammaln(0.5 * (FREEDOM + d)) - special.gammaln(0.5 * FREEDOM) - 0.5 * d * np.log(FREEDOM * np.pi)
        )
        for weight, mean, factor in zip(self.weights, self.means, np.linalg.cholesky(self.covariances), strict=True):
            squared = np.sum(linalg.solve_triangular(factor, (z - mean).T, lower=True) ** 2, axis=0)
            log_scale = constant + np.log(weight) - np.sum(np.log(np.diag(factor)))
            for share, scale in ((1.0 - BROAD_SHARE, 1.0), (BROAD_SHARE, BROAD)):
                tail = 0.5 * (FREEDOM + d) * np.log1p(squared / (scale**2 * FREEDOM))
                parts.append(log_scale + np.log(share) - d * np.log(scale) - tail)
        return np.asarray(special.logsumexp(parts, axis=0))


def estimate(problem: Problem, repetitions: int = 4, draws: int = 100_000, population: int = 1500) -> Estimate:
    """The evidence and the modes' masses: independent climbs, one mixture for all that they found, its own draws."""
    rng, d = np.random.default_rng(7), problem.prior.dim
    half = draws // 2

    def theta(z: Array) -> Array:
        return problem.prior.from_uniform(np.clip(special.ndtr(z), 1e-300, 1.0 - 1e-16))

    def log_likelihood(z: Array) -> Array:
        return np.asarray(problem.log_likelihood(theta(z)))

    climbs = [climb(log_likelihood, d, population, rng) for _ in range(repetitions)]
    mixture = fit(np.concatenate([z for z, _ in climbs]), rng)
    for _ in range(ROUNDS):
        z, log_weights = weighted(log_likelihood, mixture, half, rng)
        weights = np.exp(log_weights - special.logsumexp(log_weights))
        mixture = fit(z[rng.choice(half, 4 * population, p=weights)], rng)
    one = [_last(problem, theta, weighted(log_likelihood, mixture, draws, rng)) for _ in range(repetitions)]
    log_evidences, within, effective, masses = (np.array(column) for column in zip(*one, strict=True))
    between = float(log_evidences.std(ddof=1))
    return Estimate(
        float(special.logsumexp(log_evidences) - np.log(repetitions)),
        float(max(np.sqrt(np.mean(within**2)), between) / np.sqrt(repetitions)),
        float(effective.min()),
        masses.mean(axis=0),
        [value for _, value in climbs],
    )


def _last(
    problem: Problem, theta: Callable[[Array], Array], draws: tuple[Array, Array]
) -> tuple[float, float, float, Array]:
    """Log-evidence of weighted draws, its standard error, the effective sample size, the modes' masses."""
    z, log_weights = draws
    log_evidence = float(special.logsumexp(log_weights) - np.log(len(z)))
    weights = np.exp(log_weights - log_evidence) / len(z)
    effective = 1.0 / float(np.sum(weights**2))
    masses = np.array([np.sum(weights[mode.contains(theta(z))]) for mode in problem.reference.modes])
    return log_evidence, float(np.sqrt(1.0 / effective - 1.0 / len(z))), effective, masses


def weighted(
    log_likelihood: LogDensity, mixture: StudentMixture, n: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draws of the mixture and the logarithms of their weights: likelihood times prior over the mixture's density."""
    z = mixture.sample(n, rng)
    return z, log_likelihood(z) + log_prior(z) - mixture.log_density(z)


def log_prior(z: Array) -> Array:
    return np.asarray(stats.norm.logpdf(z).sum(axis=1))


def climb(log_likelihood: LogDensity, d: int, size: int, rng: np.random.Generator) -> tuple[Array, float]:
    """A population of the posterior by tempering, and the log-evidence on the way.

    It starts with ten times as many points of the prior, so that narrow modes have some; weights of each stage have a
    coefficient of variation of 1.
    """
    z = rng.standard_normal((10 * size, d))
    value = log_likelihood(z)
    gamma, log_evidence = 0.0, 0.0
    while gamma < 1.0:
        step = _step(value, 1.0 - gamma)
        log_weights = step * value
        log_sum = float(special.logsumexp(log_weights))
        log_evidence += log_sum - np.log(len(z))
        gamma = 1.0 if step == 1.0 - gamma else gamma + step
        index = rng.choice(len(z), size, p=np.exp(log_weights - log_sum))
        z, value = _moved(log_likelihood, z[index], value[index], gamma, rng)
    return z, log_evidence


def _step(value: Array, most: float) -> float:
    """By how much the exponent may grow: until half of the points are effective, as far as ``most``."""
    off = value - value.max()

    def lack(log_step: float) -> float:
        log_weights = np.exp(log_step) * off
        effective = 2.0 * special.logsumexp(log_weights) - special.logsumexp(2.0 * log_weights)
        return float(effective - np.log(0.5 * len(off)))

    if lack(np.log(most)) >= 0.0:
        return most
    return float(np.exp(optimize.brentq(lack, -400.0, np.log(most))))


def _moved(
    log_likelihood: LogDensity, z: Array, value: Array, gamma: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Sweeps until the tempered log-likelihood no longer rises: copies have spread, and funnels are filled."""
    for _ in range(SWEEPS):
        before = gamma * value.mean()
        z, value = _sweep(log_likelihood, z, value, gamma, rng)
        if gamma * value.mean() < before + RISE:
            break
    return z, value


def _sweep(
    log_likelihood: LogDensity, z: Array, value: Array, gamma: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Differential evolution: each point steps along the difference of two others, now and then by all of it."""
    n, d = z.shape
    pool, prior = z, log_prior(z)
    for turn in range(20):
        first, second = rng.integers(n, size=(2, n))
        length = np.full(n, 1.0) if turn % 5 == 0 else 2.38 / np.sqrt(2 * d) * rng.choice([1.0, 0.3, 0.1], n)
        there = z + length[:, None] * (pool[first] - pool[second]) + 1e-6 * rng.standard_normal(z.shape)
        there_prior, there_value = log_prior(there), log_likelihood(there)
        taken = np.log(rng.random(n)) < gamma * (there_value - value) + there_prior - prior
        z = np.where(taken[:, None], there, z)
        value, prior = np.where(taken, there_value, value), np.where(taken, there_prior, prior)
    return z, value


def fit(z: Array, rng: np.random.Generator) -> StudentMixture:
    """A mixture around the draws; the number of components is chosen by the half left out."""
    z = np.unique(z, axis=0)
    mean, root = z.mean(axis=0), np.linalg.cholesky(np.cov(z.T) + 1e-14 * np.eye(z.shape[1]))
    white = rng.permutation(np.linalg.solve(root, (z - mean).T).T)
    half = len(white) // 2
    best, best_score = None, -np.inf
    for k in [k for k in COMPONENTS if k < half]:
        fitted = GaussianMixture(k, reg_covar=1e-8, n_init=2, random_state=int(rng.integers(2**31)))
        score = fitted.fit(white[:half]).score(white[half:])
        if score > best_score + 0.002:
            best, best_score = fitted, score
    assert best is not None
    covariances = WIDENED**2 * np.einsum("ij,kjl,ml->kim", root, best.covariances_, root)
    return StudentMixture(best.weights_ / best.weights_.sum(), mean + best.means_ @ root.T, covariances)


def main(names: list[str]) -> None:
    print("| problem | ln Z | ± | stored | ± | off / sd | effective | climbed | modes | s |")
    print("|" + "---|" * 10)
    for name in names:
        problem, start = problems.get(name), time.perf_counter()
        found, stored = estimate(problem), problem.reference
        off = (found.log_evidence - stored.log_evidence) / np.hypot(found.sd, stored.log_evidence_sd)
        cells = [
            *(name, f"{found.log_evidence:.4f}", f"{found.sd:.4f}", f"{stored.log_evidence:.4f}"),
            *(f"{stored.log_evidence_sd:.4f}", f"{off:.1f}", f"{found.effective:.0f}", f"{max(found.climbed):.2f}"),
            *(" ".join(f"{m:.4f}" for m in found.masses), f"{time.perf_counter() - start:.0f}"),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or problems.real_names())
