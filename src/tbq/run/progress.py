"""How a run is doing, while it runs: on a terminal one line that changes, in a log one line per stage."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from tbq.engine import State

Progress = Literal["auto", "rich", "plain", False]


@contextmanager
def reporter(progress: Progress) -> Iterator[Callable[[State], None]]:
    """A function to be told of every new state. 'auto' shows on a terminal and keeps still elsewhere."""
    if progress == "rich" or (progress == "auto" and sys.stderr.isatty()):
        from rich.console import Console

        with Console(stderr=True).status("starting") as status:
            yield lambda state: status.update(describe(state))
    elif progress == "plain":
        yield _Plain()
    else:
        yield lambda state: None


def describe(state: State) -> str:
    """One line: runs, stage, γ and how well the evidence is known."""
    runs = f"{len(state.evaluations)} runs"
    if not state.history:
        return f"{runs}, initial design"
    last = state.history[-1]
    return f"{runs}, stage {last.stage}, γ = {last.gamma:.3g}, coefficient of variation {last.cov:.2g}"


class _Plain:
    """Prints a line whenever a stage has ended, and at the end."""

    def __init__(self) -> None:
        self.stages = 0

    def __call__(self, state: State) -> None:
        if len(state.stages) > self.stages or state.stop is not None:
            self.stages = len(state.stages)
            with suppress(OSError, ValueError):  # closed by the simulator, say: no reason to end a run
                print(describe(state), file=sys.stderr, flush=True)
