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
from tbq.engine import coarse, training
from tbq.engine.climb import ascend, at_top, climb
from tbq.engine.conclusion import assess_evidence, certain
from tbq.engine.records import Stop, Waypoint
from tbq.engine.stages import measure
from tbq.engine.state import State
from tbq.problem.evaluation import Evaluation, Status, without_penalties
from tbq.surrogate import feasibility, inflation, reduction
from tbq.surrogate.protocol import Surrogate


def collect(state: State, evaluations: Sequence[Evaluation]) -> State:
    """Take in finished runs, and learn nothing."""
    told = {e.id for e in evaluations}
    # sorted, so that nothing depends on the order in which runs return
    new = sorted((*state.evaluations, *(e for e in evaluations if e.level == "fine")), key=lambda e: e.id)
    below = sorted((*state.coarse, *(e for e in evaluations if e.level == "coarse")), key=lambda e: e.id)
    pending = tuple(p for p in state.pending if p.id not in told)
    return replace(state, evaluations=without_penalties(new), coarse=tuple(below), pending=pending)


def go_on(state: State, waypoint: Waypoint) -> State:
    """The state after an update at which outputs were learned anew, of one that has its runs and learned nothing."""
    memory = training.Memory(compared_at=waypoint.compared_at)
    state = replace(state, memory=memory, squared_z=waypoint.squared_z, check_error=waypoint.check_error, check=None)
    state = _climbed(replace(state, history=waypoint.history[:-1]), anew=True)
    return coarse.planned(replace(state, satisfied=waypoint.satisfied, plan=state.plan[:0]))


def tell(state: State, evaluations: Sequence[Evaluation]) -> State:
    """Take in finished runs, learn from all runs so far, go on to the next stage, check or stop."""
    before, told = state, {e.id for e in evaluations}
    state = collect(state, evaluations)
    done = state.evaluations
    if state.learned is not None:
        surrogate, gamma = state.learned.surrogate, state.learned.gamma
        fresh = [e for e in done if e.id in told]
        new = inflation.squared_z(
            surrogate, gamma, state.prior.simulated, before.evaluations, fresh, state.settings.tuning, state.noise
        )
        state = replace(state, squared_z=state.squared_z + new)
    if state.check is None or state.check.complete(done):
        state = state if coarse.waiting(state) else coarse.with_partners(state)
    if coarse.waiting(state):
        return state
    if len(done) >= state.settings.n_initial:
        state = _find_borders(_judged_again(state))
        enough = sum(e.status is Status.OK for e in done) >= state.settings.tuning.fewest_runs
        state = coarse.planned(_learn(state)) if enough else state
    if len(done) >= state.settings.tuning.hopeless_runs and all(e.status.is_failure for e in done):
        return replace(state, stop=Stop.NOTHING_LEARNED)
    if state.stop is None and len(done) >= state.settings.max_evaluations and not len(state.plan):
        return replace(state, stop=Stop.BUDGET if state.learned else Stop.NOTHING_LEARNED)
    return state


def _judged_again(state: State) -> State:
    """What coarse runs alone teach judges the last fine run again: it does not count as one more update."""
    if not state.history or state.history[-1].n_evaluations < len(state.evaluations) or state.check is not None:
        return state
    return replace(state, history=state.history[:-1], satisfied=max(state.satisfied - 1, 0))


def forget(state: State, ids: Collection[int]) -> State:
    """Failures that said nothing of theta are as if they had not been told: their points are out again."""
    back = [e.proposal for e in (*state.evaluations, *state.coarse) if e.id in ids]
    kept, below = (tuple(e for e in runs if e.id not in ids) for runs in (state.evaluations, state.coarse))
    pending = tuple(sorted((*state.pending, *back), key=lambda p: p.id))
    state = replace(state, evaluations=kept, coarse=below, pending=pending, stop=None)
    return _find_borders(state) if kept else replace(state, border=None, reach=None)


def _learn(state: State) -> State:
    """Fit, assess, and go as far as the runs so far allow: through stages, to a check, to the end."""
    if state.check is not None and not state.check.complete(state.evaluations):
        return state
    if state.check is not None:
        return _conclude_check(state, state.check)
    state = _learned_outputs(state) if state.settings.surrogate == "outputs" else _learned_values(state)
    assert state.learned is not None
    surrogate, memory = state.learned.surrogate, state.memory
    if training.due_for_comparison(state.runs, memory):
        memory = replace(memory, compared_at=len(state.evaluations))
        state, rng = replace(state, memory=memory), stream(state.seed, "comparison", len(state.evaluations))
        if training.better_without_outputs(state.runs, memory, surrogate, state.population, rng):
            return _learn(_without_outputs(state))
    if at_top(state) and state.satisfied >= state.settings.tuning.in_a_row:
        state = replace(state, assessment=assess_evidence(state, coarse=_coarse(state)))
    return _end(state, surrogate) if state.assessment and certain(state) else state


def _learned_values(state: State) -> State:
    """Fit, and go on through as many stages as the runs allow."""
    surrogate, memory = _fit(state)
    return climb(replace(state, memory=memory, assessment=None), surrogate)


def _learned_outputs(state: State) -> State:
    """From the last hyperparameters and populations on; every few runs, and before the end, as if there were none."""
    tuning = state.settings.tuning
    due_at = max(state.anew_at + tuning.anew_every, tuning.anew_growth * state.anew_at)
    due = state.learned is None or len(state.evaluations) >= due_at
    updated = None if due else _climbed(state, anew=False)
    return _climbed(state, anew=True) if updated is None or updated.satisfied >= tuning.in_a_row else updated


def _climbed(state: State, *, anew: bool) -> State:
    """Fit outputs and climb all stages; ``anew`` from nothing, so that whatever was lost on the way is found again."""
    count = len(state.evaluations)
    if anew:
        state = replace(state, memory=replace(state.memory, outputs=reduction.Memory()), anew_at=count)
        state = replace(state, anew_with=count + len(state.coarse))
        state = _find_borders(replace(state, border=None, reach=None))
    surrogate, memory = _fit(state)
    return ascend(replace(state, memory=memory, assessment=None), surrogate, anew=anew)


def _coarse(state: State) -> bool:
    """Whether check runs follow, after which the evidence is assessed again."""
    return state.settings.tuning.coarse_before_check and _check_runs(state) > 0


def _check_runs(state: State) -> int:
    """Fresh runs that decide about the end: more, and in the plane too, where the posterior is far.

    None there where a check was passed lately, and only an assessment stood against the end.
    """
    tuning = state.settings.tuning
    if not (state.far and tuning.check_runs):
        return state.settings.check_runs
    runs = tuning.far_check_runs * max(tuning.fewest_check_runs, state.prior.dim)
    lately = state.checked_at > 0 and len(state.evaluations) - state.checked_at < runs
    return 0 if lately else runs


def _end(state: State, surrogate: Surrogate[Any]) -> State:
    """Stop, or plan the check that decides it; outputs are checked only where something speaks against them."""
    runs = _check_runs(state)
    if state.settings.surrogate == "outputs":
        rng = stream(state.seed, "contradiction", len(state.evaluations))
        memory = training.compare_with_values(state.runs, state.memory, surrogate, state.population, rng)
        some = max(state.settings.tuning.fewest_check_runs, state.prior.simulated.dim)
        state, runs = replace(state, memory=memory), some if memory.objection else 0
    return _plan_check(state, runs) if runs else replace(state, stop=Stop.CONVERGED)


def _without_outputs(state: State) -> State:
    """Go on as a run that never saw the outputs, nor the noise parameters: its likelihoods are integrated over them."""
    assert state.settings.otherwise is not None
    memory, prior = replace(state.memory, objection=training.GAVE_UP), state.prior.simulated
    first = (*state.past, state.population)[0]
    population = replace(first, z=first.z[:, : prior.dim])
    state = replace(state, prior=prior, settings=state.settings.otherwise, memory=memory, population=population)
    return replace(state, past=(), stages=(), satisfied=0, learned=None, squared_z=(), plan=state.plan[:0])


def _plan_check(state: State, runs: int) -> State:
    """With a check of so many runs; of fewer, but no fewer than where nothing is far, at the end of the budget."""
    left, found = state.settings.max_evaluations - state.asked, state.assessment
    assert found is not None
    if left < (state.settings.check_runs or runs):
        return state  # what is left of the budget cannot decide it
    settings = replace(state.settings, check_runs=min(runs, left))
    rng, points = stream(state.seed, "check", len(state.evaluations)), (state.population, found.posterior)
    check = check_runs.plan(*points, found.surrogate, state.prior, settings, state.next_id, rng)
    if not state.far:  # measured strict, and the runs that a failed check costs see more of the prior
        check = replace(check, believed=None)
    return replace(state, check=replace(check, noise=state.noise))


def _conclude_check(state: State, check: check_runs.Check) -> State:
    """The check is complete: stop if it and the tolerance agree, or go on."""
    error, passed = check.error(state.evaluations), check.passed(state.evaluations)
    state = replace(state, check=None, check_error=error, satisfied=0)
    state = replace(state, checked_at=len(state.evaluations) if passed else 0)
    if state.settings.surrogate == "outputs":
        state = _climbed(state, anew=True)
    else:
        surrogate, memory = _fit(state)
        state = measure(replace(state, memory=memory, assessment=None), surrogate)
    if not passed or state.satisfied == 0 or state.learned is None or state.learned.gamma < 1.0:
        return replace(state, satisfied=0)
    state = replace(state, assessment=assess_evidence(state))
    return replace(state, satisfied=0, stop=Stop.CONVERGED if certain(state) else None)


def _fit(state: State) -> tuple[Surrogate[Any], training.Memory]:
    """The surrogate of all runs so far, those that failed or found zero likelihood too."""
    gamma = state.learned.gamma if state.learned else 1e-6
    frame = training.frame_of(state.population, state.prior)
    surrogate, memory = training.fit(state.runs, gamma, state.inflation, state.memory, frame)
    return state.informed(surrogate), memory


def _find_borders(state: State) -> State:
    """Learn where runs find zero likelihood and where they fail, as soon as some did."""
    z = state.prior.simulated.to_working(np.array([e.theta for e in state.evaluations]))
    failed = np.array([e.status.is_failure for e in state.evaluations])
    zero = np.array([e.status is Status.INFEASIBLE for e in state.evaluations])
    border = feasibility.learn(z[~failed], ~zero[~failed], state.border)
    return replace(state, border=border, reach=feasibility.learn(z, ~failed, state.reach))
