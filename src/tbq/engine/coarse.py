"""Runs of a coarse model: which to make, and when they teach more for their cost than a fine one.

They come first, as a design of the prior; then one at every fine run, without which levels cannot be compared; and then
wherever they are expected to reveal more of the evidence per cost. All that is here is pure and deterministic, but for
the cost where nobody gave it: that is timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tbq.common.randomness import stream
from tbq.common.types import Array
from tbq.engine.state import State
from tbq.evidence import moments
from tbq.gp.levels import Levels
from tbq.problem.evaluation import Evaluation, Proposal, Status
from tbq.problem.likelihood import GaussianLikelihood
from tbq.surrogate import feasibility
from tbq.surrogate.feasibility import Bounded

_UNKNOWN_COST = 0.1  # of a coarse run in fine ones, where it was neither given nor timed
_HOPELESS = 8  # coarse runs after which, if none gave all outputs, no more are made
_LEAST_DESIGN = 2  # coarse runs beside one for each parameter that a design has at least
_DESIGN_COST = 5.0  # fine runs that it may cost beyond that
_NODES_APART = 3  # every third node of the evidence is a candidate


def in_use(state: State) -> bool:
    """Whether there is a coarse model that something can be learned from."""
    if state.likelihood is None or not state.likelihood.has_coarse or state.settings.surrogate != "outputs":
        return False
    return len(state.coarse) < _HOPELESS or any(_told_all(e) for e in state.coarse)


def cost_ratio(likelihood: GaussianLikelihood, fine: Sequence[Evaluation], coarse: Sequence[Evaluation]) -> float:
    """Cost of a coarse run in fine ones: as given, or by the median time of those that succeeded."""
    if likelihood.cost is not None:
        return likelihood.cost
    seconds = [[e.seconds for e in runs if e.status is Status.OK and e.seconds > 0.0] for runs in (fine, coarse)]
    if not all(seconds):
        return _UNKNOWN_COST
    return float(np.median(seconds[1]) / np.median(seconds[0]))


def design_left(state: State) -> int:
    """Points of the coarse design that have not been proposed."""
    if state.learned is not None or not in_use(state):
        return 0
    return max(_design_size(state) - len(state.coarse) - len(state.coarse_out), 0)


def _design_size(state: State) -> int:
    assert state.likelihood is not None
    d, cost = state.prior.simulated.dim, state.likelihood.cost or 0.0
    affordable = max(round(_DESIGN_COST / cost), d + _LEAST_DESIGN) if cost else np.inf
    return int(min(state.settings.tuning.coarse_design * d, affordable))


def proposals(state: State, n: int) -> list[Proposal]:
    """Up to ``n`` coarse runs: of the design, or of those that were decided on."""
    if left := design_left(state):
        size = _design_size(state)
        theta = state.prior.simulated.sample(size, stream(state.seed, "coarse design"), "lhs")[size - left :]
    else:
        theta = state.plan
    origin, stage = ("initial", 0) if left else ("coarse", len(state.past) + 1)
    return [Proposal(state.next_id + i, row, stage, origin, np.nan, "coarse") for i, row in enumerate(theta[:n])]


def waiting(state: State) -> bool:
    """Whether coarse runs are on their way, without which nothing new is learned."""
    return bool(design_left(state) or len(state.plan) or state.coarse_out)


def with_partners(state: State) -> State:
    """Plan a coarse run at every fine one that has none."""
    if not in_use(state):
        return state
    there = {e.theta.tobytes() for e in state.coarse}
    theta = [e.theta for e in state.evaluations if e.outputs is not None and e.theta.tobytes() not in there]
    return replace(state, plan=np.array(theta).reshape(-1, state.prior.simulated.dim))


def planned(state: State) -> State:
    """Plan coarse runs if they are expected to reveal more of the evidence's variance, per cost, than a fine run."""
    levels = _levels_of(state)
    if levels is None or state.stop or state.check or state.assessment or not in_use(state):
        return state
    assert state.likelihood is not None
    cost, tuning = cost_ratio(state.likelihood, state.evaluations, state.coarse), state.settings.tuning
    room = tuning.most_coarse - len(state.coarse)
    size = min(int(np.clip(tuning.coarse_batch_cost / cost, 1, tuning.coarse_batch)), room)
    z = _worth_more(state, levels, cost, size)
    return replace(state, plan=state.prior.simulated.from_working(z)) if len(z) else state


def _levels_of(state: State) -> Any:
    """The surrogate, where it has a coarse level; else None."""
    if state.learned is None or len(state.learned.candidates) == 0:
        return None
    surrogate = state.learned.surrogate
    inner: Any = surrogate.inner if isinstance(surrogate, Bounded) else surrogate
    return inner if isinstance(getattr(inner, "batch", None), Levels) else None


def _worth_more(state: State, surrogate: Any, cost: float, size: int) -> Array:
    """Points of coarse runs, each as if those before it had returned what is expected; none where fine ones do more."""
    learned, d = state.learned, state.prior.simulated.dim
    assert learned is not None
    target, gamma = learned.target, learned.gamma
    z, weights = target.node_z, target.weights
    nodes = surrogate.at(z)
    limit = state.settings.tuning.coarse_known * state.settings.tolerance[1]
    if size <= 0 or _due_to_coarse(surrogate, nodes, weights, gamma) < limit:
        return np.empty((0, d))
    pool = np.vstack([learned.candidates[:, :d], z[::_NODES_APART, :d]])
    chance = _chances(state, pool)
    fine = surrogate.revealed_variance(surrogate.at(pool), nodes, weights, gamma, ranking=True)
    least = float(np.max(fine)) / (1.0 + cost)
    found: list[Array] = []
    for _ in range(size):
        of_coarse = _shown(surrogate, "coarse")
        gain = chance * of_coarse.revealed_variance(of_coarse.at(pool), nodes, weights, gamma, ranking=True)
        best = int(np.argmax(gain))
        if not found and not gain[best] / cost > least:
            break
        found.append(pool[best])
        surrogate = replace(surrogate, batch=surrogate.batch.condition_on_coarse_mean(pool[best]))
        nodes = surrogate.at(z)
    return np.array(found).reshape(-1, d)


def _due_to_coarse(surrogate: Any, nodes: Any, weights: Array, gamma: float) -> float:
    """Coefficient of variation of the evidence that is due to what is not known of the coarse model."""
    both, rest = (moments.evidence_cov(s, nodes, weights, gamma) for s in (surrogate, _shown(surrogate, "delta")))
    return float(np.sqrt(max(both**2 - rest**2, 0.0)))


def _shown(surrogate: Any, part: str) -> Any:
    return replace(surrogate, batch=replace(surrogate.batch, part=part))


def _chances(state: State, z: Array) -> Array:
    """Of a coarse run at each point not to fail."""
    runs = state.prior.simulated.to_working(np.array([e.theta for e in state.coarse]))
    region = feasibility.learn(runs, np.array([_told_something(e) for e in state.coarse]), None)
    return np.ones(len(z)) if region is None else np.exp(region.log_probability(z))


def _told_something(e: Evaluation) -> bool:
    return e.outputs is not None and bool(np.isfinite(e.outputs).any())


def _told_all(e: Evaluation) -> bool:
    return e.outputs is not None and bool(np.isfinite(e.outputs).all())
