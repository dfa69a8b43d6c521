"""The tempering stages of a run: γ, the tempered evidence and its error, and the population of the next stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.settings import Settings
from tbq.surrogate.protocol import SPREAD_CLIP, Surrogate

_SETTLED = 0.5  # of the runs, since when an evidence that did not move has settled
_FAR_SETTLED = 0.25  # the same where the posterior is far: on the way to it are plateaus (real)


def measure(state: State, surrogate: Surrogate[Any], points: Any = None, *, on_the_way: bool = False) -> State:
    """Choose γ, measure the tempered evidence and its coefficient of variation, test for the end of the stage.

    ``points`` is the population as the surrogate sees it, where that is known. A stage with γ < 1 ``on_the_way`` of a
    climb is not searched: it has no candidates.
    """
    settings, population = state.settings, state.population
    count, stage = len(state.evaluations), len(state.past) + 1
    points = surrogate.at(population.z) if points is None else points
    log_terms = log_terms_of(surrogate, points, population)
    gamma = choose_gamma(state, log_terms)
    log_evidence, weights = moments.normalise(log_terms(gamma))
    rng = stream(state.seed, "nodes", 1000 * count + stage)
    placed = moments.place_nodes(surrogate, points, weights, gamma, settings.tuning.nodes, rng)
    index, node_weights, own = placed.which, placed.weights, placed.own if settings.thinned else None
    nodes = points.take(index)
    cap = SPREAD_CLIP if settings.thinned else np.inf
    cov = moments.evidence_cov(surrogate, nodes, node_weights, gamma, cap, own)
    bound = moments.evidence_cov_bound(surrogate, points, weights, gamma, SPREAD_CLIP)
    log_prior = state.prior.log_density_working
    weight = _search_weight(state)
    target = Target(surrogate, gamma, log_evidence, nodes, population.z[index], node_weights, log_prior, weight)
    met = _within(settings, cov, bound, settings.tolerance[1 if gamma == 1.0 else 0])
    moving = still_moving(state.history, state.evaluations, log_evidence, state.noise, far=state.far)
    error = float(np.hypot(np.sqrt(np.log1p(cov**2)), moving))
    record = Record(count, stage, gamma, log_evidence, cov, bound, surrogate.description, error)
    candidates = population.z[:0] if on_the_way and gamma < 1.0 else _screen(state, target, points)
    search = replace(target, log_prior=state.prior.simulated.log_density_working)  # of runs, which have no noise
    return replace(
        state,
        learned=Learned(stage, surrogate, search, candidates, weights, log_evidence, cov, bound),
        satisfied=state.satisfied + 1 if met else 0,
        history=(*state.history, record),
    )


def still_moving(
    history: Sequence[Record],
    evaluations: Sequence[Evaluation],
    log_evidence: float,
    noise: float = 0.0,
    *,
    far: bool = False,
) -> float:
    """By how many nats the evidence and the best run moved over the last half of the runs: so may they again.

    Over the last three quarters of them where the posterior is ``far``.

    The best of more runs is higher by about the standard deviation of their ``noise``, which says nothing.
    """
    count = len(evaluations)
    since = (_FAR_SETTLED if far else _SETTLED) * count
    lately = [r for r in history if r.n_evaluations >= since and (r.gamma == 1.0 or r.n_evaluations < count)]
    moved = max((abs(r.log_evidence - log_evidence) for r in lately), default=0.0)  # not on the way of this climb
    values = [e.log_likelihood if e.status is Status.OK else -np.inf for e in evaluations]
    before = max(values[: int(since)], default=-np.inf)
    gain = max(values, default=-np.inf) - before if np.isfinite(before) else 0.0
    return float(np.hypot(moved, max(gain - noise, 0.0)))


def _within(settings: Settings, cov: float, bound: float, tolerance: float) -> bool:
    """eq:StopCond: the cheap upper bound first, then the exact coefficient of variation; PEUR uses only that."""
    if settings.acquisition != "peur" and bound > settings.tuning.bound_factor * tolerance:
        return False
    return cov <= tolerance


def log_terms_of(surrogate: Surrogate[Any], points: Any, population: Population) -> Callable[[float], Array]:
    """log of the terms whose sum is the tempered evidence, as a function of γ."""
    return lambda gamma: surrogate.log_mean(points, gamma) + population.log_weights


def enlarged(state: State) -> State:
    """The last population at full size, where it is a small one: moved once more at the same γ."""
    small, settings = state.population, state.settings
    if len(small.z) >= settings.population or small.surrogate is None:
        return state
    rng = stream(state.seed, "enlarge", 1000 * len(state.evaluations) + len(state.past))
    population, _ = follow(
        small,
        small.surrogate,
        small.gamma,
        state.prior,
        size=settings.population,
        steps=settings.chain_length,
        prior_fraction=settings.tuning.prior_fraction,
        rng=rng,
    )
    return replace(state, population=population)


def advance(state: State, most: int | None = None) -> State:
    """End the stage: move its population to the tempered posterior just learned, and record what it found.

    The new one has at most so many points.
    """
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
        size=min(settings.population, most or settings.population),
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


def choose_gamma(state: State, log_terms: Callable[[float], Array]) -> float:
    limit, fraction = state.settings.temper_cov, state.population.prior_fraction
    if np.isinf(limit):
        return 1.0
    if fraction < 1.0:  # points of the prior that carry no weight are no sign of too large a step
        limit = np.sqrt((1.0 + limit**2) / (1.0 - fraction) - 1.0)
    elif state.border is not None:  # nor are points where the likelihood is zero
        limit = np.sqrt((1.0 + limit**2) * (1.0 + tempering.weight_cov(log_terms(0.0)) ** 2) - 1.0)
    return tempering.next_gamma(log_terms, state.population.gamma, limit)


def _search_weight(state: State) -> Callable[[Array], Array] | None:
    """log of what a run's acquisition value is weighted by: the chance that it neither fails nor finds no likelihood.

    What a border hides is expected by a process that no run beyond it has taught, and soon rules without that.
    """
    regions = state.regions
    return (lambda z: np.sum([region.log_probability(z) for region in regions], axis=0)) if regions else None


def _screen(state: State, target: Target, points: Any) -> Array:
    """Points of the population worth ranking: the most uncertain ones, and a third at random."""
    z = state.population.z
    n = min(state.settings.tuning.candidates, len(z))
    rng = stream(state.seed, "candidates", len(state.evaluations))
    uncertain = np.argsort(-puq_at(target, points, z))[: 2 * n // 3]
    anywhere = rng.choice(len(z), n - len(uncertain), replace=False)
    return z[np.unique(np.concatenate([uncertain, anywhere]))]
