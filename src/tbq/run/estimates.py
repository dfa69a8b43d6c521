"""What a run would state if it ended now, for those who look on.

An update knows the surrogate's own error of the stage that it is in. The whole error of the final evidence takes a
fresh quadrature and other hyperparameters: too much for every update of a quick run, and nothing beside a slow one.
"""

from __future__ import annotations

from time import monotonic

from tbq import engine
from tbq.common.threads import single_threaded

Estimate = tuple[float, float, int]  # log evidence, its whole error, and the runs that it rests on

_FIRST = 60.0  # seconds of a run before which nobody waits for it
_SHARE = 0.05  # of the time, at most, is spent on estimates


class Estimates:
    """Estimates of one run, as often as their share of its time allows."""

    def __init__(self) -> None:
        self.next = monotonic() + _FIRST

    def due(self, state: engine.State) -> Estimate | None:
        """One of this state, if it is time for one and something was learned; the state does not change."""
        start = monotonic()
        if state.learned is None or start < self.next:
            return None
        with single_threaded():
            found = engine.conclude(state)
        now = monotonic()
        self.next = now + (now - start) * (1.0 / _SHARE - 1.0)
        runs = sum(e.origin != "earlier" for e in state.evaluations)
        return found.log_evidence, found.log_evidence_sd, runs
