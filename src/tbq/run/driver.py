"""Driving a session to its end with the user's log-likelihood on any executor.

``batch_size`` points are kept in flight: as each returns it is recorded, the engine learns from it and proposes the
next, knowing those still out. Without an executor a batch is run here, one by one, and learned from as a whole.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, replace

from tbq.common.arguments import positive, whole
from tbq.common.errors import ArgumentError, TbqError
from tbq.engine import State
from tbq.problem.evaluation import Status
from tbq.run.session import Session
from tbq.simulate import worker
from tbq.simulate.pool import ExecutorLike, Job, answer_of, check_executor, error_of, groups, judged, made
from tbq.simulate.worker import Answer, Portable


class BrokenExecutorError(TbqError):
    """The executor takes no more work, and there is no function to make another."""


@dataclass(frozen=True)
class Plan:
    """How a log-likelihood is to be run."""

    batch_size: int = 1  # points in flight
    step: int = 1  # free places that are worth asking for
    executor: ExecutorLike | None = None
    vectorized: bool = False
    timeout: float | None = None
    retries: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", whole("batch_size", self.batch_size))
        object.__setattr__(self, "retries", whole("retries", self.retries, 0))
        if self.timeout is not None:
            object.__setattr__(self, "timeout", positive("timeout", self.timeout, " of seconds, or None"))
        check_executor(self.executor)


def drive(
    session: Session,
    log_likelihood: worker.LogLikelihood,
    plan: Plan,
    report: Callable[[State], None] = lambda state: None,
) -> None:
    """Run a session to its end. Whatever ends it earlier leaves a journal that can be resumed."""
    runner = _Runner(session, log_likelihood, plan)
    try:
        while not session.done:
            report(session.state)
            asked = runner.fill()
            runner.collect(patient=not asked and not session.done)
        report(session.state)
    finally:
        runner.close()


class _Runner:
    """The points in flight."""

    def __init__(self, session: Session, log_likelihood: worker.LogLikelihood, plan: Plan) -> None:
        self.session, self.plan = session, plan
        self.task, self.run = Portable(log_likelihood), uuid.uuid4().hex
        if plan.timeout is not None:
            _ = self.task.payload  # say at once that it cannot be sent
        self.make = None if isinstance(plan.executor, Executor) else plan.executor
        self.executor = plan.executor if isinstance(plan.executor, Executor) else made(self.make)
        self.jobs: dict[Future[Answer], Job] = {}

    def fill(self) -> bool:
        """Send out points for the free places, and all of the initial design; whether there were any."""
        missing = self.session.state.settings.n_initial - self.session.state.next_id
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
            again = self._record(done)
            for job in again:
                self._submit(job)
            limit = 0

    def close(self) -> None:
        """Take back what has not begun; what runs in processes of its own here is ended."""
        for future in self.jobs:
            future.cancel()
        worker.end_all(self.run)
        if self.make is not None:
            self.executor.shutdown(wait=False)

    def _record(self, done: set[Future[Answer]]) -> list[Job]:
        finished, again, broken = [], [], False
        for future in done:
            job = self.jobs.pop(future)
            evaluations = judged(job, answer_of(future), self.plan.vectorized)
            broken |= isinstance(error_of(future), BrokenExecutor) and job.executor is self.executor
            retried = [e for e in evaluations if job.attempt < self._retries(e.status)]
            finished += [e for e in evaluations if job.attempt >= self._retries(e.status)]
            if retried:
                ids = {e.id for e in retried}
                lost = any(e.status is Status.LOST for e in retried)
                # where one worker dies all of a pool do, and who did it shows only in processes of their own
                attempt = job.attempt if lost and not job.apart else job.attempt + 1
                again.append(Job(tuple(p for p in job.proposals if p.id in ids), attempt, job.apart or lost))
        self.session.record(finished)
        if broken:
            self._rebuild()
        return again

    def _retries(self, status: Status) -> int:
        """A lost run is always tried again: the simulator may have nothing to do with it."""
        if not status.is_failure:
            return 0
        return max(self.plan.retries, 1) if status is Status.LOST else self.plan.retries

    def _submit(self, job: Job) -> None:
        try:
            future = self._send(job)
        except ArgumentError:
            raise
        except Exception:  # broken, or shut down by somebody
            self._rebuild()
            future = self._send(job)
        self.jobs[future] = replace(job, executor=self.executor)

    def _send(self, job: Job) -> Future[Answer]:
        theta, plan = job.theta(self.plan.vectorized), self.plan
        return self.executor.submit(worker.call, self.task, theta, plan.timeout, job.apart, job.ticket(self.run))

    def _rebuild(self) -> None:
        if self.make is None:
            raise BrokenExecutorError("executor: it broke, and there is no function to make another")
        self.executor.shutdown(wait=False)
        self.executor = made(self.make)
