"""What a run is for, other than its stage: exploring the whole prior, or settling a question before the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tbq.acquisition import search
from tbq.common.types import Array
from tbq.evidence import moments, tempering
from tbq.evidence.estimate import Assessment
from tbq.evidence.population import Population
from tbq.evidence.target import Target
from tbq.problem.prior import Prior
from tbq.problem.settings import Settings
from tbq.problem.tuning import Tuning
from tbq.surrogate.feasibility import Region
from tbq.surrogate.protocol import Surrogate

_POOL = 2048  # points of the prior to choose from
_CLIMBS = 2  # for the highest point


def exploration(
    turn: int,
    whole: Population,
    current: Population,
    surrogate: Surrogate[Any],
    prior: Prior,
    settings: Settings,
    rng: np.random.Generator,
    *,
    everywhere: bool = True,
) -> tuple[Target, Array]:
    """A flat target where the stages do not look, and the points to choose from.

    In the plane that is the whole prior. With more parameters a prior is too large for that alone: every second turn
    the points lie past the current population. Where log-likelihoods differ by hundreds of nats, a target that is flat
    over the prior knows no difference between those that matter: then all turns go there, as they do where it is known
    that the posterior is not ``everywhere``.
    """
    if everywhere and (prior.dim <= 2 or turn % 2 == 0):
        z = whole.z[: settings.tuning.candidates]
        target = _flat(z, surrogate, prior, settings, rng)
        if target.gamma > settings.tuning.explore_gamma:
            return target, z
    z = beyond(current.z, settings.tuning, prior, rng)
    return _flat(z, surrogate, prior, settings, rng), z


def _flat(
    z: Array,
    surrogate: Surrogate[Any],
    prior: Prior,
    settings: Settings,
    rng: np.random.Generator,
) -> Target:
    """The evidence over these points, tempered until no few of them carry it."""
    points = surrogate.at(z)

    def log_terms(gamma: float) -> Array:
        return surrogate.log_mean(points, gamma) - np.log(len(z))

    gamma = tempering.next_gamma(log_terms, 0.0, settings.tuning.explore_cov)
    log_evidence, weights = moments.normalise(log_terms(gamma))
    index, node_weights, _ = moments.place_nodes(surrogate, points, weights, gamma, settings.tuning.nodes, rng)
    log_prior = prior.simulated.log_density_working
    return Target(surrogate, gamma, log_evidence, points.take(index), z[index], node_weights, log_prior)


def promising(prior: Prior, regions: Sequence[Region], n: int, rng: np.random.Generator) -> Array:
    """Points of the prior where runs may succeed, drawn by the square of that chance: most are near a success."""
    theta = prior.sample(max(_POOL, n), rng)
    z = prior.to_working(theta)
    _, weights = moments.normalise(2.0 * np.sum([region.log_probability(z) for region in regions], axis=0))
    return theta[rng.choice(len(theta), n, replace=False, p=weights)]


def beyond(z: Array, tuning: Tuning, prior: Prior, rng: np.random.Generator) -> Array:
    """Candidates past members of a population, each in the direction away from another member."""
    n = tuning.candidates
    a, b = z[rng.integers(0, len(z), n)], z[rng.integers(0, len(z), n)]
    past = a + tuning.explore_reach * rng.random((n, 1)) * (a - b)
    return past[np.isfinite(prior.log_density_working(past))]


def most_probable(surrogate: Surrogate[Any], population: Array, known: Array, prior: Prior) -> Array:
    """The point, as a single candidate (1, d), where E[log L] + log prior is highest: a step of Gauss and Newton.

    While nothing is known where the posterior is, what a run there reveals of it cannot be weighed.
    """

    def value_at(z: Array) -> Array:
        return surrogate.log_likelihood(surrogate.at(z))[0] + prior.log_density_working(z)

    return _highest(value_at, population, known, prior)


def most_promising(surrogate: Surrogate[Any], population: Array, known: Array, prior: Prior, gain: float) -> Array:
    """The point, as a single candidate (1, d), where the posterior is highest if likelihoods are higher than expected.

    By one standard deviation. What runs reveal of the evidence is found where much of it is believed to be: such runs
    get to a far posterior in small steps only. None, (0, d), where no more than ``gain`` nats are to be gained.
    """

    def value_at(z: Array) -> Array:
        return surrogate.log_upper(surrogate.at(z), 1.0) + prior.log_density_working(z)

    found = _highest(value_at, population, known, prior)
    return found[value_at(found) > np.max(value_at(known)) + gain]


def _highest(value_at: Callable[[Array], Array], population: Array, known: Array, prior: Prior) -> Array:
    """The end, (1, d), of climbs from the highest points of a population and of the runs."""
    low, high = prior.working_bounds
    domain = search.domain_of(prior)
    pool = np.clip(np.vstack([population, known]), low, high)
    best = pool[np.argsort(-value_at(pool))[:_CLIMBS]]
    ends = np.array([search.climb_from(value_at, start, domain, steps=40) for start in best])
    return ends[[int(np.argmax(value_at(ends)))]]


def unsettled(found: Assessment, tuning: Tuning) -> tuple[Target, Array]:
    """What an assessment of the evidence leaves open: where its error is, or where another surrogate differs."""
    if found.of_hyperparameters > max(found.of_surrogate, found.of_quadrature):
        return found.target, found.suspect[None, :]
    heaviest = found.z[np.argsort(-found.weights)[: tuning.suspects]]
    return found.target, np.vstack([heaviest, found.target.node_z])
