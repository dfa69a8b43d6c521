"""The tempering stages of a run: γ, the tempered evidence and its error, and the population of the next stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tbq.acquisition.functions import puq_at
from tbq.common.randomness import stream
from tbq.common.types import Array
from tbq.engine.records import Record, Stage
from tbq.engine.state import Learned, State
from tbq.evidence import moments, tempering
from tbq.evidence.moves import Moved
from tbq.evidence.population import Population, follow
from tbq.evidence.target import Target
from tbq.problem.settings import Settings
from tbq.surrogate.protocol import SPREAD_CLIP, Surrogate


def measure(state: State, surrogate: Surrogate[Any]) -> State:
    """Choose γ, measure the tempered evidence and its coefficient of variation, test for the end of the stage."""
    settings, population = state.settings, state.population
    count, stage = len(state.evaluations), len(state.past) + 1
    points = surrogate.at(population.z)

    def log_terms(gamma: float) -> Array:
        return surrogate.log_mean(points, gamma) + population.log_weights

    gamma = _choose_gamma(state, log_terms)
    log_evidence, weights = moments.normalise(log_terms(gamma))
    rng = stream(state.seed, "nodes", 1000 * count + stage)
    index, node_weights = moments.place_nodes(surrogate, points, weights, gamma, settings.tuning.nodes, rng)
    nodes = points.take(index)
    cov = moments.evidence_cov(surrogate, nodes, node_weights, gamma)
    bound = moments.evidence_cov_bound(surrogate, points, weights, gamma, SPREAD_CLIP)
    log_prior = state.prior.log_density_working
    weight = _search_weight(state)
    target = Target(surrogate, gamma, log_evidence, nodes, population.z[index], node_weights, log_prior, weight)
    met = _within(settings, cov, bound, settings.tolerance[1 if gamma == 1.0 else 0])
    record = Record(count, stage, gamma, log_evidence, cov, bound, surrogate.description)
    return replace(
        state,
        learned=Learned(stage, surrogate, target, _screen(state, target, points), weights, log_evidence, cov, bound),
        satisfied=state.satisfied + 1 if met else 0,
        history=(*state.history, record),
    )


def _within(settings: Settings, cov: float, bound: float, tolerance: float) -> bool:
    """eq:StopCond: the cheap upper bound first, then the exact coefficient of variation; PEUR uses only that."""
    if settings.acquisition != "peur" and bound > settings.tuning.bound_factor * tolerance:
        return False
    return cov <= tolerance


def ascend(state: State, surrogate: Surrogate[Any]) -> State:
    """All stages at once and anew from the prior's population: a mode that the last surrogate hid is found again."""
    satisfied, history = state.satisfied, state.history
    prior = (*state.past, state.population)[0]
    state = measure(replace(state, population=prior, past=(), stages=()), surrogate)
    while state.learned and state.learned.gamma < 1.0 and len(state.past) < state.settings.tuning.most_stages:
        state = measure(advance(state), surrogate)
    satisfied = satisfied + 1 if state.satisfied and state.learned and state.learned.gamma == 1.0 else 0
    return replace(state, satisfied=satisfied, history=(*history, state.history[-1]))


def advance(state: State) -> State:
    """End the stage: move its population to the tempered posterior just learned, and record what it found."""
    settings, learned = state.settings, state.learned
    assert learned is not None
    number = len(state.past) + 1  # of the stage; with outputs each is climbed again after every run
    if settings.surrogate == "outputs":
        number += 1000 * len(state.evaluations)
    population, moved = follow(
        state.population,
        learned.surrogate,
        learned.gamma,
        state.prior,
        size=settings.population,
        steps=settings.chain_length,
        prior_fraction=settings.tuning.prior_fraction,
        rng=stream(state.seed, "move", number),
    )
    return replace(
        state,
        population=population,
        past=(*state.past, state.population),
        stages=(*state.stages, stage_record(state, population, moved)),
        satisfied=0,
    )


def stage_record(state: State, population: Population, moved: Moved) -> Stage:
    """What the stage found, and how well its population was moved."""
    learned = state.learned
    assert learned is not None
    previous = state.stages[-1].log_evidence if state.stages else 0.0
    return Stage(
        gamma=learned.gamma,
        # runs that were forgotten since may have been counted to the stages before
        evaluations=max(len(state.evaluations) - sum(s.evaluations for s in state.stages), 0),
        log_evidence=learned.log_evidence,
        log_ratio=learned.log_evidence - previous,
        log_bridge=population.log_constant - state.population.log_constant,
        log_ratio_sd=float(np.sqrt(np.log1p(learned.cov**2))),
        effective_sample_size=moments.effective_sample_size(learned.weights),
        acceptance=moved.acceptance,
        unique=moved.unique,
    )


def _choose_gamma(state: State, log_terms: Callable[[float], Array]) -> float:
    limit, fraction = state.settings.temper_cov, state.population.prior_fraction
    if np.isinf(limit):
        return 1.0
    if fraction < 1.0:  # points of the prior that carry no weight are no sign of too large a step
        limit = np.sqrt((1.0 + limit**2) / (1.0 - fraction) - 1.0)
    elif state.border is not None:  # nor are points where the likelihood is zero
        limit = np.sqrt((1.0 + limit**2) * (1.0 + tempering.weight_cov(log_terms(0.0)) ** 2) - 1.0)
    return tempering.next_gamma(log_terms, state.population.gamma, limit)


def _search_weight(state: State) -> Callable[[Array], Array] | None:
    """log of what a run's acquisition value is weighted by: the chance that it does not fail."""
    return None if state.reach is None else state.reach.log_probability


def _screen(state: State, target: Target, points: Any) -> Array:
    """Points of the population worth ranking: the most uncertain ones, and a third at random."""
    z = state.population.z
    n = min(state.settings.tuning.candidates, len(z))
    rng = stream(state.seed, "candidates", len(state.evaluations))
    uncertain = np.argsort(-puq_at(target, points, z))[: 2 * n // 3]
    anywhere = rng.choice(len(z), n - len(uncertain), replace=False)
    return z[np.unique(np.concatenate([uncertain, anywhere]))]
