"""A run that goes on with another budget or another tolerance than it was begun with."""

from __future__ import annotations

from dataclasses import replace

from tbq.engine.records import Stop
from tbq.engine.state import State
from tbq.problem.settings import Settings


def steer(state: State, settings: Settings) -> State:
    """The run with the budget and the tolerance of ``settings``; it is open again where the old ones had ended it."""
    before = state.settings
    fell_back = before.surrogate != settings.surrogate  # from outputs, which could not be modelled
    wanted = settings.otherwise if fell_back and settings.otherwise else settings
    new = replace(before.with_limits_of(wanted), n_initial=before.n_initial)
    state, stop = replace(state, settings=new), state.stop
    room = len(state.evaluations) < new.max_evaluations
    if stop is Stop.CONVERGED and new.tolerance[1] < before.tolerance[1]:
        state, stop = replace(state, satisfied=0, assessment=None), None
    elif stop in (Stop.BUDGET, Stop.NOTHING_LEARNED) and new.max_evaluations > before.max_evaluations and room:
        stop = None
    if stop is None and not room:
        stop = Stop.BUDGET if state.learned else Stop.NOTHING_LEARNED
    return replace(state, stop=stop)
