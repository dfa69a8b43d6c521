"""Outages: what stops runs though theta has nothing to do with it. How long to wait, and what a try says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from tbq.common.arguments import real
from tbq.common.errors import ArgumentError, TbqError
from tbq.common.words import brief, duration
from tbq.problem.evaluation import Evaluation, Proposal
from tbq.problem.failures import likeness

_FIRST = 1.0  # seconds before the first try; each further wait is twice as long
_LONGEST = 300.0  # seconds: who repairs something wants to see it go on
_STUBBORN = 3  # tries at one theta after which another is asked whether it is the simulator at all


class PausedError(TbqError):
    """An outage lasted longer than the patience for it; the journal is ready to go on."""


class Kind(Enum):
    """How an outage came to be known."""

    NAMED = "named"  # somebody said that theta has nothing to do with it: tbq.Transient, an exit code, no program
    SEEN = "seen"  # connections are refused, a disk is full
    ALIKE = "alike"  # one run after the other failed alike
    FULL = "full"  # the disk of the journal


@dataclass(frozen=True)
class Outage:
    """What stopped runs, and how long it has been waited for."""

    kind: Kind
    message: str
    runs: tuple[Evaluation, ...] = ()  # that failed alike
    dropped: bool = False  # whether it is sure enough that these failures have been forgotten
    tries: int = 0
    waited: float = 0.0  # seconds

    @property
    def wait(self) -> float:
        """Seconds before the next try."""
        return min(_FIRST * 2.0**self.tries, _LONGEST)

    @property
    def is_doubted(self) -> bool:
        """Whether a theta that once succeeded should be asked too: it may be theta that fails, not the simulator."""
        return self.kind is Kind.ALIKE or (self.kind is Kind.SEEN and self.tries >= _STUBBORN)

    def explains(self, runs: Iterable[Evaluation]) -> bool:
        """Whether it is sure, and these failed like those before."""
        return self.dropped and all(likeness(run) == likeness(self.runs[-1]) for run in runs)

    def after(self, wait: float) -> Outage:
        """Waited for, tried, and still there."""
        return replace(self, tries=self.tries + 1, waited=self.waited + wait)

    def sentence(self, wait: float | None) -> str:
        """For those who look on; ``wait`` is None when no more tries are made."""
        seen = brief(self.message)
        what = f"{len(self.runs)} runs in a row failed alike" if self.kind is Kind.ALIKE else "runs are stopped"
        then = "the run ends here, and can go on later" if wait is None else f"next try in {duration(wait)}"
        return f"{what}, which does not look like a matter of theta: {seen} ({then})"


def control(runs: Iterable[Evaluation]) -> Proposal | None:
    """Where the simulator is known to work: of the runs that succeeded the shortest, not of earlier ones."""
    good = [e for e in runs if not e.status.is_failure]
    if not good:
        return None
    return proposal_of(min(good, key=lambda e: (e.origin == "earlier", e.seconds, e.id)))


def proposal_of(e: Evaluation) -> Proposal:
    """The point of a run, to be made again."""
    return e.proposal


def check_limits(value: Any) -> tuple[float, float]:
    """How many failures alike are an outage, before any success and later."""
    try:
        first, later = (real(v) for v in value)
    except (TypeError, ValueError):
        first, later = np.nan, np.nan
    if not all(v == np.inf or (v >= 2 and v.is_integer()) for v in (first, later)):
        raise ArgumentError(
            "outage_after must be two whole numbers of at least 2, of failures in a row that are alike, before any "
            f"success and later; inf is never; got {value!r}"
        )
    return first, later


def check_patience(value: Any) -> float:
    if not (seconds := real(value)) >= 0.0:
        raise ArgumentError(f"patience must be a number of seconds that is not negative; got {value!r}")
    return seconds
