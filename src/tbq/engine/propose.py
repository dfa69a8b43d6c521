"""The next points to run: of the initial design, of a check, or where the acquisition function is largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tbq.acquisition import exploration, search, trust_region
from tbq.acquisition.functions import named
from tbq.common.randomness import stream
from tbq.common.types import Array
from tbq.engine import coarse
from tbq.engine.state import Learned, State
from tbq.problem.evaluation import Proposal, Status
from tbq.surrogate.protocol import Surrogate


def ask(state: State, n: int = 1) -> tuple[State, list[Proposal]]:
    """Up to ``n`` points to run next (fewer at the end of the budget), remembered as pending."""
    if state.stop is None and (few := coarse.proposals(state, n)):
        return remember(state, few), few
    n = min(n, state.settings.max_evaluations - state.asked)
    if state.stop is not None or n <= 0 or (state.learned is not None and state.coarse_out):
        return state, []
    from_design = min(n, max(state.settings.n_initial - state.asked, 0))
    if from_design or state.learned is None:
        proposals = _design_points(state, from_design or n)
    elif state.check is not None:
        proposals = state.check.proposals(state.next_id, n, len(state.past) + 1)
    else:
        proposals = chosen_points(state, state.learned, n)
    return remember(state, proposals), proposals


def remember(state: State, proposals: Sequence[Proposal]) -> State:
    """All that proposing changes: the points are out."""
    left = state.plan[sum(p.level == "coarse" for p in proposals) :]
    return replace(state, pending=(*state.pending, *proposals), next_id=state.next_id + len(proposals), plan=left)


def due(state: State) -> int:
    """Points that are known beforehand: of the initial designs, and coarse runs that were decided on."""
    return max(state.settings.n_initial - state.asked, 0) + coarse.design_left(state) + len(state.plan)


def _design_points(state: State, n: int) -> list[Proposal]:
    """The next points of the initial design; more follow where it gave too few successes, near those there were."""
    size = state.settings.n_initial
    round_, position = divmod(state.asked, size)
    n = min(n, size - position)
    prior = state.prior.simulated
    theta = prior.sample(size, stream(state.seed, "design", round_), "lhs")[position : position + n]
    if regions := state.regions:
        theta = exploration.promising(prior, regions, n, stream(state.seed, "few", state.next_id))
    return [Proposal(state.next_id + i, row, 0, "initial", np.nan) for i, row in enumerate(theta)]


def _is_lost(state: State, learned: Learned) -> bool:
    """Whether a run should find out where the posterior is: every second one, where there are many parameters."""
    settings, tuning = state.settings, state.settings.tuning
    many = settings.surrogate == "outputs" and state.prior.simulated.dim >= tuning.lost_from
    return many and learned.cov > tuning.lost and state.next_id % 2 == 0


def _is_out(state: State, z: Array) -> bool:
    """Whether a run at z has not returned: the same run twice tells nothing."""
    theta = state.prior.from_working(z[None, :])[0][: state.prior.simulated.dim]
    return any(np.array_equal(p.theta, theta) for p in state.out)


def _upward(state: State, surrogate: Surrogate[Any], known: Array) -> Array:
    """Where most may be gained while the posterior is far, as a single candidate (1, d), or none, (0, d).

    Of every three runs one is where all runs let expect most, and one a step up from the best run; until the evidence
    is known once.
    """
    prior, tuning = state.prior.simulated, state.settings.tuning
    turn = state.next_id % tuning.climb_every
    if turn > 1 or not state.far or state.satisfied > 0:
        return known[:0]
    if turn == 0:
        population = state.population.z[:, : prior.dim]
        return exploration.most_promising(surrogate, population, known, prior, tuning.climb_gain)
    good = np.array([e.status is Status.OK for e in state.evaluations])
    y = np.array([e.log_likelihood for e in state.evaluations])
    y[~good] = np.min(y[good])  # a step must not lead to where runs fail or find no likelihood, either
    step, gain = trust_region.step_up(known, y, state.settings.n_initial, prior)
    return step[None, :] if gain > tuning.climb_gain else known[:0]


def _middle(state: State) -> Array | None:
    """The middle of a prior whose posterior is far, once: who gives a wide prior often expects something there."""
    prior = state.prior.simulated
    middle = prior.from_uniform(np.full((1, prior.dim), 0.5))
    first = state.next_id == state.settings.n_initial and state.far and prior.contains(middle)[0]
    return prior.to_working(middle) if first else None


def chosen_points(state: State, learned: Learned, n: int) -> list[Proposal]:
    """Points chosen one by one, each as if those before it and those still out had returned their predicted means."""
    prior, settings = state.prior.simulated, state.settings
    assumed = list(prior.to_working(np.array([p.theta for p in state.out]).reshape(-1, prior.dim)))
    known = prior.to_working(np.array([e.theta for e in state.evaluations]))
    target, domain = learned.target, search.domain_of(prior)
    for z in assumed:
        target = target.conditioned(z)
    proposals = []
    for i, function in enumerate(named(settings.acquisition, n)):
        aim, candidates, climb, number = target, learned.candidates, settings.climb, state.next_id + i
        if state.doubt is not None and i == 0 and not _is_out(state, state.doubt):
            candidates, climb = state.doubt[None, :], False
        elif state.assessment is not None and i == 0 and not _is_out(state, state.assessment.suspect):
            aim, candidates = exploration.unsettled(state.assessment, settings.tuning)  # satisfied, but not all is well
            climb = climb and len(candidates) > 1  # the very point where another surrogate differs
        elif i == 0 and (middle := _middle(state)) is not None:
            candidates, climb = middle, False
        elif i == 0 and len(up := _upward(state, target.surrogate, known)):
            candidates, climb = up, False
        elif settings.tuning.explore_every and number % settings.tuning.explore_every == 0:
            turn, rng = number // settings.tuning.explore_every, stream(state.seed, "exploration", number)
            populations = (state.past[0] if state.past else state.population, state.population)
            surrogate = target.surrogate.unguarded  # what it is kept from believing is tested here
            explored = partial(exploration.exploration, everywhere=not (state.far and state.found))
            aim, candidates = explored(turn, *populations, surrogate, state.prior, settings, rng)
        elif i == 0 and _is_lost(state, learned):
            found = exploration.most_probable(target.surrogate, state.population.z[:, : prior.dim], known, prior)
            candidates, climb = found, False
        all_known = np.vstack([known, *(z[None, :] for z in assumed)])
        aim = replace(aim, log_weight=learned.target.log_weight)
        if state.noise:  # a run that is made again tells more
            all_known = all_known[:0]
        choice = search.choose(function, aim, candidates[:, : prior.dim], all_known, domain, climb=climb)
        assumed.append(choice.z)
        if i + 1 < n:
            target = target.conditioned(choice.z)
        theta = prior.from_working(choice.z[None, :])[0]
        proposals.append(Proposal(number, theta, len(state.past) + 1, choice.acquisition, choice.value))
    return proposals
