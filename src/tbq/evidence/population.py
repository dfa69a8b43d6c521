"""Populations: the points over which a stage integrates and searches, and how they follow the posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tbq.common.types import Array
from tbq.evidence import importance, moments, moves
from tbq.problem.prior import Prior
from tbq.problem.settings import Settings
from tbq.surrogate.protocol import Surrogate

_CHAINS = 256  # that look how far a lost part of the posterior reaches
_STEPS = 10  # of those at least, in each round
_POINT = 1e-3  # working units: how far apart they start
_SPREADS = 12  # most rounds in which their proposals are adapted to where they got
_SPREAD = 0.5  # least growth of log det of their covariance for which there is another
_EDGE = 0.002  # fraction of them that lies beyond the edge of the part
_APART = 0.01  # most of the other members that may lie within it
_MEMBERS = 512  # of a population, to which mixtures are fitted where outputs are learned
_FEWEST = 20.0  # effective draws without which the part's evidence is not known
_MATTERS = 0.02  # nats of log Z: a part with less than that is left out
_MISCOUNTED = (
    0.2  # nats by which a population's evidence may be below (of outputs: off) what a mixture fitted to it finds
)
_MIXTURES = 4  # most mixtures, each fitted to draws of the last one
_PLENTY = 0.1  # fraction of effective draws from which on no better mixture is looked for
_NOTHING = 1e300


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
    return _with_prior(moved, n_prior, surrogate, gamma, log_constant, prior, rng), moved


def found_at(
    start: Array, old: Population, surrogate: Surrogate[Any], prior: Prior, settings: Settings, rng: np.random.Generator
) -> tuple[Population, moves.Moved] | None:
    """The posterior with the part that lies around ``start``, which all members of the old population have lost.

    Chains that start there find how far that part reaches, a Student mixture fitted to them how much evidence is in it.
    What the old population claims to be its density there is not asked: it has no members to show for it. None where
    the chains come to its members, so that nothing was lost, or where that part hardly matters.
    """

    def log_q(z: Array) -> Array:
        return surrogate.log_mean(surrogate.at(z), 1.0)

    z, mixture = _part_around(start, log_q, prior, max(settings.chain_length, _STEPS), rng)
    size, at_old = settings.population, log_q(old.z)
    edge = float(np.quantile(mixture.log_density(z), _EDGE))  # of the part: space is divided there
    members = mixture.log_density(old.z) > edge
    if members.mean() > _APART:
        return None
    drawn = mixture.sample(size, rng)
    density, log_prior = mixture.log_density(drawn), prior.log_density_working(drawn)
    inside = np.isfinite(log_prior) & (density > edge)
    if not inside.any():
        return None
    drawn = drawn[inside]
    log_terms = log_q(drawn) + log_prior[inside] - density[inside]
    log_here, weights = moments.normalise(log_terms - np.log(size))
    log_there, of_old = moments.normalise(np.where(members, -_NOTHING, at_old + old.log_weights))
    log_constant = float(np.logaddexp(log_here, log_there))
    if log_constant < log_there + _MATTERS or moments.effective_sample_size(weights) < _FEWEST:
        return None
    n_prior = round(settings.tuning.prior_fraction * size)
    n_here = round(float(np.exp(log_here - log_constant)) * (size - n_prior))
    here = drawn[moments.systematic_resample(weights, n_here, rng)]
    there = old.z[moments.systematic_resample(of_old, size - n_prior - n_here, rng)]
    moved = moves.move(np.vstack([here, there]), log_q, prior.log_density_working, settings.chain_length, rng)
    return _with_prior(moved, n_prior, surrogate, 1.0, log_constant, prior, rng), moved


def recounted(
    old: Population, surrogate: Surrogate[Any], prior: Prior, settings: Settings, rng: np.random.Generator
) -> tuple[Population, moves.Moved] | None:
    """The posterior with the evidence that a mixture fitted to its members finds; None where it finds no more.

    Ratios of evidences are poor where members leapt from a plateau to a peak between two stages. Where outputs are
    learned, their likelihood is smooth enough for mixtures that are fitted again, each to draws of the last one, and
    for what they find to count where it is less, too.
    """
    of_outputs = settings.surrogate == "outputs"

    def log_q(z: Array) -> Array:
        return surrogate.log_mean(surrogate.at(z), 1.0)

    size = settings.population
    known, weights = moments.normalise(log_q(old.z) + old.log_weights)
    if moments.effective_sample_size(weights) < _FEWEST:
        return None
    some = min(_MEMBERS, len(old.z)) if of_outputs else len(old.z)  # fewer may lose a mode of log-likelihoods
    members = old.z[moments.systematic_resample(weights, some, rng)]
    for _ in range(_MIXTURES if of_outputs else 1):
        mixture = importance.fit_student_mixture(members, rng)
        drawn = mixture.sample(size, rng)
        log_prior = prior.log_density_working(drawn)
        drawn, log_prior = drawn[np.isfinite(log_prior)], log_prior[np.isfinite(log_prior)]
        at_drawn = log_q(drawn)
        log_constant, weights = moments.normalise(at_drawn + log_prior - mixture.log_density(drawn) - np.log(size))
        if moments.effective_sample_size(weights) > _PLENTY * size:
            break
        members = drawn[moments.systematic_resample(weights, len(members), rng)]
    off = abs(log_constant - known) if of_outputs else log_constant - known
    if off < _MISCOUNTED or moments.effective_sample_size(weights) < _FEWEST:
        return None
    n_prior = round(settings.tuning.prior_fraction * size)
    chosen = moments.systematic_resample(weights, size - n_prior, rng)
    moved = moves.move(drawn[chosen], log_q, prior.log_density_working, settings.chain_length, rng, at_drawn[chosen])
    return _with_prior(moved, n_prior, surrogate, 1.0, log_constant, prior, rng), moved


def _part_around(
    start: Array, log_q: Callable[[Array], Array], prior: Prior, steps: int, rng: np.random.Generator
) -> tuple[Array, importance.StudentMixture]:
    """Where chains from a point get to, by rounds whose proposals follow the last one's spread, and their density."""
    z, volume = start + _POINT * rng.standard_normal((_CHAINS, len(start))), -np.inf
    for _ in range(_SPREADS):
        z = moves.move(z, log_q, prior.log_density_working, steps, rng).z
        before, volume = volume, float(np.linalg.slogdet(np.atleast_2d(np.cov(z.T)))[1])
        if volume < before + _SPREAD:
            break
    return z, importance.fit_student_mixture(z, rng)


def _with_prior(
    moved: moves.Moved,
    n_prior: int,
    surrogate: Surrogate[Any],
    gamma: float,
    log_constant: float,
    prior: Prior,
    rng: np.random.Generator,
) -> Population:
    """Moved points and fresh ones of the prior."""
    prior_fraction = n_prior / (len(moved.z) + n_prior)
    fresh = prior.to_working(prior.sample(n_prior, rng, "sobol")) if n_prior else np.empty((0, prior.dim))
    at_fresh = surrogate.log_mean(surrogate.at(fresh), gamma) if n_prior else np.empty(0)
    log_density = _log_mixture(np.concatenate([moved.log_likelihood, at_fresh]), log_constant, prior_fraction)
    return Population(np.vstack([moved.z, fresh]), log_density, gamma, prior_fraction, surrogate, log_constant)
