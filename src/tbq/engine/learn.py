"""What finished runs teach: the surrogate, the next stage, a check, the end.

Algorithm 2 (TBQ) reaches the posterior through tempered posteriors L^γ p with 0 < γ ≤ 1. In each stage a population
of points from the last one carries the ratio of evidences Z_j/Z_{j−1}; every update fits the surrogate, re-chooses γ,
measures the ratio's coefficient of variation and decides whether the stage is done. Algorithm 1 (BQ) is its special
case with one stage: the population is the prior's and γ is 1. Everything here is pure and deterministic.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tbq.acquisition import check_runs
from tbq.common.randomness import stream
from tbq.engine import training
from tbq.engine.conclusion import assess_evidence, certain
from tbq.engine.records import Stop
from tbq.engine.stages import advance, ascend, measure
from tbq.engine.state import State
from tbq.problem.evaluation import Evaluation, Proposal, Status, without_penalties
from tbq.surrogate import feasibility, inflation
from tbq.surrogate.protocol import Surrogate


def tell(state: State, evaluations: Sequence[Evaluation]) -> State:
    """Take in finished runs, learn from all runs so far, go on to the next stage, check or stop."""
    told = {e.id for e in evaluations}
    # sorted, so that nothing depends on the order in which runs return
    done = without_penalties(sorted((*state.evaluations, *evaluations), key=lambda e: e.id))
    pending = tuple(p for p in state.pending if p.id not in told)
    if state.learned is not None:
        surrogate, gamma = state.learned.surrogate, state.learned.gamma
        fresh = [e for e in done if e.id in told]
        new = inflation.squared_z(surrogate, gamma, state.prior, state.evaluations, fresh, state.settings.tuning)
        state = replace(state, squared_z=state.squared_z + new)
    state = replace(state, evaluations=done, pending=pending)
    if len(done) >= state.settings.n_initial:
        state = _find_borders(state)
        enough = sum(e.status is Status.OK for e in done) >= state.settings.tuning.fewest_runs
        state = _learn(state) if enough else state
    if len(done) >= state.settings.tuning.hopeless_runs and all(e.status.is_failure for e in done):
        return replace(state, stop=Stop.NOTHING_LEARNED)
    if state.stop is None and len(done) >= state.settings.max_evaluations:
        return replace(state, stop=Stop.BUDGET if state.learned else Stop.NOTHING_LEARNED)
    return state


def forget(state: State, ids: Collection[int]) -> State:
    """Failures that said nothing of theta are as if they had not been told: their points are out again."""
    gone = [e for e in state.evaluations if e.id in ids]
    back = [Proposal(e.id, e.theta, e.stage, e.origin, e.acquisition) for e in gone]
    kept = tuple(e for e in state.evaluations if e.id not in ids)
    pending = tuple(sorted((*state.pending, *back), key=lambda p: p.id))
    state = replace(state, evaluations=kept, pending=pending, stop=None)
    return _find_borders(state) if kept else replace(state, border=None, reach=None)


def _learn(state: State) -> State:
    """Fit, assess, and go as far as the runs so far allow: through stages, to a check, to the end."""
    if state.check is not None and not state.check.complete(state.evaluations):
        return state
    surrogate, memory = _fit(state)
    state = replace(state, memory=memory, assessment=None)
    if state.check is not None:
        return _conclude_check(state, state.check, surrogate)
    if state.settings.surrogate == "outputs":
        state = ascend(state, surrogate)
    else:
        state = measure(state, surrogate)
        while state.satisfied >= state.settings.tuning.in_a_row and state.learned and state.learned.gamma < 1.0:
            state = measure(advance(state), surrogate)
    if training.due_for_comparison(state.runs, memory):
        memory = replace(memory, compared_at=len(state.evaluations))
        state, rng = replace(state, memory=memory), stream(state.seed, "comparison", len(state.evaluations))
        if training.better_without_outputs(state.runs, memory, surrogate, state.population, rng):
            return _learn(_without_outputs(state))
    if state.satisfied >= state.settings.tuning.in_a_row:
        state = replace(state, assessment=assess_evidence(state, coarse=_coarse(state)))
    return _end(state, surrogate) if state.assessment and certain(state) else state


def _coarse(state: State) -> bool:
    """Whether check runs follow, after which the evidence is assessed again."""
    return state.settings.tuning.coarse_before_check and state.settings.check_runs > 0


def _end(state: State, surrogate: Surrogate[Any]) -> State:
    """Stop, or plan the check that decides it; outputs are checked only where something speaks against them."""
    runs = state.settings.check_runs
    if state.settings.surrogate == "outputs":
        memory = training.compare_with_values(state.runs, state.memory, surrogate, state.population)
        state, runs = replace(state, memory=memory), max(4, state.prior.dim) if memory.objection else 0
    return _plan_check(state, runs) if runs else replace(state, stop=Stop.CONVERGED)


def _without_outputs(state: State) -> State:
    """Go on as a run that never saw the outputs."""
    assert state.settings.otherwise is not None
    memory = replace(state.memory, objection=training.GAVE_UP)
    population = (*state.past, state.population)[0]
    state = replace(state, settings=state.settings.otherwise, memory=memory, population=population)
    return replace(state, past=(), stages=(), satisfied=0, learned=None, squared_z=())


def _plan_check(state: State, runs: int) -> State:
    settings, found = replace(state.settings, check_runs=runs), state.assessment
    assert found is not None
    if settings.max_evaluations - len(state.evaluations) - len(state.pending) < runs:
        return state  # what is left of the budget cannot decide it
    rng, points = stream(state.seed, "check", len(state.evaluations)), (state.population, found.posterior)
    check = check_runs.plan(*points, found.surrogate, state.prior, settings, state.next_id, rng)
    return replace(state, check=check)


def _conclude_check(state: State, check: check_runs.Check, surrogate: Surrogate[Any]) -> State:
    """The check is complete: stop if it and the tolerance agree, or go on."""
    error, passed = check.error(state.evaluations), check.passed(state.evaluations)
    state = replace(state, check=None, check_error=error, satisfied=0)
    state = ascend(state, surrogate) if state.settings.surrogate == "outputs" else measure(state, surrogate)
    if not passed or state.satisfied == 0 or state.learned is None or state.learned.gamma < 1.0:
        return replace(state, satisfied=0)
    state = replace(state, assessment=assess_evidence(state))
    return replace(state, satisfied=0, stop=Stop.CONVERGED if certain(state) else None)


def _fit(state: State) -> tuple[Surrogate[Any], training.Memory]:
    """The surrogate of all runs so far, those that failed or found zero likelihood too."""
    gamma = state.learned.gamma if state.learned else 1e-6
    factor = inflation.inflation(state.settings.tuning, state.squared_z)
    surrogate, memory = training.fit(state.runs, gamma, factor, state.memory)
    return state.informed(surrogate), memory


def _find_borders(state: State) -> State:
    """Learn where runs find zero likelihood and where they fail, as soon as some did."""
    z = state.prior.to_working(np.array([e.theta for e in state.evaluations]))
    failed = np.array([e.status.is_failure for e in state.evaluations])
    zero = np.array([e.status is Status.INFEASIBLE for e in state.evaluations])
    border = feasibility.learn(z[~failed], ~zero[~failed], state.border)
    return replace(state, border=border, reach=feasibility.learn(z, ~failed, state.reach))
