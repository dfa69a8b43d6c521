"""Run the user's log-likelihood on proposals, on any executor. Whatever happens there becomes an evaluation.

``batch_size`` points are kept in flight: as each returns it is recorded, the engine learns from it and proposes the
next, knowing those still out. Without an executor a batch is run here, one by one, and learned from as a whole.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tbq import worker
from tbq.arguments import positive, whole
from tbq.engine import State
from tbq.errors import ArgumentError, TbqError
from tbq.evaluation import Evaluation, Proposal, Status, failure, judge
from tbq.session import Session
from tbq.types import Array
from tbq.worker import Answer, Portable

ExecutorLike = Executor | Callable[[], Executor]


class BrokenExecutorError(TbqError):
    """The executor takes no more work, and there is no function to make another."""


def evaluate(
    log_likelihood: worker.LogLikelihood,
    proposals: Sequence[Proposal],
    executor: ExecutorLike | None = None,
    vectorized: bool = False,
) -> list[Evaluation]:
    """Evaluate all proposals once and return when all are done, in their order."""
    jobs = [_Job(tuple(group)) for group in _groups(proposals, vectorized)]
    found = answers(log_likelihood, [job.theta(vectorized) for job in jobs], executor)
    return [e for job, answer in zip(jobs, found, strict=True) for e in _judged(job, answer, vectorized)]


def answers(
    function: Callable[[Array], Any], points: Sequence[Array], executor: ExecutorLike | None = None
) -> list[Answer]:
    """What a function says of points, in their order; what it raised is an answer too."""
    task, run = Portable(function), uuid.uuid4().hex
    with opened(executor) as pool:
        submit = pool.submit
        futures = [submit(worker.call, task, theta, None, False, (run, i, 0)) for i, theta in enumerate(points)]
        return [_answer(future) for future in futures]


@contextmanager
def opened(executor: ExecutorLike | None) -> Iterator[Executor]:
    """The executor to use: the one given, or one made here, which is shut down at the end."""
    check_executor(executor)
    if isinstance(executor, Executor):
        yield executor
    else:
        with _made(executor) as pool:
            yield pool


def check_executor(executor: Any) -> None:
    """Refuse what is neither an executor nor a function that may make one."""
    if not (executor is None or isinstance(executor, Executor) or callable(executor)):
        raise ArgumentError(
            "executor must be a concurrent.futures.Executor, or a function that makes one; "
            f"got {type(executor).__name__}"
        )


def _made(make: Callable[[], Executor] | None) -> Executor:
    """A new executor; without a function that makes one, this thread."""
    made: Any = _Here() if make is None else make()
    if not isinstance(made, Executor):
        raise ArgumentError(f"executor must return a concurrent.futures.Executor; got {type(made).__name__}")
    return made


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
        self.executor = plan.executor if isinstance(plan.executor, Executor) else _made(self.make)
        self.jobs: dict[Future[Answer], _Job] = {}

    def fill(self) -> bool:
        """Send out points for the free places, and all of the initial design; whether there were any."""
        missing = self.session.state.settings.n_initial - self.session.state.next_id
        size = max(self.plan.batch_size, self.plan.step)
        free = 0 if self.plan.vectorized and self.jobs else size - len(self.jobs)
        if missing <= 0 and free < self.plan.step:
            return False
        proposals = self.session.ask(max(missing, free))
        for group in _groups(proposals, self.plan.vectorized):
            self._submit(_Job(tuple(group)))
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

    def _record(self, done: set[Future[Answer]]) -> list[_Job]:
        finished, again, broken = [], [], False
        for future in done:
            job = self.jobs.pop(future)
            evaluations = _judged(job, _answer(future), self.plan.vectorized)
            broken |= isinstance(_error(future), BrokenExecutor) and job.executor is self.executor
            retried = [e for e in evaluations if job.attempt < self._retries(e.status)]
            finished += [e for e in evaluations if job.attempt >= self._retries(e.status)]
            if retried:
                ids = {e.id for e in retried}
                lost = any(e.status is Status.LOST for e in retried)
                # where one worker dies all of a pool do, and who did it shows only in processes of their own
                attempt = job.attempt if lost and not job.apart else job.attempt + 1
                again.append(_Job(tuple(p for p in job.proposals if p.id in ids), attempt, job.apart or lost))
        self.session.record(finished)
        if broken:
            self._rebuild()
        return again

    def _retries(self, status: Status) -> int:
        """A lost run is always tried again: the simulator may have nothing to do with it."""
        if not status.is_failure:
            return 0
        return max(self.plan.retries, 1) if status is Status.LOST else self.plan.retries

    def _submit(self, job: _Job) -> None:
        try:
            future = self._send(job)
        except ArgumentError:
            raise
        except Exception:  # broken, or shut down by somebody
            self._rebuild()
            future = self._send(job)
        self.jobs[future] = replace(job, executor=self.executor)

    def _send(self, job: _Job) -> Future[Answer]:
        theta, plan = job.theta(self.plan.vectorized), self.plan
        return self.executor.submit(worker.call, self.task, theta, plan.timeout, job.apart, job.ticket(self.run))

    def _rebuild(self) -> None:
        if self.make is None:
            raise BrokenExecutorError("executor: it broke, and there is no function to make another")
        self.executor.shutdown(wait=False)
        self.executor = _made(self.make)


@dataclass(frozen=True)
class _Job:
    """Points that are run by one call: one, or all of them where the log-likelihood is vectorised."""

    proposals: tuple[Proposal, ...]
    attempt: int = 0
    apart: bool = False  # in a process of its own
    executor: Executor | None = None  # where it went

    def theta(self, vectorized: bool) -> Array:
        return np.array([p.theta for p in self.proposals]) if vectorized else self.proposals[0].theta.copy()

    def ticket(self, run: str) -> tuple[str, int, int]:
        return run, self.proposals[0].id, self.attempt


def _groups(proposals: Sequence[Proposal], vectorized: bool) -> list[Sequence[Proposal]]:
    if vectorized:
        return [proposals] if proposals else []
    return [[p] for p in proposals]


class _Here(Executor):
    """Runs what it is given at once, in this thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def _error(future: Future[Answer]) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as error:
        return error


def _answer(future: Future[Answer]) -> Answer:
    """What the worker said. It catches what the log-likelihood raises: an error here is of the worker or the way."""
    error = _error(future)
    if error is None:
        return future.result()
    if isinstance(error, ArgumentError):  # the log-likelihood cannot be sent
        raise error
    return Answer(error=f"{type(error).__name__}: {error}", status=Status.LOST)


def _judged(job: _Job, answer: Answer, vectorized: bool) -> list[Evaluation]:
    n = len(job.proposals)
    values, error, seconds = answer.value, answer.error, answer.seconds / n
    rows = [None] * n if answer.outputs is None else answer.outputs
    if not vectorized:
        values, rows = [values], [answer.outputs]
    elif error is None and np.shape(values) != (n,):
        error = f"the vectorized log-likelihood returned shape {np.shape(values)}, not ({n},)"
    elif error is None and len(rows) != n:
        error = f"the vectorized log-likelihood returned outputs of {len(rows)} points, not {n}"
    if error is not None:
        return [failure(p, error, seconds, answer.status) for p in job.proposals]
    return [_with_outputs(p, v, r, seconds) for p, v, r in zip(job.proposals, values, rows, strict=True)]


def _with_outputs(proposal: Proposal, value: Any, outputs: Any, seconds: float) -> Evaluation:
    if outputs is None:
        return judge(proposal, value, seconds)
    try:
        array = np.asarray(outputs, dtype=float)
    except (TypeError, ValueError):
        return failure(proposal, f"the outputs are {type(outputs).__name__}, not numbers", seconds)
    if array.ndim != 1:
        return failure(proposal, f"the outputs have shape {array.shape}, not one dimension", seconds)
    return judge(proposal, value, seconds, array)
