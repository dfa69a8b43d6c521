"""What a run is for, other than the stage it is made in: a look over the whole prior, or a doubt before the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tbq.common.types import Array, BoolArray
from tbq.evidence import moments, tempering
from tbq.evidence.estimate import Assessment
from tbq.evidence.population import Population
from tbq.evidence.target import Target
from tbq.problem.prior import Prior
from tbq.problem.settings import Settings
from tbq.surrogate.feasibility import Region
from tbq.surrogate.protocol import Surrogate

_REACH = 1.5  # distances between two members that a point may lie beyond one of them
_PROFILES = 64
_TRIALS = 64  # members of the population that are tried for each
_POOL = 2048  # points of the prior to choose from
_HEAVIEST = 50  # points of a quadrature that are suspected where its error is large


def exploration(
    turn: int,
    whole: Population,
    current: Population,
    surrogate: Surrogate[Any],
    prior: Prior,
    regions: Sequence[Region],
    settings: Settings,
    rng: np.random.Generator,
) -> tuple[Target, Array]:
    """A flat target where the stages do not look, and the points to choose from.

    In the plane that is the whole prior. Above, a prior is too large for that alone, and four looks take turns: over
    the whole prior, along profiles, past the population, and at the highest likelihood that is expected.
    """
    look = turn % 4 if prior.dim > 2 else 0
    z = beyond(current.z, settings.candidates, prior, rng) if look > 1 else whole.z[: settings.candidates]
    target = _flat(z, surrogate, prior, settings, rng)
    if look == 1:
        z = end(profiles(current.z, whole.z, surrogate, prior, regions, rng), surrogate, settings)
    if look == 3:
        z = peak(np.vstack([z, current.z]), surrogate, regions, settings)
    return target, z


def _flat(z: Array, surrogate: Surrogate[Any], prior: Prior, settings: Settings, rng: np.random.Generator) -> Target:
    """The evidence over these points, tempered until no few of them carry it."""
    points = surrogate.at(z)

    def log_terms(gamma: float) -> Array:
        return surrogate.log_mean(points, gamma) - np.log(len(z))

    gamma = tempering.next_gamma(log_terms, 0.0, settings.explore_cov)
    log_evidence, weights = moments.normalise(log_terms(gamma))
    index, node_weights = moments.place_nodes(surrogate, points, weights, gamma, settings.nodes, rng)
    log_prior = prior.log_density_working
    return Target(surrogate, gamma, log_evidence, points.take(index), z[index], node_weights, log_prior)


def profiles(
    z: Array,
    of_prior: Array,
    surrogate: Surrogate[Any],
    prior: Prior,
    regions: Sequence[Region],
    rng: np.random.Generator,
) -> Array:
    """Points with one parameter as the prior has it and the others as the surrogate likes them best with that.

    A ridge that narrows is missed by everything that follows the mass; these points run along it to its ends. They
    stay where the prior is and where runs are rather expected to succeed.
    """
    column = rng.integers(z.shape[1], size=_PROFILES)
    value = of_prior[rng.integers(len(of_prior), size=_PROFILES), column]
    trials = z[rng.integers(len(z), size=_PROFILES * _TRIALS)]
    trials[np.arange(len(trials)), np.repeat(column, _TRIALS)] = np.repeat(value, _TRIALS)
    possible = np.isfinite(prior.log_density_working(trials)) & _likely(trials, regions)
    mean, _ = surrogate.log_likelihood(surrogate.at(trials))
    height = np.where(possible, mean, -np.inf).reshape(_PROFILES, _TRIALS)
    found = trials[np.arange(_PROFILES) * _TRIALS + np.argmax(height, axis=1)][np.isfinite(height).any(axis=1)]
    return found if len(found) else z[:1]


def _likely(z: Array, regions: Sequence[Region]) -> BoolArray:
    """Where runs are rather expected to succeed than to fail or to find zero."""
    chances = [region.log_probability(z) for region in regions]
    return np.asarray(np.all(np.array(chances) > np.log(0.5), axis=0)) if chances else np.ones(len(z), dtype=bool)


def end(z: Array, surrogate: Surrogate[Any], settings: Settings) -> Array:
    """The point that fewest standard deviations keep from the highest; not a known one, unless all are."""
    mean, variance = surrogate.log_likelihood(surrogate.at(z))
    spread = np.sqrt(variance)
    missing = np.where(spread > settings.tolerance[1], (np.max(mean) - mean) / (spread + 1e-300), np.inf)
    return z[[int(np.argmin(missing))]]


def peak(z: Array, surrogate: Surrogate[Any], regions: Sequence[Region], settings: Settings) -> Array:
    """The point where the likelihood is expected to be highest; all points where it is known there."""
    z = z[likely] if (likely := _likely(z, regions)).any() else z
    best = [int(np.argmax(surrogate.log_mean(surrogate.at(z), 1.0)))]
    known = surrogate.log_spread(surrogate.at(z[best]), 1.0)[0] <= settings.tolerance[1]
    return z if known else z[best]


def promising(prior: Prior, regions: Sequence[Region], n: int, rng: np.random.Generator) -> Array:
    """Points of the prior where runs may succeed, drawn by the square of that chance: most are near a success."""
    theta = prior.sample(max(_POOL, n), rng)
    z = prior.to_working(theta)
    _, weights = moments.normalise(2.0 * np.sum([region.log_probability(z) for region in regions], axis=0))
    return theta[rng.choice(len(theta), n, replace=False, p=weights)]


def beyond(z: Array, n: int, prior: Prior, rng: np.random.Generator) -> Array:
    """Up to ``n`` points past members of a population, each in the direction away from another member."""
    a, b = z[rng.integers(0, len(z), n)], z[rng.integers(0, len(z), n)]
    past = a + _REACH * rng.random((n, 1)) * (a - b)
    return past[np.isfinite(prior.log_density_working(past))]


def unsettled(found: Assessment) -> tuple[Target, Array]:
    """What a last look at the evidence leaves to be asked: where its error is, or where another surrogate differs."""
    if found.of_hyperparameters > max(found.of_surrogate, found.of_quadrature):
        return found.target, found.suspect[None, :]
    heaviest = found.z[np.argsort(-found.weights)[:_HEAVIEST]]
    return found.target, np.vstack([heaviest, found.target.node_z])
