"""How a run is doing, from its journal alone: for another terminal, and for the morning after."""

from __future__ import annotations

import re
import textwrap
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tbq.common.words import brief, duration, printable
from tbq.engine.records import Stop
from tbq.problem.evaluation import Evaluation
from tbq.problem.failures import likeness, longest_streak, words
from tbq.run import journal
from tbq.run.contents import Contents
from tbq.run.header import Record
from tbq.run.standing import Standing, of_journal

_PATIENCE = 1.0  # seconds between two looks
_ALIKE = 5  # failures in a row that say the same, from which on they may have been an outage
_SHOWN = 5  # kinds of failures that are listed
_HEAD = 15  # characters that headings take
_KEPT = re.compile(r"Its directory is kept: (.+)$", re.M)


def lines(folder: Path) -> list[str]:
    """The account of a run, alive or not."""
    return look(folder).lines()


def follow(folder: Path) -> Iterator[Look]:
    """How it stands whenever there is news, until the run ends or nobody works on it any more."""
    told = -1, False
    while True:
        now = look(folder)
        if (news := (len(now.contents.records), now.alive)) != told:
            yield now
            told = news
        if now.contents.stop is not None or not now.alive:
            return
        time.sleep(_PATIENCE)


def look(folder: Path) -> Look:
    """How the run of a folder stands now."""
    alive = journal.in_use(folder)  # asked first: a run that ends in between is then told as ended
    return Look(folder, journal.read(folder), alive)


class Look:
    """What was seen of a folder at one moment."""

    def __init__(self, folder: Path, contents: Contents, alive: bool) -> None:
        self.folder, self.contents, self.alive = folder, contents, alive
        self.standing: Standing = of_journal(contents, live=alive)

    def lines(self, width: int | None = None) -> list[str]:
        """The whole account; in lines of a ``width`` where a person reads it on a terminal."""
        rows = [*self.standing.rows(time.time()), *self.more()]
        first = printable(f"{self.folder} {self.verdict()}")
        if width is None:
            return [first, "", *(f"{head:<{_HEAD}}{text}" for head, text in rows)]
        wrapped = [_wrap(f"{head:<{_HEAD}}{text}", width, " " * _HEAD) for head, text in rows]
        return [*_wrap(first, width), "", *(line for lines in wrapped for line in lines)]

    def more(self) -> list[tuple[str, str]]:
        """What a look from outside adds: what is in force, the best run, what failed, outages."""
        rows = [("in force", self.in_force())]
        if self.standing.best is not None:
            rows.append(("best run", self.standing.best_run()))
        rows += [("failed", text) for text in self.failures()]
        if outages := [r for r in self.contents.records if r["kind"] == "outage"]:
            ago = duration(time.time() - outages[-1]["time"])
            waits = f"{len(outages)} {'wait' if len(outages) == 1 else 'waits'}"
            rows.append(("outages", f"{waits}; the last {ago} ago: {brief(outages[-1]['message'])}"))
        if len(alike := longest_streak(self.contents.fine)) >= _ALIKE:
            rows.append(("", f"{words(alike)} If that was an outage, {self.how(retry=True)}"))
        return [(head, printable(text)) for head, text in rows]

    def in_force(self) -> str:
        """The settings that a user chooses and may change."""
        settings = self.contents.settings
        asked, used = settings.asked_tolerance[1], settings.tolerance[1]
        strict = "" if settings.strictness == 1.0 else f" ({used:.3g} where outputs are learned)"
        return (
            f"tolerance {asked:.3g}{strict}, at most {self.standing.budget} runs, seed {self.contents.header['seed']}"
        )

    def failures(self) -> list[str]:
        """Failed runs by what they said, with the directory of the last of each kind."""
        kinds: dict[str, list[Evaluation]] = defaultdict(list)
        for e in self.standing.failures:
            kinds[likeness(e)].append(e)
        said = []
        for runs in sorted(kinds.values(), key=len, reverse=True)[:_SHOWN]:
            kept = _KEPT.search(runs[-1].message)
            where = f"; see {kept[1]}" if kept else ""
            said.append(f"{_numbers([e.id for e in runs])}: {brief(runs[-1].message)}{where}")
        return said + ([f"and {len(kinds) - _SHOWN} other messages"] if len(kinds) > _SHOWN else [])

    def verdict(self) -> str:
        """How it is, and how to go on."""
        contents = self.contents
        if contents.stop is not None:
            return f"ended. {contents.stop.value}{self.afterwards(contents.stop)}"
        waits = contents.outage
        if self.alive and waits and waits["wait"] is not None:
            wait = waits["time"] + waits["wait"] - time.time()
            when = f"is paused, and tries again in {duration(wait)}" if wait > 0 else "was paused, and tries again now"
            return f"{when}: {_cause(waits)}"
        if self.alive:
            return f"runs; the last news is {duration(time.time() - (self.folder / journal.FILE).stat().st_mtime)} old"
        if waits:
            return f"was paused: {_cause(waits)}. When that is repaired, {self.how()} goes on with it"
        if self.standing.clock.places is None and self.standing.out:  # nobody here makes its runs
            asked = f"`tbq ask {self.folder} --again` lists them" if self.has_case else "tbq.Session goes on with it"
            return f"waits to be told of {self.standing.out} points that are out; {asked}"
        return f"was interrupted; {self.how()} goes on with it"

    def afterwards(self, stop: Stop) -> str:
        """What can be done about a run that ended without what was asked for."""
        more = 2 * self.standing.budget
        if stop is Stop.BUDGET:
            return f" {self.how(f'max_evaluations={more}', f'--max-evaluations {more}')} gives it more runs."
        if stop is Stop.NOTHING_LEARNED and self.standing.failed:
            return f" When the model is repaired, {self.how(retry=True)}."
        return ""

    def how(self, python: str = "", option: str = "", retry: bool = False) -> str:
        """The command or the call that goes on."""
        if retry:
            python, option = "retry_failed=True", "--retry-failed"
        then = " runs them again" if retry else ""
        if self.has_case:
            return f"`tbq resume {self.folder}{f' {option}' if option else ''}`{then}"
        return f"{python or 'the same call of tbq.infer'}{then}"

    @property
    def has_case(self) -> bool:
        return (self.folder / "case.toml").exists()

    def as_dict(self) -> dict[str, Any]:
        return {"folder": str(self.folder), "sentence": self.verdict(), **self.standing.as_dict()}


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    """In lines; paths stay whole, since they are copied from the screen."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _cause(record: Record) -> str:
    return brief(record["message"]).rstrip(".")


def _numbers(ids: list[int]) -> str:
    shown = ", ".join(str(i) for i in ids[:_SHOWN]) + (f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else "")
    return f"run {shown}" if len(ids) == 1 else f"runs {shown}"
