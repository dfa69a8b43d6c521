"""The report of a run's folder, finished or not: from its journal, made anew whenever there is news."""

from __future__ import annotations

import html
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tbq.cli import casefile
from tbq.common.errors import TbqError
from tbq.common.types import Array
from tbq.engine.records import Stop
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.report.page import body, explorer, page
from tbq.result.result import Result
from tbq.run import journal
from tbq.run.session import Session

FILE = "report.html"
_EVERY = 5  # seconds after which the page of a run that goes on loads itself again


def of_folder(folder: Path) -> Iterator[tuple[str, bool]]:
    """The page of a run, and whether the run still goes on: now, and whenever there is news, until it ends."""
    view: Session | None = None
    told = -1, False
    while True:
        alive = journal.in_use(folder)
        contents = journal.read(folder)
        if (news := (len(contents.records), alive)) != told:
            title, prior, likelihood = _case(folder)
            if prior is None:
                content = body_of_runs(contents)
            else:
                if view is None:
                    view = Session.view(prior, contents, likelihood)
                else:
                    view.replay(contents.records[told[0] :])
                content = body(_paused(view.result(), contents))
            told = news
            goes_on = alive and contents.stop is None
            yield page(title or str(folder), content, refresh=_EVERY if goes_on else None), goes_on
        if contents.stop is not None or not alive:
            return
        time.sleep(_EVERY)


def _case(folder: Path) -> tuple[str, Prior | None, GaussianLikelihood | None]:
    """Title, prior and likelihood, where the run was begun from a case file. The model is neither loaded nor run."""
    path = folder / "case.toml"
    if not path.exists():
        return "", None, None
    case = casefile.load(path)
    likelihood = case.log_likelihood(_no_model)
    return case.title, case.prior(), likelihood if isinstance(likelihood, GaussianLikelihood) else None


def _paused(result: Result, contents: journal.Contents) -> Result:
    """The result of a run that waits for something says so."""
    if contents.outage is None:
        return result
    return replace(result, stop=Stop.PAUSED, outage=contents.outage["message"])


def _no_model(theta: Array) -> Any:
    raise TbqError("report: the model is not run for a report")


def body_of_runs(contents: journal.Contents) -> str:
    """What can be said without the prior: how the run is doing, and its runs."""
    names = contents.header["prior"]["names"]
    stop = (contents.stop or (Stop.PAUSED if contents.outage else Stop.UNFINISHED)).value
    belief = contents.belief
    known = "" if belief is None else f" Stage {belief['stage']}, γ = {float(belief['gamma']):.3g}."
    note = "The journal alone does not hold the prior; result.report(path) in Python makes the whole report."
    lines = [f"<p>{html.escape(stop + known)}</p>", f'<p class="soft">{note}</p>']
    return "\n".join([*lines, explorer(names, contents.evaluations)])
