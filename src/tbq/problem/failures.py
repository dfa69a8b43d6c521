"""Failures that are alike, whatever their theta: an outage of the simulator looks like this, and a bug in it too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from tbq.problem.evaluation import Evaluation

# What differs between two runs that fail alike: numbers (theta, times, process ids; not exit codes and signals), the
# directory of the run, and what memory a thing lay at.
_DIRECTORY = re.compile(r"\S*tbq-run-\w+")
_NUMBER = re.compile(
    r"(?<!exit code )(?<!signal )(?<!exit status )[-+]?\b(0x[0-9a-f]+|\d[\d.:]*(e[-+]?\d+)?)", re.IGNORECASE
)


def likeness(run: Evaluation) -> str:
    """Equal for two failures that say the same; empty for a run that did not fail."""
    if not run.status.is_failure:
        return ""
    return f"{run.status}: {_NUMBER.sub('#', _DIRECTORY.sub('', run.message))}"


@dataclass(frozen=True)
class Streak:
    """The last failures in a row that are alike."""

    runs: tuple[Evaluation, ...] = ()
    succeeded: bool = False  # whether any run has
    calls: int = 0  # that made the runs

    def after(self, runs: Iterable[Evaluation]) -> Streak:
        """With the runs of one more call, of which there may be many where calls are vectorised."""
        streak = self
        for run in runs:
            streak = streak._after(run)
        if not streak.runs or streak is self:
            return streak
        return replace(streak, calls=self.calls + 1 if self.runs and streak.runs[0] is self.runs[0] else 1)

    def _after(self, run: Evaluation) -> Streak:
        if not run.status.is_failure:
            return Streak((), True)
        alike = self.runs and likeness(self.runs[-1]) == likeness(run)
        return replace(self, runs=(*self.runs, run) if alike else (run,))

    def is_longer(self, limits: tuple[float, float], times: int = 1) -> bool:
        """Whether there are more than one would believe: so many times a limit, before any success or later."""
        return bool(self.runs) and self.calls >= times * limits[self.succeeded]


def streak_of(runs: Iterable[Evaluation]) -> Streak:
    """The failures that are alike at the end of a run's history."""
    return _streaks(runs)[-1]


def longest_streak(runs: Iterable[Evaluation]) -> tuple[Evaluation, ...]:
    """The most failures in a row that were alike."""
    return max((streak.runs for streak in _streaks(runs)), key=len)


def _streaks(runs: Iterable[Evaluation]) -> list[Streak]:
    return list(accumulate(runs, lambda streak, run: streak.after([run]), initial=Streak()))


def words(alike: Sequence[Evaluation]) -> str:
    """What failures that are alike have in common."""
    said = (alike[-1].message.strip() or str(alike[-1].status)).splitlines()[0]
    return f"{len(alike)} runs in a row, {alike[0].id} to {alike[-1].id}, failed alike ({said})."
