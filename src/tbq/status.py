"""How a run is doing, from its journal alone: for another terminal, and for the morning after."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tbq import journal
from tbq.evaluation import Evaluation, Status
from tbq.words import duration

_PATIENCE = 1.0  # seconds between two looks


def lines(folder: Path) -> list[str]:
    """The account of a run, alive or not."""
    alive = journal.in_use(folder)  # asked first: a run that ends in between is then told as ended
    contents = journal.read(folder)
    evaluations = contents.evaluations
    account = [
        f"{folder}     {_verdict(contents, alive, folder)}",
        f"runs           {_runs(contents, evaluations)}",
    ]
    if contents.belief is not None:
        b = contents.belief
        account.append(f"stage          {b['stage']}, γ = {float(b['gamma']):.3g}")
        account.append(
            f"log evidence   {float(b['log_evidence']):.4g} at this γ, coefficient of variation {float(b['cov']):.2g}"
        )
    good = [e for e in evaluations if e.status is Status.OK]
    if good:
        account.append(f"best run       {_best(good, contents.header['prior']['names'])}")
    messages = [e.message for e in evaluations if e.message]
    if messages:
        account.append(f"last message   {messages[-1]}")
    return account


def follow(folder: Path) -> Iterator[list[str]]:
    """The account whenever there is news, until nobody writes the journal any more."""
    last: tuple[bool, int] | None = None
    while True:
        seen = journal.in_use(folder), (folder / journal.FILE).stat().st_size
        if seen != last:
            yield lines(folder)
            last = seen
        if not seen[0]:
            return
        time.sleep(_PATIENCE)


def _verdict(contents: journal.Contents, alive: bool, folder: Path) -> str:
    if contents.stop is not None:
        return f"ended. {contents.stop.value}"
    if alive:
        return f"runs; the last news is {duration(time.time() - (folder / journal.FILE).stat().st_mtime)} old"
    return f"was interrupted; `tbq resume {folder}` goes on with it"


def _runs(contents: journal.Contents, evaluations: tuple[Evaluation, ...]) -> str:
    counts = Counter(e.status for e in evaluations)
    outcome = ", ".join(f"{counts[s]} {s}" for s in Status if counts[s]) or "none yet"
    most = contents.header["settings"]["max_evaluations"] + len(contents.header["known"])
    times = [e.seconds for e in evaluations]
    pace = f"; {duration(sum(times) / len(times))} each" if times else ""
    return f"{len(evaluations)} of at most {most}: {outcome}; {len(contents.pending)} out{pace}"


def _best(good: list[Evaluation], names: list[str]) -> str:
    best = max(good, key=lambda e: e.log_likelihood)
    where = ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, best.theta, strict=True))
    return f"log-likelihood {best.log_likelihood:.4g} at {where}"
