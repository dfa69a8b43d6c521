"""The report of a run's folder, finished or not: from its journal, made anew whenever there is news."""

from __future__ import annotations

import html
import time
from collections.abc import Iterator
from pathlib import Path

from tbq.cli.folder import Folder, paused
from tbq.common.errors import ArgumentError
from tbq.engine.records import Stop
from tbq.report.history import explorer
from tbq.report.page import body
from tbq.report.parts import document, section
from tbq.run import journal
from tbq.run.contents import Contents
from tbq.run.session import Session
from tbq.run.standing import of_journal

FILE = "report.html"
_EVERY = 5  # seconds after which the page of a run that goes on loads itself again


class Report:
    """The report of a folder; what was replayed for one is kept for the next."""

    def __init__(self, folder: Path) -> None:
        self.folder = Folder(folder)
        self.title = self.folder.title or str(folder)
        self.view: Session | None = None
        self.told = 0  # records that it has been told
        self.why_not = ""

    def body(self, contents: Contents) -> str:
        """The content of the page, from all records of the journal."""
        if self.view is None and not self.why_not:
            try:
                self.view, result = self.folder.view(contents)
            except ArgumentError as error:  # the journal alone does not hold all that is needed
                self.why_not = str(error)
            else:
                self.told = len(contents.records)
                return body(result)
        if self.view is None:
            return body_of_runs(contents, self.why_not)
        self.view.replay(contents.records[self.told :])
        self.told = len(contents.records)
        return body(paused(self.view.result(), contents))


def of_folder(folder: Path) -> Iterator[tuple[str, bool]]:
    """The page of a run, and whether the run still goes on: now, and whenever there is news, until it ends."""
    report: Report | None = None
    told = -1, False
    while True:
        alive = journal.in_use(folder)
        contents = journal.read(folder)
        if (news := (len(contents.records), alive)) != told:
            report = report or Report(folder)
            told = news
            goes_on = alive and contents.stop is None
            content = report.body(contents)
            yield document(report.title, content, refresh=_EVERY if goes_on else None), goes_on
        if contents.stop is not None or not alive:
            return
        time.sleep(_EVERY)


def body_of_runs(contents: Contents, why: str = "") -> str:
    """What can be said without prior or data: how the run is doing, and its runs."""
    names = contents.header["prior"]["names"]
    stop = (contents.stop or (Stop.PAUSED if contents.outage else Stop.UNFINISHED)).value
    rows = of_journal(contents, live=False).rows(time.time())
    known = " ".join(f"{head}: {text}." for head, text in rows)
    note = f"{why}. Then result.report(path) in Python makes the whole report."
    lines = [f"<p>{html.escape(f'{stop} {known}')}</p>", f'<p class="soft">{html.escape(note)}</p>']
    return "\n".join([*lines, section("Runs", explorer(names, contents.evaluations))])
