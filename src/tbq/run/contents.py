"""What a journal says: its records as proposals, evaluations, settings and beliefs, looked at before they are used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tbq.engine.records import Stop
from tbq.problem.evaluation import Evaluation, Proposal
from tbq.problem.records import proposal_of, run_of
from tbq.problem.settings import Settings
from tbq.run import waypoints
from tbq.run.estimates import Estimate
from tbq.run.header import FORMAT, Record, known_of, settings_of


@dataclass(frozen=True)
class Contents:
    """What a journal says: its header, and the records after it."""

    header: Record
    records: tuple[Record, ...]

    @cached_property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Every finished run in the order in which they returned, after those that the run started from."""
        asked: dict[int, Proposal] = {}
        done: dict[int, Evaluation] = {}
        for r in self.records:
            if r["kind"] == "ask":
                asked.update((p.id, p) for p in proposals_of(r))
            elif r["kind"] == "run":
                done[r["id"]] = run_of(r, asked[r["id"]])
            elif r["kind"] == "drop":
                done = {i: e for i, e in done.items() if i not in r["ids"]}
        return (*known_of(self.header), *done.values())

    @property
    def fine(self) -> tuple[Evaluation, ...]:
        """Those of the fine model, where there is a coarse one."""
        return tuple(e for e in self.evaluations if e.level == "fine")

    @cached_property
    def pending(self) -> tuple[Proposal, ...]:
        """Points that were proposed and have not returned."""
        done = {e.id for e in self.evaluations}
        return tuple(p for r in self.records if r["kind"] == "ask" for p in proposals_of(r) if p.id not in done)

    @property
    def belief(self) -> Record | None:
        """Stage, γ, evidence and its coefficient of variation as they were last known; None in the initial design."""
        return next((r["belief"] for r in reversed(self.records) if "belief" in r), None)

    @property
    def found(self) -> tuple[float, float] | None:
        """The log evidence that was stated at the end, with its error; None where the run has not ended."""
        last = next((r for r in reversed(self.records) if r["kind"] in ("found", "ask", "drop", "steer")), None)
        if last is None or last["kind"] != "found":
            return None
        return float(last["log_evidence"]), float(last["log_evidence_sd"])

    @property
    def estimate(self) -> Estimate | None:
        """The evidence as it would last have been stated while the run went on."""
        last = next((r for r in reversed(self.records) if r["kind"] == "estimate"), None)
        return None if last is None else (float(last["log_evidence"]), float(last["log_evidence_sd"]), last["runs"])

    @property
    def settings_record(self) -> Record:
        """The settings in force, as the journal has them."""
        return next((r["settings"] for r in reversed(self.records) if r["kind"] == "steer"), self.header["settings"])

    @property
    def settings(self) -> Settings:
        """The settings in force, the runs that it started from counted to the budget."""
        return settings_of(self.settings_record).with_budget(sum(e.level == "fine" for e in known_of(self.header)))

    @property
    def stop(self) -> Stop | None:
        """Why the run ended; None while it has not."""
        last = next((r for r in reversed(self.records) if r["kind"] in ("end", "drop", "steer")), None)
        return Stop[last["stop"]] if last is not None and last["kind"] == "end" else None

    @property
    def outage(self) -> Record | None:
        """What the run waits for, or was given up for; None where it has gone on since."""
        return self.records[-1] if self.records and self.records[-1]["kind"] == "outage" else None


def check_contents(contents: Contents) -> None:
    """Refuse what no run has written."""
    if (written := contents.header["format"]) != FORMAT:
        raise ValueError(f"its format is {written!r}, and this tbq reads {FORMAT}")
    names = contents.header["prior"]["names"]
    _ = contents.header["version"], contents.header["seed"], contents.header["prior"]["description"]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("names that are not words")
    for record in (contents.header, *(r for r in contents.records if r["kind"] == "steer")):
        _check_settings(settings_of(record["settings"]))
    points = [e.theta for e in contents.evaluations] + [p.theta for p in contents.pending]
    if any(theta.shape != (len(names),) for theta in points):
        raise ValueError("points of another length")
    outages = [r for r in contents.records if r["kind"] == "outage"]
    waits = [0.0 if r["wait"] is None else r["wait"] for r in outages]
    times = (float(r["time"] + wait) for r, wait in zip(outages, waits, strict=True))
    if not all(isinstance(r["message"], str) for r in outages) or not all(time > 0.0 for time in times):
        raise ValueError("outages without a message or a time")
    waypoints.last(contents.records, ())
    begins = [r for r in contents.records if r["kind"] == "begin"]
    if not all(type(r[key]) is int and r[key] > 0 for r in begins for key in ("places", "batch")):
        raise ValueError("somebody who set out to make no runs")
    _ = [float(r.get("time", 0.0)) for r in (contents.header, *contents.records)]
    _ = (
        contents.stop,
        contents.found,
        [float(r.get("seconds", 0.0)) for r in contents.records if r["kind"] in ("ask", "end")],
    )
    if (estimate := contents.estimate) is not None and type(estimate[2]) is not int:
        raise ValueError("an estimate from no number of runs")
    if (belief := contents.belief) is not None:
        _ = [float(belief[key]) for key in ("gamma", "log_evidence", "cov", "bound")]
        if type(belief["stage"]) is not int or type(belief["n_evaluations"]) is not int:
            raise ValueError("a stage that is not a number")


def _check_settings(settings: Settings) -> None:
    """Refuse settings that could not be shown."""
    counts = (settings.max_evaluations, settings.n_initial, settings.check_runs, settings.tuning.in_a_row)
    numbers = (*settings.tolerance, settings.strictness)
    if not all(type(n) is int for n in counts) or not all(type(x) is float and x > 0.0 for x in numbers):
        raise ValueError("settings that are not numbers")
    if len(settings.tolerance) != 2 or not isinstance(settings.surrogate, str):
        raise ValueError("settings that no run has")
    if settings.otherwise is not None:
        _check_settings(settings.otherwise)


def finished_of(records: Iterable[Record]) -> set[int]:
    """Numbers of the runs that are finished and were not forgotten since."""
    done: set[int] = set()
    for record in records:
        if record["kind"] == "run":
            done.add(record["id"])
        elif record["kind"] == "drop":
            done -= set(record["ids"])
    return done


def proposals_of(ask: Record) -> list[Proposal]:
    return [proposal_of(p) for p in ask["proposals"]]
