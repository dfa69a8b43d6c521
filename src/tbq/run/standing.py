"""How a run stands, in numbers and in words: of a session that runs here, and of the journal of one that runs anywhere.

Whatever shows a run while it goes on (terminal, log, notebook, ``tbq status``, ``tbq watch``) shows this.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from tbq.common.words import brief, duration, nats, printable, value_and_sd
from tbq.engine.records import Record as Belief
from tbq.engine.records import Stop
from tbq.problem.evaluation import Evaluation, Proposal, Status
from tbq.problem.settings import Settings
from tbq.run.contents import Contents
from tbq.run.estimates import Estimate
from tbq.run.header import Record

_EARLIER = "earlier"  # origin of runs that a warm start brought along
_THEN = "; then γ rises"
_ENDED = {
    Stop.CONVERGED: "converged",
    Stop.BUDGET: "not converged",
    Stop.NOTHING_LEARNED: "nothing learned",
}
_LEARNING = "what these runs say: it is being learned"


@dataclass(frozen=True)
class Clock:
    """When runs were made, in seconds since 1970, and how many at a time."""

    begun: float
    worked: float = 0.0  # seconds of earlier processes
    since: float | None = None  # when the last process set out to make runs
    until: float = 0.0  # when it was last heard of
    places: int | None = None  # runs at a time
    batch: int | None = None  # points in flight once the initial design is back

    @classmethod
    def of(cls, contents: Contents) -> Clock:
        """From the times that a journal has."""
        begun = float(contents.header.get("time", 0.0))
        clock = cls(begun, until=begun)
        for record in contents.records:
            if record["kind"] == "begin":
                clock = replace(clock.paused(), since=float(record["time"]))
                clock = replace(clock, places=int(record["places"]), batch=int(record["batch"]))
            clock = replace(clock, until=float(record.get("time", clock.until)))
        return clock

    def paused(self) -> Clock:
        """With the time of the last process as an earlier one's."""
        return replace(self, worked=self.elapsed(self.until), since=None)

    def elapsed(self, now: float) -> float:
        """Seconds that somebody was at work."""
        return self.worked if self.since is None else self.worked + max(now - self.since, 0.0)


@dataclass(frozen=True)
class Standing:
    """What is done, what is out, what is known, what is missing."""

    settings: Settings  # in force
    counts: Mapping[Status, int]  # of the runs that were made, those of a warm start not counted
    earlier: int  # runs that a warm start brought along
    out: int  # points that are running or wait for a place
    belief: Belief | None  # as of the last update
    check: tuple[int, int] | None  # check runs that are back, of how many, where a check is under way
    seconds: float  # of one run on average; nan before the first
    own: float  # seconds that choosing and learning took so far
    clock: Clock
    coarse: int = 0  # runs of a coarse model
    names: Sequence[str] = ()
    best: Evaluation | None = None
    failures: tuple[Evaluation, ...] = ()
    stop: Stop | None = None
    outage: str = ""  # what the run waits for
    next_try: float | None = None  # seconds since 1970
    live: bool = True  # whether somebody works on it
    found: tuple[float, float] | None = None  # log evidence and its whole error, as stated at the end
    estimate: Estimate | None = None  # as they would have been stated

    # --- numbers --------------------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        return sum(self.counts.values())

    @property
    def failed(self) -> int:
        return sum(n for status, n in self.counts.items() if status.is_failure)

    @property
    def budget(self) -> int:
        """The most runs that there may be, those of a warm start not counted."""
        return self.settings.max_evaluations - self.earlier

    @property
    def initial(self) -> int:
        """Runs of the initial design, which a warm start replaces in part or as a whole."""
        return max(min(self.settings.n_initial - self.earlier, self.budget), 0)

    @property
    def running(self) -> int:
        """Of the points that are out, as many as there are places; none in an outage."""
        if not self.live or self.stop is not None or self.outage:
            return 0
        return min(self.out, self.clock.places or self.out)

    @property
    def queued(self) -> int:
        return self.out - self.running

    @property
    def final_evidence(self) -> tuple[float, float] | None:
        """Log evidence with its whole error, as stated at the end or as of the last estimate; None before that."""
        return self.found or (None if self.estimate is None else self.estimate[:2])

    def elapsed(self, now: float) -> float:
        """Seconds that somebody was at work on it."""
        return self.clock.elapsed(now if self.live else self.clock.until)

    def remaining(self) -> tuple[float, float]:
        """Seconds until the initial design is back, and until the whole budget would be used; nan before a run is."""
        places = max(self.clock.places or 1, 1)
        later = max(min(places, self.clock.batch or places), 1)
        design = max(self.initial - self.done, 0)
        chosen = max(self.done - self.initial, 0)
        ours = self.own / max(chosen, 1)
        first = math.ceil(design / places) * self.seconds if design else 0.0
        rest = max(self.budget - max(self.done, self.initial), 0)
        return first, first + rest * (self.seconds / later + ours)

    def bar(self) -> tuple[int, int]:
        """Runs that are done, of how many: of the initial design, then of the budget; full at the end."""
        if self.stop is not None:
            return 1, 1
        return self.done, (self.initial if self.done < self.initial else self.budget)

    def as_dict(self, now: float | None = None) -> dict[str, Any]:
        """For programs: what there is in numbers and words, as JSON has it."""
        now = time.time() if now is None else now
        final = self.final_evidence
        first, rest = self.remaining()
        return {
            "state": self.state(now),
            "stop": None if self.stop is None else self.stop.name.lower(),
            "runs": {
                "done": self.done,
                "running": self.running,
                "queued": self.queued,
                "failed": self.failed,
                "earlier": self.earlier,
                "initial_design": self.initial,
                "budget": self.budget,
            },
            "outcomes": {str(status): self.counts.get(status, 0) for status in Status},
            "stage": None if self.belief is None else self.belief.stage,
            "gamma": None if self.belief is None else self.belief.gamma,
            "log_evidence": None if final is None else _number(final[0]),
            "log_evidence_sd": None if final is None else _number(final[1]),
            "missing": self.missing(),
            "tolerance": [_number(t) for t in self.settings.asked_tolerance],
            "seconds_per_run": _number(self.seconds),
            "seconds_elapsed": self.elapsed(now),
            "seconds_to_design": _number(first) if self.stop is None else None,
            "seconds_at_most": _number(rest) if self.stop is None else None,
            "outage": self.outage,
            "failures": [{"run": e.id, "status": str(e.status), "message": e.message} for e in self.failures],
        }

    # --- words ----------------------------------------------------------------------------------------------

    def state(self, now: float) -> str:
        """One word or two for a heading."""
        if self.stop is not None:
            return _ENDED.get(self.stop, "ended")
        if self.outage:
            return "waiting" if self.live and self.next_try is not None else "paused"
        return "running" if self.live else "interrupted"

    def outcomes(self) -> str:
        """``12 ok, 2 failed; 1 running, 9 queued``."""
        done = ", ".join(f"{self.counts[s]} {s}" for s in Status if self.counts.get(s))
        out = [f"{self.running} running"] if self.running else []
        word = "not back" if not self.live else "waiting" if self.outage else "queued"
        out += [f"{self.queued} {word}"] if self.queued else []
        at_work = self.live and self.stop is None and self.clock.since is not None
        if at_work and not self.out and self.done and self.done >= self.initial:
            out = ["choosing the next"]
        return "; ".join(part for part in (done, ", ".join(out)) if part) or "none yet"

    def missing(self) -> str:
        """What has to happen before the run ends."""
        if self.stop is not None:
            return ""
        if (wanted := self.initial - self.done) > 0:
            runs = f"{wanted} of the {self.initial} runs" if wanted < self.initial else f"{self.initial} runs"
            return f"{runs} of the initial design; then the likelihood is learned"
        b = self.belief
        if b is None:
            good, needed = self.counts.get(Status.OK, 0) + self.earlier, self.settings.tuning.fewest_runs
            return _LEARNING if good >= needed else f"runs that succeed: {good} did, {needed} are needed"
        if self.check is not None:
            return f"{self.check[1] - self.check[0]} of {self.check[1]} check runs, which test the surrogate"
        return self._wanted(b)

    def _wanted(self, b: Belief) -> str:
        """How well the evidence is to be known, and how well it is."""
        last = b.gamma == 1.0
        target = self.settings.tolerance[1 if last else 0]
        if math.isinf(target):
            return f"the way to γ = 1, which runs near γ = {b.gamma:.2g} show"
        times = f"{self.settings.tuning.in_a_row} updates in a row"
        if b.cov <= target:
            return f"another update within the tolerance of {target:.2g} ({times})" + ("" if last else _THEN)
        what = "evidence" if last else "evidence of this stage"
        error = f"the surrogate's error of the {what} is {_percent(b.cov)}"  # alone: it is what ends a run
        return f"{error}, to be {_percent(target)} in {times}" + ("" if last else _THEN)

    def evidence(self) -> str:
        """The evidence with its whole error, or what there is before it was estimated."""
        if self.found is not None:
            return value_and_sd(*self.found)
        if self.estimate is not None:
            log_evidence, sd, runs = self.estimate
            return f"{value_and_sd(log_evidence, sd)}, after {runs} runs"
        if self.belief is None:
            return ""
        if self.belief.gamma < 1.0:
            at = f"{nats(self.belief.log_evidence, 2)} at γ = {self.belief.gamma:.3g}"
            return f"not known before γ = 1 ({at})"
        return f"about {nats(self.belief.log_evidence, 1)}; its error is not yet estimated"

    def times(self, now: float) -> str:
        """``12 s a run; 3.1 min so far; at most 35 min more``."""
        parts = [] if math.isnan(self.seconds) else [f"{duration(self.seconds)} a run"]
        if self.clock.since is not None and (self.done or self.elapsed(now) >= 1.0):
            parts.append(f"{duration(self.elapsed(now))} {'so far' if self.stop is None else 'in all'}")
        first, rest = self.remaining()
        if self.stop is None and not math.isnan(rest):
            if first > 0.0:
                parts.append(f"initial design in {duration(first)}")
            parts.append(f"whole budget in {duration(rest)}" if first > 0.0 else f"at most {duration(rest)} more")
        return "; ".join(parts)

    def best_run(self) -> str:
        if self.best is None:
            return ""
        where = ", ".join(f"{name} = {value:.4g}" for name, value in zip(self.names, self.best.theta, strict=True))
        return f"log-likelihood {self.best.log_likelihood:.4g} at {where}"

    def failure_words(self) -> str:
        """The last failure: which run, and the first line of what it said."""
        if not self.failures:
            return ""
        last = self.failures[-1]
        return f"run {last.id}: {brief(last.message)}"

    def outage_words(self, now: float) -> str:
        """What the run waits for, and when it tries again."""
        if self.next_try is None or not self.live:
            return brief(self.outage)
        wait = self.next_try - now
        return f"{brief(self.outage)}; tries again {f'in {duration(wait)}' if wait > 0.0 else 'now'}"

    def rows(self, now: float) -> list[tuple[str, str]]:
        """What there is to say, each with a heading."""
        rows = []
        if self.done < self.initial:
            rows.append(("design", f"{self.done} of {self.initial} initial runs are back"))
        earlier = f", after {self.earlier} earlier ones" if self.earlier else ""
        below = f"; {self.coarse} of the coarse model" if self.coarse else ""
        rows.append(("runs", f"{self.done} of at most {self.budget}{earlier}: {self.outcomes()}{below}"))
        if (b := self.belief) is not None:
            rows.append(("stage", f"{b.stage}, γ = {b.gamma:.3g}{'' if b.gamma == 1.0 else ' of 1'}"))
            rows.append(("log evidence", self.evidence()))
        if missing := self.missing():
            rows.append(("missing", missing))
        if words := self.times(now):
            rows.append(("time", words))
        return [(head, printable(text)) for head, text in rows]

    def line(self, now: float) -> str:
        """All of it in one line, for a log."""
        runs = f"{self.done} of at most {self.budget} runs ({self.outcomes()})"
        if self.stop is not None:
            found = f", log evidence {self.evidence()}" if self.found else ""
            return f"{runs}{found}. {self.stop.value}"
        b = self.belief
        stage = (
            f"initial design of {self.initial}"
            if b is None
            else f"stage {b.stage}, γ = {b.gamma:.3g}, log evidence {self.evidence()}"
        )
        return ", ".join(part for part in (runs, stage, self.times(now).replace(";", ",")) if part)


def of_journal(contents: Contents, *, live: bool) -> Standing:
    """How the run of a journal stands."""
    waits = contents.outage
    own = next((float(r["seconds"]) for r in reversed(contents.records) if r["kind"] in ("ask", "end")), 0.0)
    return of_parts(
        contents.settings,
        contents.evaluations,
        contents.pending,
        _belief(contents.belief),
        own=own,
        clock=Clock.of(contents),
        names=contents.header["prior"]["names"],
        stop=contents.stop,
        found=contents.found,
        estimate=contents.estimate,
        outage="" if waits is None else waits["message"] or "no message",
        next_try=None if waits is None or waits["wait"] is None else waits["time"] + waits["wait"],
        live=live and contents.stop is None,
    )


def of_parts(
    settings: Settings,
    evaluations: Sequence[Evaluation],
    pending: Sequence[Proposal],
    belief: Belief | None,
    **others: Any,
) -> Standing:
    fine = [e for e in evaluations if e.level == "fine"]
    runs = [e for e in fine if e.origin != _EARLIER]
    good = [e for e in runs if e.status is Status.OK]
    return Standing(
        settings=settings,
        counts=Counter(e.status for e in runs),
        earlier=len(fine) - len(runs),
        coarse=sum(e.level == "coarse" and e.origin != _EARLIER for e in evaluations),
        out=len(pending),
        belief=belief,
        check=_check(runs, pending, settings),
        seconds=float(np.mean([e.seconds for e in runs])) if runs else math.nan,
        best=max(good, key=lambda e: e.log_likelihood, default=None),
        failures=tuple(e for e in runs if e.status.is_failure),
        **others,
    )


def _check(runs: Sequence[Evaluation], pending: Sequence[Proposal], settings: Settings) -> tuple[int, int] | None:
    """Check runs that are back, and all of the check that is under way: those that were asked for last."""
    asked: list[Evaluation | Proposal] = sorted([*runs, *pending], key=lambda run: -run.id)
    last = list(itertools.takewhile(lambda run: run.origin == "check", asked))
    if not last:
        return None
    size = max(settings.check_runs, 4, len(last[0].theta))
    of_this = last[: len(last) % size or size]
    out = {p.id for p in pending}
    back = sum(run.id not in out for run in of_this)
    return None if back == size else (back, size)


def _belief(record: Record | None) -> Belief | None:
    if record is None:
        return None
    known: dict[str, Any] = {f.name: record[f.name] for f in fields(Belief) if f.name in record}
    numbers = {name: float(known[name]) for name in ("gamma", "log_evidence", "cov", "bound")}  # infinities are words
    return Belief(**{**known, **numbers})


def _percent(cov: float) -> str:
    return f"±{100 * cov:.2g} %" if cov < 10.0 else "no better than ±1000 %"


def _number(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None
