"""Making runs: the user's log-likelihood at given points, on any executor. Whatever happens there is an evaluation."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tbq.common.arguments import floats
from tbq.common.errors import ArgumentError
from tbq.common.types import Array
from tbq.common.words import described
from tbq.problem.evaluation import Evaluation, Level, Proposal, Status, failure, judge
from tbq.simulate import processes, worker
from tbq.simulate.processes import Driver
from tbq.simulate.worker import Answer, Portable

ExecutorLike = Executor | Callable[[], Executor]


def evaluate(
    log_likelihood: worker.LogLikelihood,
    proposals: Sequence[Proposal],
    executor: ExecutorLike | None = None,
    vectorized: bool = False,
) -> list[Evaluation]:
    """Evaluate all proposals once and return when all are done, in their order."""
    jobs = [Job(tuple(group)) for group in groups(proposals, vectorized)]
    found = answers(log_likelihood, [job.theta(vectorized) for job in jobs], executor)
    return [e for job, answer in zip(jobs, found, strict=True) for e in judged(job, answer, vectorized)]


def answers(
    function: Callable[[Array], Any], points: Sequence[Array], executor: ExecutorLike | None = None
) -> list[Answer]:
    """What a function says of points, in their order; what it raised is an answer too."""
    task, run = Portable(function), uuid.uuid4().hex
    of = processes.driver(run)
    with opened(executor) as pool, processes.marking(of):
        tickets = [worker.Ticket(run, i, driver=of) for i in range(len(points))]
        calls = zip(points, tickets, strict=True)
        futures = [pool.submit(worker.call, task, theta, None, False, ticket) for theta, ticket in calls]
        return [answer_of(future) for future in futures]


@contextmanager
def opened(executor: ExecutorLike | None) -> Iterator[Executor]:
    """The executor to use: the one given, or one made here, which is shut down at the end."""
    check_executor(executor)
    if isinstance(executor, Executor):
        yield executor
    else:
        with made(executor) as pool:
            yield pool


def check_executor(executor: Any) -> None:
    """Refuse what is neither an executor nor a function that may make one."""
    if not (executor is None or isinstance(executor, Executor) or callable(executor)):
        raise ArgumentError(
            "executor must be a concurrent.futures.Executor, or a function that makes one; "
            f"got {type(executor).__name__}"
        )


def made(make: Callable[[], Executor] | None) -> Executor:
    """A new executor; without a function that makes one, this thread."""
    made: Any = _Here() if make is None else make()
    if not isinstance(made, Executor):
        raise ArgumentError(f"executor must return a concurrent.futures.Executor; got {type(made).__name__}")
    return made


@dataclass(frozen=True)
class Job:
    """Points that are run by one call: one, or all of them where the log-likelihood is vectorised."""

    proposals: tuple[Proposal, ...]
    attempt: int = 0
    apart: bool = False  # in a process of its own
    executor: Executor | None = None  # where it went
    outages: int = 0  # that stopped it

    @property
    def level(self) -> Level:
        """Of its points, which all have the same."""
        return self.proposals[0].level

    def theta(self, vectorized: bool) -> Array:
        return np.array([p.theta for p in self.proposals]) if vectorized else self.proposals[0].theta.copy()

    def ticket(self, of: Driver) -> worker.Ticket:
        return worker.Ticket(of.run, self.proposals[0].id, self.attempt, self.outages, of)


def groups(proposals: Sequence[Proposal], vectorized: bool) -> list[Sequence[Proposal]]:
    if vectorized:
        return [list(group) for _, group in itertools.groupby(proposals, key=lambda p: p.level)]
    return [[p] for p in proposals]


class _Here(Executor):
    """Runs what it is given at once, in this thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def error_of(future: Future[Answer]) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as error:
        return error


def answer_of(future: Future[Answer]) -> Answer:
    """What the worker said. It catches what the log-likelihood raises: an error here is of the worker or the way."""
    error = error_of(future)
    if error is None:
        return future.result()
    if isinstance(error, ArgumentError):  # the log-likelihood cannot be sent
        raise error
    return Answer(error=described(error), status=Status.LOST)


def judged(job: Job, answer: Answer, vectorized: bool) -> list[Evaluation]:
    n = len(job.proposals)
    values, error, seconds = answer.value, answer.error, answer.seconds / n
    rows = [None] * n if answer.outputs is None else answer.outputs
    if not vectorized:
        values, rows = [values], [answer.outputs]
    elif error is None and _are_pairs(values, n):
        values = list(zip(*values, strict=True))
    elif error is None and (shape := _shape(values)) != (n,):
        error = f"the vectorized log-likelihood returned shape {shape}, not ({n},)"
    elif error is None and len(rows) != n:
        error = f"the vectorized log-likelihood returned outputs of {len(rows)} points, not {n}"
    if error is not None:
        return [failure(p, error, seconds, answer.status) for p in job.proposals]
    return [_with_outputs(p, v, r, seconds) for p, v, r in zip(job.proposals, values, rows, strict=True)]


def _are_pairs(values: Any, n: int) -> bool:
    """Whether these are log-likelihoods and the standard deviations of their noise: a tuple of two arrays."""
    return isinstance(values, tuple) and len(values) == 2 and all(_shape(v) == (n,) for v in values)


def _shape(values: Any) -> tuple[int, ...] | None:
    """None where rows have different lengths."""
    try:
        return np.shape(values)
    except ValueError:
        return None


def _with_outputs(proposal: Proposal, value: Any, outputs: Any, seconds: float) -> Evaluation:
    if outputs is None:
        return judge(proposal, value, seconds)
    try:
        array = floats(outputs)
    except Exception:
        return failure(proposal, f"the outputs are {type(outputs).__name__}, not numbers", seconds)
    if array.ndim != 1:
        return failure(proposal, f"the outputs have shape {array.shape}, not one dimension", seconds)
    return judge(proposal, value, seconds, array)
