"""How a run is doing, from its journal alone: for another terminal, and for the morning after."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tbq.common.words import duration, printable
from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.failures import longest_streak, words
from tbq.run import journal

_PATIENCE = 1.0  # seconds between two looks
_ALIKE = 5  # failures in a row that say the same, from which on they may have been an outage


def lines(folder: Path) -> list[str]:
    """The account of a run, alive or not."""
    alive = journal.in_use(folder)  # asked first: a run that ends in between is then told as ended
    return _account(folder, journal.read(folder), alive)


def follow(folder: Path) -> Iterator[list[str]]:
    """The account whenever there is news, until the run ends or nobody works on it any more."""
    told = -1, False
    while True:
        alive = journal.in_use(folder)
        contents = journal.read(folder)
        if (news := (len(contents.records), alive)) != told:
            yield _account(folder, contents, alive)
            told = news
        if contents.stop is not None or not alive:
            return
        time.sleep(_PATIENCE)


def _account(folder: Path, contents: journal.Contents, alive: bool) -> list[str]:
    evaluations = contents.evaluations
    account = [f"{folder} {_verdict(contents, alive, folder)}", "", f"runs           {_runs(contents, evaluations)}"]
    if (b := contents.belief) is not None:
        cov = f"coefficient of variation {float(b['cov']):.2g}"
        account.append(f"stage          {b['stage']}, γ = {float(b['gamma']):.3g}")
        account.append(f"log evidence   {float(b['log_evidence']):.4g} at this γ, {cov}")
    if good := [e for e in evaluations if e.status is Status.OK]:
        account.append(f"best run       {_best(good, contents.header['prior']['names'])}")
    if messages := [e.message for e in evaluations if e.message]:
        account.append(f"last message   {messages[-1]}")
    if outages := [r for r in contents.records if r["kind"] == "outage"]:
        ago = duration(time.time() - outages[-1]["time"])
        account.append(f"outages        {len(outages)} waits; the last {ago} ago: {outages[-1]['message']}")
    if len(alike := longest_streak(evaluations)) >= _ALIKE:
        account.append(f"failures       {words(alike)} If that was an outage, {_how(folder, retry=True)}")
    return [printable(line) for line in account]


def _verdict(contents: journal.Contents, alive: bool, folder: Path) -> str:
    if contents.stop is not None:
        return f"ended. {contents.stop.value}"
    waits = contents.outage
    if alive and waits and waits["wait"] is not None:
        wait = waits["time"] + waits["wait"] - time.time()
        when = f"is paused, and tries again in {duration(wait)}" if wait > 0.0 else "was paused, and tries again now"
        return f"{when}: {_first_line(waits)}"
    if alive:
        return f"runs; the last news is {duration(time.time() - (folder / journal.FILE).stat().st_mtime)} old"
    if waits:
        return f"was paused: {_first_line(waits)}. When that is repaired, {_how(folder)} goes on with it"
    return f"was interrupted; {_how(folder)} goes on with it"


def _how(folder: Path, retry: bool = False) -> str:
    if (folder / "case.toml").exists():
        return f"`tbq resume {folder} --retry-failed` runs them again" if retry else f"`tbq resume {folder}`"
    return "retry_failed=True runs them again" if retry else "the same call of tbq.infer"


def _first_line(record: journal.Record) -> str:
    return (record["message"].strip().splitlines() or ["no message"])[0].rstrip(".")


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
