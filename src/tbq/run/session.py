"""Ask and tell: the engine for people who run the simulator themselves, and the one way in which it is ever driven."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack, cast

from tbq import engine
from tbq.common.arguments import checked_seed, whole
from tbq.common.errors import ArgumentError
from tbq.common.randomness import fresh_seed
from tbq.common.threads import single_threaded
from tbq.common.types import ArrayLike
from tbq.problem.evaluation import Evaluation, Proposal, failure, judge
from tbq.problem.likelihood import GaussianLikelihood, noise_parameters
from tbq.problem.options import EngineOptions, documented, options_of, with_defaults
from tbq.problem.prior import Prior, check_prior
from tbq.problem.records import run_of
from tbq.problem.settings import Settings, resolve
from tbq.result.result import Result
from tbq.run import journal, waypoints
from tbq.run.beginning import noise_of, start
from tbq.run.contents import Contents, finished_of, proposals_of
from tbq.run.estimates import Estimate
from tbq.run.header import Record, header_of, known_of, settings_of
from tbq.run.options import SessionOptions
from tbq.run.same_run import check_same, is_steered
from tbq.run.standing import Clock, Standing, of_parts
from tbq.run.told import check_failures, checked, learnable, point_out
from tbq.run.warm_start import WarmStart, earlier

Replaying = Callable[[int, int], None]  # is told how many runs of a journal have been taken in again, of how many


class Session:
    """A run whose simulator is in your hands: ``ask`` for points, run them, ``tell`` what came of them.

    Any number of points may be out, and they may be told in any order. The engine learns from what it was told when it
    is next asked for new points, so that a batch told one by one is learned from as one.

    Parameters
    ----------
    prior
        A :class:`tbq.Prior`.
    likelihood
        A :class:`tbq.GaussianLikelihood` where you tell ``outputs``: they are learned. Its model is not run.
    options
        ``seed``, ``journal``, ``warm_start``, ``tolerance`` and the others of :func:`tbq.infer` but those that say how
        runs are made. A session opened again on the journal of another is where that was. Points that were
        out then are the first to be given out again; where a run is still under way, tell it when it is done.

    Examples
    --------
    >>> session = tbq.Session(tbq.Prior({"k": stats.uniform(0.0, 2.0)}), seed=0)
    >>> while not session.done:
    ...     for p in session.ask(4):
    ...         _ = session.tell(p.id, log_likelihood=-50.0 * (p.theta[0] - 1.2) ** 2)
    >>> round(session.result().log_evidence, 1)
    -2.1
    """

    @documented(SessionOptions)
    def __init__(
        self, prior: Prior, *, likelihood: GaussianLikelihood | None = None, **options: Unpack[SessionOptions]
    ) -> None:
        check_prior(prior)
        if likelihood is not None and not isinstance(likelihood, GaussianLikelihood):
            raise ArgumentError(
                f"Session: likelihood must be a tbq.GaussianLikelihood, whose outputs you tell; got {likelihood!r}"
            )
        chosen = with_defaults("Session", SessionOptions, cast(dict[str, Any], options))
        of_engine = {name: chosen[name] for name in options_of(EngineOptions)}
        noise = noise_parameters(likelihood)
        outputs, coarse = likelihood is not None, likelihood is not None and likelihood.has_coarse
        settings = resolve(prior.simulated.dim, outputs=outputs, noise=noise, coarse=coarse, **of_engine)
        seed, folder, known = checked_seed(chosen["seed"], chosen["rng"]), chosen["journal"], chosen["warm_start"]
        self._begin(prior, settings, seed, folder, known, likelihood, chosen["retry_failed"])

    @classmethod
    def of(
        cls,
        prior: Prior,
        settings: Settings,
        *,
        seed: int | None = None,
        journal: str | Path | None = None,
        warm_start: WarmStart | None = None,
        likelihood: Any = None,
        retry_failed: bool = False,
        replaying: Replaying | None = None,
    ) -> Self:
        """A session of settings already made. ``likelihood`` judges the outputs of earlier evaluations anew."""
        session = cls.__new__(cls)
        session._begin(prior, settings, seed, journal, warm_start, likelihood, retry_failed, replaying)
        return session

    @classmethod
    def view(cls, prior: Prior, contents: Contents, likelihood: Any = None) -> Self:
        """The state that a journal tells of, without being its writer; ``replay`` takes in what it tells later."""
        header, settings = contents.header, settings_of(contents.header["settings"])
        session = cls.of(prior, settings, seed=header["seed"], likelihood=likelihood)
        session.state = start(prior, settings, header["seed"], known_of(header), likelihood)
        session.replay(contents.records)
        return session

    def _begin(
        self,
        prior: Prior,
        settings: Settings,
        seed: int | None,
        folder: str | Path | None,
        warm_start: WarmStart | None,
        likelihood: Any = None,
        retry_failed: bool = False,
        replaying: Replaying | None = None,
    ) -> None:
        from tbq.common.version import __version__ as version

        seed = checked_seed(seed)
        noise = noise_of(prior, settings, likelihood)
        self._lock = threading.RLock()
        self._journal = None if folder is None else journal.Journal(folder)
        self._again: list[Proposal] = []  # out when the run was interrupted, and not given out since
        self._untold: list[Evaluation] = []  # recorded, and not yet learned from
        self._clock = Clock(time.time())
        self._found: tuple[float, float] | None = None  # that the journal has
        self._estimate: Estimate | None = None
        self._seconds = 0.0  # spent on choosing and learning, in this process and before
        contents = self._journal.contents if self._journal else None
        try:
            if self._journal and contents:
                check_same(contents, prior, settings, seed, version, self._journal.path, noise, likelihood)
                begun = settings.with_limits_of(settings_of(contents.header["settings"]))
                self.state = start(prior, begun, contents.header["seed"], known_of(contents.header), likelihood)
                self._clock, self._found = Clock.of(contents).paused(), contents.found
                self._estimate = contents.estimate
                self.replay(contents.records, replaying)
                if is_steered(contents, settings):
                    self._steer(settings)
                if retry_failed:
                    self.forget([e.id for e in self.evaluations if e.status.is_failure and e.origin != "earlier"])
            else:
                seed = fresh_seed() if seed is None else seed
                known = [] if warm_start is None else earlier(warm_start, prior, likelihood, retry_failed)
                if self._journal:
                    self._journal.append(header_of(prior, settings, seed, version, known, noise))
                self.state = start(prior, settings, seed, known, likelihood)
        except BaseException:
            self.close()
            raise

    # --- the run --------------------------------------------------------------------------------------------

    def ask(self, n: int = 1, *, again: bool = True) -> list[Proposal]:
        """Up to ``n`` points to run next: none when the run is done, or waits for points that are out.

        Those that were out when the journal was opened come first, unless their runs go on elsewhere (``again=False``).
        """
        n = whole("Session.ask: n", n)
        with self._lock:
            if self._again and again:
                self._reserve(len(self.pending))
                given, self._again = self._again[:n], self._again[n:]
                return given
            self._learn()
            with self._working():
                state, proposals = engine.ask(self.state, n)
            if proposals:
                self._reserve(len(self.pending) + len(proposals))
                record = journal.ask_record(proposals, self.state.history, self._seconds)
                self._append({**record, **waypoints.record_of(self.state.waypoint)})
                self.state = state
            return proposals

    def tell(
        self,
        proposal_id: int,
        *,
        log_likelihood: Any,
        log_likelihood_sd: float | None = None,
        outputs: ArrayLike | None = None,
        seconds: float = 0.0,
    ) -> Evaluation:
        """What a run returned: one number, −inf where the likelihood is zero; nan and +inf count as failures.

        ``log_likelihood_sd`` is its noise, in nats. Where outputs are learned, a run needs all to have a likelihood.
        """
        told = checked(log_likelihood, log_likelihood_sd, outputs, seconds)
        with self._lock:
            evaluation = judge(self._pending("tell", proposal_id), *told)
            learned = self.state.likelihood if self.state.settings.surrogate == "outputs" else None
            return self._record(evaluation if learned is None else learnable(evaluation, len(learned.observed)))

    def fail(self, proposal_id: int, message: str = "") -> Evaluation:
        """A run that gave nothing, and why."""
        with self._lock:
            return self._record(failure(self._pending("fail", proposal_id), str(message)))

    def forget(self, ids: Sequence[int]) -> None:
        """Take failures that had nothing to do with theta as not told: their points are given out again."""
        with self._lock:
            check_failures(ids, self.evaluations)
            if ids:
                self._append(journal.drop_record(ids))
                self._forget(ids)

    @property
    def pending(self) -> tuple[Proposal, ...]:
        """Points that were asked for and have not been told."""
        told = {e.id for e in self._untold}
        return tuple(p for p in self.state.pending if p.id not in told)

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Every run that was told, of either level where there is a coarse model."""
        return (*self.state.evaluations, *self.state.coarse, *self._untold)

    @property
    def done(self) -> bool:
        """Whether the run has ended. While points are out this is as the engine saw it when it was last asked."""
        with self._lock:
            if not self.pending:
                self._learn()
            return self.state.stop is not None

    def result(self) -> Result:
        """What is known now: complete when ``done``, and honest about it before. Changes nothing."""
        with self._lock, single_threaded():
            state = engine.tell(self.state, self._untold) if self._untold else self.state
            return Result.of(engine.conclude(state), state.likelihood, self._seconds, state.settings)

    def close(self) -> None:
        """Let another session open the journal. Needed only where this one goes on living."""
        if self._journal is not None:
            self._journal.close()

    def __repr__(self) -> str:
        where = "" if self.folder is None else f" in {self.folder}"
        return f"<Session{where}: {len(self.evaluations)} runs told, {len(self.pending)} out>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- within ---------------------------------------------------------------------------------------------

    def record(self, evaluations: Sequence[Evaluation]) -> None:
        """Take in runs already judged; they are on the disk when this returns."""
        with self._lock:
            out = {p.id for p in self.pending}
            for stranger in (e.id for e in evaluations if e.id not in out):
                self._pending("tell", stranger)  # says what is wrong
            self._append(*(journal.run_record(e) for e in evaluations))
            self._untold.extend(evaluations)
            told = {e.id for e in evaluations}
            self._again = [p for p in self._again if p.id not in told]

    def note_outage(self, message: str, ids: Sequence[int], wait: float | None) -> None:
        """For those who look on; a journal that has no room for it is none the worse."""
        with contextlib.suppress(journal.JournalFullError):
            self._append(journal.outage_record(message, ids, wait))

    def note_begin(self, places: int, batch: int) -> None:
        """For those who look on: runs are made from now on, so many at a time."""
        self._clock = replace(self._clock, since=time.time(), places=places, batch=batch)
        with contextlib.suppress(journal.JournalFullError):
            self._append(journal.begin_record(places, batch))

    def standing(self) -> Standing:
        """How the run stands, for those who look on."""
        state, last = self.state, next(reversed(self.state.history), None)
        known = {"own": self._seconds, "clock": self._clock, "names": state.prior.simulated.names, "stop": state.stop}
        found = {"estimate": self._estimate, "found": None if state.stop is None else self._found}
        return of_parts(state.settings, self.evaluations, self.pending, last, **known, **found)

    def note_estimate(self, estimate: Estimate) -> None:
        """For those who look on: the evidence as it would be stated now."""
        self._estimate = estimate
        with contextlib.suppress(journal.JournalFullError):
            self._append(journal.estimate_record(*estimate))

    def note_found(self, result: Result) -> None:
        """For those who look on: what the run states at its end."""
        found = (result.log_evidence, result.log_evidence_sd)
        if self._found != found and result.surrogate is not None:
            self._found = found
            with contextlib.suppress(journal.JournalFullError):
                self._append(journal.found_record(*found))

    def make_room(self) -> None:
        """Take room in the journal for the next run; raises where there is none."""
        self._reserve(len(self.pending) + 1)

    @property
    def folder(self) -> Path | None:
        """That of the journal."""
        return None if self._journal is None else self._journal.path.parent.resolve()

    def _record(self, evaluation: Evaluation) -> Evaluation:
        self.record([evaluation])
        return evaluation

    def _pending(self, method: str, proposal_id: int) -> Proposal:
        return point_out(method, proposal_id, self.pending, self.evaluations)

    def _learn(self) -> None:
        if self._untold:
            self._append(journal.LEARN)
            self._take_in()
            self._note_end()

    def _note_end(self) -> None:
        if self.state.stop is not None:
            self._append(journal.end_record(self.state.stop, self.state.history, self._seconds))

    def _take_in(self) -> None:
        with self._working():
            self.state = engine.tell(self.state, self._untold)
        self._untold = []

    @contextmanager
    def _working(self) -> Iterator[None]:
        """On one thread, and on our account."""
        start = time.perf_counter()
        with single_threaded():
            yield
        self._seconds += time.perf_counter() - start

    def _forget(self, ids: Collection[int]) -> None:
        learned = {e.id for e in (*self.state.evaluations, *self.state.coarse) if e.id in ids}
        self._untold = [e for e in self._untold if e.id not in ids]
        self.state = engine.forget(self.state, learned) if learned else self.state
        given = {p.id for p in self._again}
        self._again = [p for p in self.pending if p.id in ids or p.id in given]

    def _steer(self, settings: Settings) -> None:
        """Go on with another budget or tolerance."""
        self._append(journal.steer_record(settings))
        self.state = engine.steer(self.state, self._with_known(settings))
        self._note_end()

    def _with_known(self, settings: Settings) -> Settings:
        return settings.with_budget(sum(e.origin == "earlier" for e in self.state.evaluations))

    def _reserve(self, runs: int) -> None:
        if self._journal is not None:
            self._journal.reserve(runs)

    def _append(self, *records: Record) -> None:
        if self._journal is not None:
            self._journal.append(*records)

    def replay(self, records: Sequence[Record], replaying: Replaying | None = None) -> None:
        """Take in records of a journal. Proposals are not chosen again: only learning costs time.

        Outputs were learned anew every few runs: what was learned before the last time is not learned again.
        """
        out, asked = {p.id: p for p in self.pending}, []
        total = len(finished_of(records))
        replaying = replaying or (lambda done, total: None)
        replaying(0, total)
        start, waypoint = waypoints.last(records, self.state.history) or (-1, None)
        for i, record in enumerate(records):
            if i == start and waypoint is not None:
                with self._working():
                    self.state = engine.go_on(self.state, waypoint)
            if record["kind"] == "ask":
                asked += proposals_of(record)
                out.update((p.id, p) for p in asked[-len(record["proposals"]) :])
            elif record["kind"] == "run":
                proposal = out.pop(record["id"], None) or self._pending("replay", record["id"])
                self._untold.append(run_of(record, proposal))
            elif record["kind"] == "learn":
                self.state, asked = engine.remember(self.state, asked), []
                if i < start:
                    self.state, self._untold = engine.collect(self.state, self._untold), []
                else:
                    self._take_in()
                replaying(sum(e.origin != "earlier" for e in self.state.evaluations), total)
            elif record["kind"] == "drop":
                self.state, asked = engine.remember(self.state, asked), []
                self._forget(record["ids"])
                out.update((p.id, p) for p in self.pending)
            elif record["kind"] == "steer":
                self.state, asked = engine.remember(self.state, asked), []
                self.state = engine.steer(self.state, self._with_known(settings_of(record["settings"])))
            if record["kind"] in ("ask", "end"):
                self._seconds = float(record.get("seconds", 0.0))
        self.state = engine.remember(self.state, asked)
        self._again = list(self.pending)
        if records and records[-1]["kind"] in ("learn", "steer"):
            self._note_end()
