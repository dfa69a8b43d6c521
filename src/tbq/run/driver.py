"""Driving a session to its end with the user's log-likelihood on any executor.

``batch_size`` points are kept in flight: as each returns it is recorded, the engine learns from it and proposes the
next, knowing those still out. Without an executor a batch is run here, one by one, and learned from as a whole.

An outage stops this: nothing new is sent out, one run is tried again after a while, and when it is made all go on.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import suppress
from dataclasses import replace

from tbq import engine
from tbq.common.errors import TbqError
from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.failures import Streak, likeness, streak_of
from tbq.run.estimates import Estimates
from tbq.run.journal import JournalFullError
from tbq.run.outage import Kind, Outage, PausedError, control, proposal_of
from tbq.run.sender import Plan, Sender
from tbq.run.session import Session
from tbq.run.standing import Standing
from tbq.simulate import child, processes, worker
from tbq.simulate.pool import Job, answer_of, error_of, groups, judged
from tbq.simulate.worker import Answer

_logger = logging.getLogger("tbq")


def drive(
    session: Session,
    log_likelihood: worker.LogLikelihood,
    plan: Plan,
    report: Callable[[Standing], None] = lambda standing: None,
) -> None:
    """Run a session to its end. Whatever ends it earlier leaves a journal that can be resumed."""
    if session.folder is not None and not session.done:
        processes.wait_for_orphans(session.folder, plan.patience)
    runner = _Runner(session, log_likelihood, plan, report)
    try:
        while not runner.done:
            runner.report()
            runner.step()
        runner.report()
    except KeyboardInterrupt:
        runner.sender.interrupt()
        raise
    finally:
        runner.sender.close(runner.jobs)


class _Runner:
    """The points in flight."""

    def __init__(
        self,
        session: Session,
        log_likelihood: worker.LogLikelihood,
        plan: Plan,
        report: Callable[[Standing], None],
    ) -> None:
        self.session, self.plan, self._report = session, plan, report
        self.sender = Sender(log_likelihood, plan, session.folder)
        self.jobs: dict[Future[Answer], Job] = {}
        self.finished: list[Evaluation] = []  # and not yet in the journal
        self.outage: Outage | None = None
        self.next_try: float | None = None  # seconds since 1970, in an outage
        self.aside: list[Job] = []  # what it stopped
        self.excused: Counter[str] = Counter()  # failures that were theta's: the simulator worked elsewhere meanwhile
        self.estimates = Estimates()
        self.streak = _streak_of(session)
        if not session.done:
            session.note_begin(self.sender.places, max(plan.batch_size, plan.step))
            self._look_at_streak()

    def report(self) -> None:
        """Tell those who look on."""
        standing = self.session.standing()
        if self.outage is not None:
            standing = replace(standing, outage=self.outage.message or "no message", next_try=self.next_try)
        self._report(standing)

    @property
    def done(self) -> bool:
        try:
            return self.outage is None and not self.finished and self.session.done
        except JournalFullError as error:
            self._stop(Outage(Kind.FULL, str(error)))
            return False

    def step(self) -> None:
        """Send out what there are places for and wait for what returns; or, in an outage, wait and try again."""
        try:
            if self.outage is not None:
                self.endure(self.outage)
            else:
                asked = self.fill()
                if asked and (estimate := self.estimates.due(self.session.state)) is not None:
                    self.session.note_estimate(estimate)
                if self.outage is None:
                    self.collect(patient=not asked and not self.session.done)
        except JournalFullError as error:
            self._stop(Outage(Kind.FULL, str(error)))

    def fill(self) -> bool:
        """Send out points for the free places, and all of the initial design; whether there were any."""
        missing = engine.due(self.session.state)
        size = max(self.plan.batch_size, self.plan.step)
        free = 0 if self.plan.vectorized and self.jobs else size - len(self.jobs)
        if missing <= 0 and free < self.plan.step:
            return False
        proposals = self.session.ask(max(missing, free))
        for group in groups(proposals, self.plan.vectorized):
            self._submit(Job(tuple(group)))
            self.collect(patient=False)
        return bool(proposals)

    def collect(self, patient: bool) -> None:
        """Record what has returned, and send out again what is to be tried again; the patient wait for the next."""
        if patient and not self.jobs:
            raise TbqError("runner: nothing is out and nothing is proposed: please report this")
        limit = None if patient else 0
        while done := wait(self.jobs, timeout=limit, return_when=FIRST_COMPLETED).done:
            self._take(done)
            limit = 0

    def _submit(self, job: Job) -> None:
        if self.outage is not None:
            self.aside.append(job)
        else:
            self.report()  # before: without an executor the run is made here
            self.jobs[self.sender.send(job)] = replace(job, executor=self.sender.executor)

    def _take(self, done: set[Future[Answer]]) -> None:
        again = []
        for future in done:
            job = self.jobs.pop(future)
            again += self._judge(job, self._answer(job, future))
        self._flush()
        self.report()
        self._look_at_streak()
        for job in again:
            self._submit(job)

    def _answer(self, job: Job, future: Future[Answer]) -> Answer:
        answer = answer_of(future)
        if isinstance(error_of(future), BrokenExecutor):
            self.sender.broken |= job.executor is self.sender.executor
            if job.apart:  # theta can break a process of its own, but not the executor
                return answer._replace(outage=child.NAMED)
        return answer

    def _judge(self, job: Job, answer: Answer) -> list[Job]:
        """Note what came of a job; returned is what of it is to be tried again."""
        if answer.outage:
            self.aside.append(replace(job, outages=job.outages + 1))
            self._stop(Outage(Kind(answer.outage), answer.error or ""))
            return []
        evaluations = judged(job, answer, self.plan.vectorized)
        if self.outage is not None and self.outage.explains(evaluations):
            self.aside.append(replace(job, outages=job.outages + 1))
            return []
        retried = [e for e in evaluations if job.attempt < self._retries(e.status)]
        finished = [e for e in evaluations if job.attempt >= self._retries(e.status)]
        self.finished += finished
        self.streak = self.streak.after([e for e in finished if e.level == "fine"])  # a coarse model may be of no use
        if not retried:
            return []
        ids = {e.id for e in retried}
        lost = any(e.status is Status.LOST for e in retried)
        # where one worker dies all of a pool do, and who did it shows only in processes of their own
        attempt = job.attempt if lost and not job.apart else job.attempt + 1
        return [Job(tuple(p for p in job.proposals if p.id in ids), attempt, job.apart or lost)]

    def _retries(self, status: Status) -> int:
        """A lost run is always tried again: the simulator may have nothing to do with it."""
        if not status.is_failure:
            return 0
        return max(self.plan.retries, 1) if status is Status.LOST else self.plan.retries

    def _flush(self) -> None:
        """Put what has finished into the journal; where that is full, it stays here until there is room."""
        try:
            self.session.record(self.finished)
            self.finished = []
        except JournalFullError as error:
            self._stop(Outage(Kind.FULL, str(error)))

    # --- outages --------------------------------------------------------------------------------------------

    def _stop(self, found: Outage) -> None:
        self.outage = self.outage or found

    def _look_at_streak(self) -> None:
        """Too many failures that are alike are an outage; twice as many, where so many were none."""
        runs = self.streak.runs
        if runs and self.streak.is_longer(self.plan.outage_after, 2 ** self.excused[likeness(runs[-1])]):
            self._stop(Outage(Kind.ALIKE, runs[-1].message, runs))

    def endure(self, found: Outage) -> None:
        """Wait, and see whether runs can be made again; raises when that has lasted too long."""
        pause = found.wait
        hopeless = found.kind is Kind.ALIKE and not self.streak.succeeded  # nothing ever worked: somebody has to look
        if hopeless or found.waited + pause > self.plan.patience:
            return self.collect(patient=True) if self.jobs else self._give_up(found)
        self._say(found, pause)
        self.report()
        self._rest(pause)
        if not self._works_again(found):
            self.outage = (self.outage or found).after(pause)
            return None
        self.outage = None
        _logger.warning("runs can be made again, and go on")
        aside, self.aside = self.aside, []
        for job in aside:
            self._submit(job)
            self.collect(patient=False)
        return None

    def _rest(self, seconds: float) -> None:
        """What is still out may return meanwhile."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.jobs:
                self._take(wait(self.jobs, timeout=left, return_when=FIRST_COMPLETED).done)
            else:
                time.sleep(left)

    def _works_again(self, found: Outage) -> bool:
        """Whether one of the runs that were stopped can be made now, or fails by itself while others can."""
        if found.kind is Kind.FULL:
            return self._has_room()
        elsewhere = self._works_elsewhere(found)  # first: an outage may end at any moment
        if found.kind is not Kind.ALIKE:
            job = self.aside.pop(0)
            answer = self._try(job)
            if answer.outage and not elsewhere:
                self.aside.append(replace(job, outages=job.outages + 1))
                return False
            self.aside += self._judge(job, answer._replace(outage=""))
            self._flush()
            return True
        if not elsewhere:
            self._drop(found)
            return False
        job = Job((proposal_of(found.runs[-1]),), outages=found.tries)
        evaluations = judged(job, self._try(job)._replace(outage=""), self.plan.vectorized)
        if not evaluations[0].status.is_failure:
            self._drop(found)
            self.finished += evaluations
            self._flush()
        elif not found.dropped:
            self.excused[likeness(found.runs[-1])] += 1
        return True

    def _works_elsewhere(self, found: Outage) -> bool:
        """Whether the simulator works at a theta where it did; asked only where it may be theta that fails."""
        point = control(_fine(self.session))
        if point is None or not found.is_doubted:
            return False
        job = Job((point,), outages=found.tries + 1)
        answer = self._try(job)
        return not answer.outage and not judged(job, answer, self.plan.vectorized)[0].status.is_failure

    def _try(self, job: Job) -> Answer:
        """Make one run and wait for it; what else returns meanwhile is recorded."""
        job = replace(job, executor=self.sender.executor)
        future = self.sender.send(job)
        while not future.done():
            self._take(wait({future, *self.jobs}, return_when=FIRST_COMPLETED).done - {future})
        return self._answer(job, future)

    def _has_room(self) -> bool:
        try:
            self.session.record(self.finished)
            self.finished = []
            self.session.make_room()
        except JournalFullError:
            return False
        return True

    def _drop(self, found: Outage) -> None:
        """Its failures said nothing of theta."""
        if not found.dropped:
            same = [e for e in self.streak.runs if likeness(e) == likeness(found.runs[-1])]  # others came in since
            self.session.forget(sorted({e.id for e in (*found.runs, *same)}))
            self.outage, self.streak = replace(found, dropped=True), Streak((), self.streak.succeeded)

    def _say(self, found: Outage, pause: float | None) -> None:
        ids = [e.id for e in found.runs] + [p.id for job in self.aside for p in job.proposals]
        _logger.warning(found.sentence(pause))
        self.next_try = None if pause is None else time.time() + pause
        self.session.note_outage(found.message, ids, pause)

    def _give_up(self, found: Outage) -> None:
        with suppress(JournalFullError):
            if found.kind is Kind.ALIKE:
                self._drop(found)
        self._say(found, None)
        raise PausedError(found.message)


def _streak_of(session: Session) -> Streak:
    own = [e for e in _fine(session) if e.origin != "earlier"]
    return replace(streak_of(own), succeeded=control(_fine(session)) is not None)


def _fine(session: Session) -> list[Evaluation]:
    return [e for e in session.evaluations if e.level == "fine"]
