"""Populations: the points over which a stage integrates and searches, and how they follow the posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tbq.common.types import Array
from tbq.evidence import moments, moves
from tbq.problem.prior import Prior
from tbq.surrogate.protocol import Surrogate


@dataclass(frozen=True)
class Population:
    """Points to integrate and search over: some of the prior's, the others moved to the last stage's posterior.

    The moved ones follow the density q = E[L^γ] relative to the prior; all together they are a sample of
    the mixture (1 − s) q/c + s, where s is the fraction of the prior's own points.
    """

    z: Array  # (n, d)
    log_density: Array  # (n,) of the mixture, relative to the prior's, at the points
    gamma: float = 0.0
    prior_fraction: float = 1.0  # s
    surrogate: Surrogate[Any] | None = None  # None where all points are the prior's
    log_constant: float = 0.0  # log c

    @property
    def log_weights(self) -> Array:
        """ω with Z_γ = Σ_k e^{ω_k} E[L^γ(z_k)] for any γ (eq:PostMeanRatio)."""
        return -np.log(len(self.z)) - self.log_density

    @property
    def moved(self) -> Array:
        """Its points but the prior's own; all of them where there are no others; (m, d)."""
        return self.z if self.surrogate is None else self.z[: round((1.0 - self.prior_fraction) * len(self.z))]

    def log_density_at(self, z: Array) -> Array:
        """The mixture's log-density relative to the prior's, anywhere."""
        if self.surrogate is None:
            return np.zeros(len(z))
        log_q = self.surrogate.log_mean(self.surrogate.at(z), self.gamma)
        return _log_mixture(log_q, self.log_constant, self.prior_fraction)


def _log_mixture(log_q: Array, log_constant: float, s: float) -> Array:
    if s == 0.0:
        return log_q - log_constant
    return np.logaddexp(np.log1p(-s) + log_q - log_constant, np.log(s))


def follow(
    old: Population,
    surrogate: Surrogate[Any],
    gamma: float,
    prior: Prior,
    *,
    size: int,
    steps: int,
    prior_fraction: float,
    rng: np.random.Generator,
) -> tuple[Population, moves.Moved]:
    """Resample the population towards E[L^γ], move it by Markov chains, and add fresh points of the prior."""

    def log_q(z: Array) -> Array:
        return surrogate.log_mean(surrogate.at(z), gamma)

    at_old = log_q(old.z)
    _, weights = moments.normalise(at_old + old.log_weights)
    n_prior = round(prior_fraction * size)
    chosen = moments.systematic_resample(weights, size - n_prior, rng)
    moved = moves.move(old.z[chosen], log_q, prior.log_density_working, steps, rng, at_old[chosen])
    log_constant = moments.log_bridge(old.log_density, at_old, old.log_density_at(moved.z), moved.log_likelihood)
    fresh = prior.to_working(prior.sample(n_prior, rng, "sobol")) if n_prior else np.empty((0, prior.dim))
    at_new = np.concatenate([moved.log_likelihood, log_q(fresh)]) if n_prior else moved.log_likelihood
    log_density = _log_mixture(at_new, log_constant, prior_fraction)
    population = Population(np.vstack([moved.z, fresh]), log_density, gamma, prior_fraction, surrogate, log_constant)
    return population, moved
