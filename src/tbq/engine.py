"""Bayesian Quadrature and its transitional form as one engine: ``init``, ``ask``, ``tell``.

Algorithm 2 (TBQ) reaches the posterior through tempered posteriors L^γ p with 0 < γ ≤ 1. In each stage a population
of points from the last one carries the ratio of evidences Z_j/Z_{j−1}; every update fits the surrogate, re-chooses γ,
measures the ratio's coefficient of variation and decides whether the stage is done. Algorithm 1 (BQ) is its special
case with one stage: the population is the prior's and γ is 1. Everything here is pure and deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tbq import aims, evidence, feasibility, learning, search, surprise, tempering, validation
from tbq.acquisition import Target, puq_at
from tbq.assessment import Assessment, assess
from tbq.evaluation import Evaluation, Proposal, Status, without_penalties
from tbq.likelihood import GaussianLikelihood
from tbq.particles import Moved
from tbq.population import Population, follow
from tbq.prior import Prior
from tbq.randomness import stream
from tbq.result import Record, Stage, Stop
from tbq.settings import Settings
from tbq.surrogate import WILD, Surrogate
from tbq.types import Array

_IN_A_ROW = 2  # times the stopping condition must hold
_ALLOWANCE = 1.0  # tolerances that each part of the error may have at the end
_POOR_QUADRATURE = 0.1  # error of a fresh quadrature from which on it has found something that its points miss
_MOST_STAGES = 60  # climbed at once
_LEAST_RUNS = 3  # successful runs without which there is no surrogate
_HOPE = 50  # runs after which one should not have failed


@dataclass(frozen=True)
class Learned:
    """What the finished runs say of the current stage."""

    stage: int
    surrogate: Surrogate[Any]
    target: Target
    candidates: Array  # points worth ranking
    weights: Array  # of the population, at γ
    log_evidence: float  # of the tempered posterior
    cov: float
    bound: float

    @property
    def gamma(self) -> float:
        return self.target.gamma


@dataclass(frozen=True)
class State:
    """All that a run is, between two calls."""

    prior: Prior
    settings: Settings
    seed: int
    population: Population
    likelihood: GaussianLikelihood | None = None  # whose outputs are learned; None to learn log-likelihoods
    past: tuple[Population, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    pending: tuple[Proposal, ...] = ()
    next_id: int = 0
    memory: learning.Memory = field(default_factory=learning.Memory)
    border: feasibility.Region | None = None  # of zero likelihood, once a run found it
    reach: feasibility.Region | None = None  # where runs do not fail, once one did
    learned: Learned | None = None
    satisfied: int = 0
    assessment: Assessment | None = None  # of the last surrogate, where the stage was satisfied with it
    check: validation.Check | None = None  # under way: the runs that decide whether to believe the surrogate
    check_error: float = 0.0  # of the log-evidence, as the last check found it
    surprises: tuple[float, ...] = ()  # squared z-scores of relevant runs, predicted before they were made
    stages: tuple[Stage, ...] = ()
    history: tuple[Record, ...] = ()
    stop: Stop | None = None


def init(prior: Prior, settings: Settings, seed: int, likelihood: GaussianLikelihood | None = None) -> State:
    """A run that has seen nothing yet."""
    theta = prior.sample(settings.population, stream(seed, "population"), settings.design)
    population = Population(prior.to_working(theta), np.zeros(settings.population))
    return State(prior, settings, seed, population, likelihood)


def ask(state: State, n: int = 1) -> tuple[State, list[Proposal]]:
    """Up to ``n`` points to run next (fewer at the end of the budget), remembered as pending."""
    n = min(n, state.settings.max_evaluations - len(state.evaluations) - len(state.pending))
    if state.stop is not None or n <= 0:
        return state, []
    from_design = min(n, max(state.settings.n_initial - state.next_id, 0))
    if from_design or state.learned is None:
        proposals = _design_points(state, from_design or n)
    elif state.check is not None:
        proposals = state.check.proposals(state.next_id, n, len(state.past) + 1)
    else:
        proposals = _chosen_points(state, state.learned, n)
    return remember(state, proposals), proposals


def remember(state: State, proposals: Sequence[Proposal]) -> State:
    """All that proposing changes: the points are out."""
    return replace(state, pending=(*state.pending, *proposals), next_id=state.next_id + len(proposals))


def tell(state: State, evaluations: Sequence[Evaluation]) -> State:
    """Take in finished runs, learn from all runs so far, go on to the next stage, check or stop."""
    told = {e.id for e in evaluations}
    # sorted, so that nothing depends on the order in which runs return
    done = without_penalties(sorted((*state.evaluations, *evaluations), key=lambda e: e.id))
    pending = tuple(p for p in state.pending if p.id not in told)
    if state.learned is not None:
        surrogate, gamma = state.learned.surrogate, state.learned.gamma
        fresh = [e for e in done if e.id in told]
        new = surprise.surprises(surrogate, gamma, state.prior, state.evaluations, fresh)
        state = replace(state, surprises=state.surprises + new)
    state = replace(state, evaluations=done, pending=pending)
    if len(done) >= state.settings.n_initial:
        state = _find_borders(state)
        state = _learn(state) if sum(e.status is Status.OK for e in done) >= _LEAST_RUNS else state
    if len(done) >= _HOPE and all(e.status.is_failure for e in done):
        return replace(state, stop=Stop.NOTHING_LEARNED)
    if state.stop is None and len(done) >= state.settings.max_evaluations:
        return replace(state, stop=Stop.BUDGET if state.learned else Stop.NOTHING_LEARNED)
    return state


# --- proposing ----------------------------------------------------------------------------------------------


def _design_points(state: State, n: int) -> list[Proposal]:
    """The next points of the initial design; more follow where it gave too few successes, near those there were."""
    size = state.settings.n_initial
    round_, position = divmod(state.next_id, size)
    n = min(n, size - position)
    theta = state.prior.sample(size, stream(state.seed, "design", round_), "lhs")[position : position + n]
    if regions := _regions(state):
        theta = aims.promising(state.prior, regions, n, stream(state.seed, "few", state.next_id))
    return [Proposal(state.next_id + i, row, 0, "initial", np.nan) for i, row in enumerate(theta)]


def _regions(state: State) -> list[feasibility.Region]:
    """Outside of which runs find zero likelihood or fail."""
    return [region for region in (state.border, state.reach) if region is not None]


def _chosen_points(state: State, learned: Learned, n: int) -> list[Proposal]:
    """Points chosen one after the other, each believing that those before it, and those still out, are known."""
    prior, settings = state.prior, state.settings
    believed = list(prior.to_working(np.array([p.theta for p in state.pending]).reshape(-1, prior.dim)))
    known = prior.to_working(np.array([e.theta for e in state.evaluations]))
    target, domain = learned.target, search.domain_of(prior)
    for z in believed:
        target = target.believing(z)
    proposals = []
    for i, named in enumerate(settings.named_acquisitions(n)):
        aim, candidates, climb, number = target, learned.candidates, settings.climb, state.next_id + i
        if state.assessment is not None and i == 0:  # the stage is satisfied, but not all is well
            aim, candidates = aims.unsettled(state.assessment)
        elif settings.explore_every and number % settings.explore_every == 0:
            turn, rng = number // settings.explore_every, stream(state.seed, "exploration", number)
            populations = (state.past[0] if state.past else state.population, state.population)
            regions = _regions(state)
            aim, candidates = aims.exploration(turn, *populations, target.surrogate, prior, regions, settings, rng)
            climb = climb and len(candidates) > 1  # a single one is meant
        all_known = np.vstack([known, *(z[None, :] for z in believed)])
        aim = replace(aim, log_weight=learned.target.log_weight)
        choice = search.choose(named, aim, candidates, all_known, domain, climb=climb)
        believed.append(choice.z)
        if i + 1 < n:
            target = target.believing(choice.z)
        theta = prior.from_working(choice.z[None, :])[0]
        proposals.append(Proposal(number, theta, len(state.past) + 1, choice.acquisition, choice.value))
    return proposals


# --- learning -----------------------------------------------------------------------------------------------


def _learn(state: State) -> State:
    """Fit, assess, and go as far as the runs so far allow: through stages, to a check, to the end."""
    if state.check is not None and not state.check.complete(state.evaluations):
        return state
    surrogate, memory = _fit(state)
    state = replace(state, memory=memory, assessment=None)
    if state.check is not None:
        return _conclude_check(state, state.check, surrogate)
    if state.settings.free_stages:
        state = _ascend(state, surrogate)
    else:
        state = _assess(state, surrogate)
        while state.satisfied >= _IN_A_ROW and state.learned and state.learned.gamma < 1.0:
            state = _assess(advance(state), surrogate)
    if learning.better_without_outputs(_runs(state), memory, surrogate, state.population):
        return _learn(_without_outputs(state))
    if state.satisfied >= _IN_A_ROW:
        state = replace(state, assessment=look_again(state, glance=state.settings.check_runs > 0))
    return _end(state, surrogate) if state.assessment and _certain(state) else state


def _end(state: State, surrogate: Surrogate[Any]) -> State:
    """Stop, or plan the check that decides it; outputs are checked only where something speaks against them."""
    runs = state.settings.check_runs
    if state.likelihood is not None:
        memory = learning.cross_examine(_runs(state), state.memory, surrogate, state.population)
        state, runs = replace(state, memory=memory), max(4, state.prior.dim) if memory.doubt else 0
    return _plan_check(state, runs) if runs else replace(state, stop=Stop.CONVERGED)


def _without_outputs(state: State) -> State:
    """Go on as a run that never saw the outputs."""
    assert state.settings.fallback is not None
    memory = replace(state.memory, doubt=learning.GAVE_UP)
    population = (*state.past, state.population)[0]
    state = replace(state, settings=state.settings.fallback, likelihood=None, memory=memory, population=population)
    return replace(state, past=(), stages=(), satisfied=0, learned=None, surprises=())


def _runs(state: State) -> learning.Runs:
    return learning.Runs(state.evaluations, state.prior, state.settings, state.likelihood)


def look_again(state: State, *, glance: bool = False) -> Assessment:
    """The evidence by the last surrogate, by fresh quadrature and beside its rivals; a glance before a check."""
    assert state.learned is not None
    deflation = surprise.deflation(state.settings.inflation, state.surprises)
    surrogate = learning.deflated(state.learned.surrogate, deflation)
    rivals = learning.rivals(_runs(state), state.learned.gamma, deflation, state.memory)
    populations = (*state.past, state.population)
    return assess(populations, surrogate, rivals, state.prior, state.settings, state.seed, glance=glance)


def _certain(state: State) -> bool:
    """Whether that look found nothing that the stage did not know. With the paper's estimators it is not asked."""
    if state.settings.inflation == 1.0:
        return True
    found, limit = state.assessment, _ALLOWANCE * state.settings.tolerance[1]
    assert found is not None
    return max(found.of_surrogate, found.of_hyperparameters) <= limit and found.of_quadrature <= _POOR_QUADRATURE


def _plan_check(state: State, runs: int) -> State:
    settings, found = replace(state.settings, check_runs=runs), state.assessment
    assert found is not None
    if settings.max_evaluations - len(state.evaluations) - len(state.pending) < runs:
        return state  # what is left of the budget cannot decide it
    rng, points = stream(state.seed, "check", len(state.evaluations)), (state.population, found.posterior)
    check = validation.plan(*points, found.surrogate, state.prior, _regions(state), settings, state.next_id, rng)
    return replace(state, check=check)


def _conclude_check(state: State, check: validation.Check, surrogate: Surrogate[Any]) -> State:
    """The check is complete: stop if it and the tolerance agree, or go on."""
    error, believed = check.error(state.evaluations), check.passed(state.evaluations)
    state = replace(state, check=None, check_error=error, satisfied=0)
    state = _ascend(state, surrogate) if state.settings.free_stages else _assess(state, surrogate)
    if not believed or state.satisfied == 0 or state.learned is None or state.learned.gamma < 1.0:
        return replace(state, satisfied=0)
    state = replace(state, assessment=look_again(state))
    return replace(state, satisfied=0, stop=Stop.CONVERGED if _certain(state) else None)


def _fit(state: State) -> tuple[Surrogate[Any], learning.Memory]:
    gamma = state.learned.gamma if state.learned else 1e-6
    inflation = surprise.inflation(state.settings.inflation, state.surprises)
    surrogate, memory = learning.fit(_runs(state), gamma, inflation, state.memory)
    for e in state.evaluations:  # nothing more is to be had where a run failed: believe the surrogate there
        if e.status.is_failure:
            surrogate = surrogate.believe(state.prior.to_working(e.theta[None, :])[0])
    return surrogate if state.border is None else feasibility.Bounded(surrogate, state.border), memory


def _find_borders(state: State) -> State:
    """Learn where runs find zero likelihood and where they fail, as soon as some did."""
    z = state.prior.to_working(np.array([e.theta for e in state.evaluations]))
    failed = np.array([e.status.is_failure for e in state.evaluations])
    zero = np.array([e.status is Status.INFEASIBLE for e in state.evaluations])
    border = feasibility.learn(z[~failed], ~zero[~failed], state.border)
    return replace(state, border=border, reach=feasibility.learn(z, ~failed, state.reach))


def _assess(state: State, surrogate: Surrogate[Any]) -> State:
    """Choose γ, measure the tempered evidence and its coefficient of variation, test for the end of the stage."""
    settings, population = state.settings, state.population
    count, stage = len(state.evaluations), len(state.past) + 1
    points = surrogate.at(population.z)

    def log_terms(gamma: float) -> Array:
        return surrogate.log_mean(points, gamma) + population.log_weights

    gamma = _choose_gamma(state, log_terms)
    log_evidence, weights = evidence.normalise(log_terms(gamma))
    rng = stream(state.seed, "nodes", 1000 * count + stage)
    index, node_weights = evidence.place_nodes(surrogate, points, weights, gamma, settings.nodes, rng)
    nodes = points.take(index)
    cov = evidence.evidence_cov(surrogate, nodes, node_weights, gamma)
    bound = evidence.evidence_cov_bound(surrogate, points, weights, gamma, WILD)
    log_prior = state.prior.log_density_working
    weight = _search_weight(state)
    target = Target(surrogate, gamma, log_evidence, nodes, population.z[index], node_weights, log_prior, weight)
    met = settings.satisfied(cov, bound, settings.tolerance[1 if gamma == 1.0 else 0])
    record = Record(count, stage, gamma, log_evidence, cov, bound, surrogate.description)
    return replace(
        state,
        learned=Learned(stage, surrogate, target, _screen(state, target, points), weights, log_evidence, cov, bound),
        satisfied=state.satisfied + 1 if met else 0,
        history=(*state.history, record),
    )


def _ascend(state: State, surrogate: Surrogate[Any]) -> State:
    """All stages at once and anew from the prior's population: a mode that the last surrogate hid is found again."""
    satisfied, history = state.satisfied, state.history
    prior = (*state.past, state.population)[0]
    state = _assess(replace(state, population=prior, past=(), stages=()), surrogate)
    while state.learned and state.learned.gamma < 1.0 and len(state.past) < _MOST_STAGES:
        state = _assess(advance(state), surrogate)
    satisfied = satisfied + 1 if state.satisfied and state.learned and state.learned.gamma == 1.0 else 0
    return replace(state, satisfied=satisfied, history=(*history, state.history[-1]))


def _search_weight(state: State) -> Callable[[Array], Array] | None:
    """What a run's worth is weighted by: the chance that it does not fail and, for the paper, the last density."""
    population, log_prior = state.population, state.prior.log_density_working
    if state.settings.weighted_search:
        return lambda z: population.log_density_at(z) + log_prior(z)
    return None if state.reach is None else state.reach.log_probability


def _choose_gamma(state: State, log_terms: Callable[[float], Array]) -> float:
    limit, share = state.settings.temper_cov, state.population.share
    if np.isinf(limit):
        return 1.0
    last = state.learned
    if last and last.stage == len(state.past) + 1 and last.cov < state.settings.freeze_cov:
        return last.gamma
    if share < 1.0:  # points of the prior that carry no weight are no sign of too large a step
        limit = np.sqrt((1.0 + limit**2) / (1.0 - share) - 1.0)
    elif state.border is not None:  # nor are points where the likelihood is zero
        limit = np.sqrt((1.0 + limit**2) * (1.0 + tempering.weight_cov(log_terms(0.0)) ** 2) - 1.0)
    return tempering.next_gamma(log_terms, state.population.gamma, limit)


def _screen(state: State, target: Target, points: Any) -> Array:
    """Points of the population worth ranking: the most uncertain ones, and a third at random."""
    z = state.population.z
    n = min(state.settings.candidates, len(z))
    rng = stream(state.seed, "candidates", len(state.evaluations))
    uncertain = np.argsort(-puq_at(target, points, z))[: 2 * n // 3]
    anywhere = rng.choice(len(z), n - len(uncertain), replace=False)
    return z[np.unique(np.concatenate([uncertain, anywhere]))]


def advance(state: State) -> State:
    """End the stage: move its population to the tempered posterior just learned, and record what it found."""
    settings, learned = state.settings, state.learned
    assert learned is not None
    population, moved = follow(
        state.population,
        learned.surrogate,
        learned.gamma,
        state.prior,
        size=settings.population,
        steps=settings.chain_length,
        optimism=settings.optimism,
        share=settings.prior_share,
        rng=stream(state.seed, "move", len(state.past) + 1 + settings.free_stages * 1000 * len(state.evaluations)),
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
        evaluations=len(state.evaluations) - sum(s.evaluations for s in state.stages),
        log_evidence=learned.log_evidence,
        log_ratio=learned.log_evidence - previous,
        log_bridge=population.log_constant - state.population.log_constant,
        log_ratio_sd=float(np.sqrt(np.log1p(learned.cov**2))),
        effective_sample_size=evidence.effective_sample_size(learned.weights),
        acceptance=moved.acceptance,
        unique=moved.unique,
    )
