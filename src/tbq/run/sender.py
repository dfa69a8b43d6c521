"""Sending runs to an executor: it is made anew when it breaks, and ended with all that it started."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path

from tbq.common.arguments import positive, whole
from tbq.common.errors import ArgumentError, TbqError
from tbq.common.words import described
from tbq.problem.likelihood import GaussianLikelihood
from tbq.run import outage
from tbq.simulate import child, processes, worker
from tbq.simulate.pool import ExecutorLike, Job, check_executor, made
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
    outage_after: tuple[float, float] = (5, 8)  # failures in a row that are alike, before any success and later
    patience: float = 3600.0  # seconds that an outage is waited for

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", whole("batch_size", self.batch_size))
        object.__setattr__(self, "retries", whole("retries", self.retries, 0))
        if self.timeout is not None:
            object.__setattr__(self, "timeout", positive("timeout", self.timeout, " of seconds, or None"))
        object.__setattr__(self, "outage_after", outage.check_limits(self.outage_after))
        object.__setattr__(self, "patience", outage.check_patience(self.patience))
        check_executor(self.executor)


class Sender:
    """The executor that runs are made on."""

    def __init__(self, log_likelihood: worker.LogLikelihood, plan: Plan, folder: Path | None) -> None:
        self.plan, self.folder, self.tasks = plan, folder, {"fine": Portable(log_likelihood)}
        if isinstance(log_likelihood, GaussianLikelihood) and log_likelihood.has_coarse:
            self.tasks["coarse"] = Portable(log_likelihood.at("coarse"))
        if plan.timeout is not None:
            _ = [task.payload for task in self.tasks.values()]  # say at once that it cannot be sent
        self.driver = processes.driver(uuid.uuid4().hex, folder)
        self.make: Callable[[], Executor] | None = None if isinstance(plan.executor, Executor) else plan.executor
        self.executor = plan.executor if isinstance(plan.executor, Executor) else made(self.make)
        self.broken = False
        self.workers: set[int] = set()  # processes of the pool

    @property
    def places(self) -> int:
        """Runs at a time: the workers of a pool that says how many it has, else the points that are kept in flight."""
        if self.plan.executor is None:
            return 1
        return int(getattr(self.executor, "_max_workers", 0)) or self.plan.batch_size

    def send(self, job: Job) -> Future[Answer]:
        """Send one job out; where nobody takes it, its answer says so."""
        try:
            if not self.broken:
                return self._submit(job)
        except ArgumentError:
            raise
        except Exception:  # broken, or shut down by somebody
            self.broken = True
        try:
            self._mend()
            return self._submit(job)
        except (ArgumentError, BrokenExecutorError):
            raise
        except Exception as error:
            future: Future[Answer] = Future()
            future.set_result(Answer(error=f"the executor takes no work: {described(error)}", outage=child.NAMED))
            return future

    def close(self, out: Iterable[Future[Answer]]) -> None:
        """Take back what has not begun, and end what runs in programs and processes started for it."""
        futures = [future for future in out if not future.cancel() and not future.done()]
        processes.end_programs(self.driver.run)
        if self.make is not None:
            self.executor.shutdown(wait=False)
            if futures or self.broken:
                processes.end_workers(self.workers, self.driver)

    def interrupt(self) -> None:
        """What Ctrl-C in a terminal says to the workers of a pool that is not ours to end."""
        if self.make is None:
            processes.interrupt_workers(self.workers)

    def _submit(self, job: Job) -> Future[Answer]:
        plan, theta = self.plan, job.theta(self.plan.vectorized)
        if self.folder is not None:
            processes.hold(self.folder)
        try:
            with processes.marking(self.driver):
                ticket = job.ticket(self.driver)
                future: Future[Answer] = self.executor.submit(
                    worker.call, self.tasks[job.level], theta, plan.timeout, job.apart, ticket
                )
        except BaseException:
            self._release()
            raise
        future.add_done_callback(self._release)
        self.workers |= processes.workers(self.executor, self.workers)
        return future

    def _release(self, future: Future[Answer] | None = None) -> None:
        if self.folder is not None:
            processes.release(self.folder)

    def _mend(self) -> None:
        if self.make is None:
            raise BrokenExecutorError("executor: it broke, and there is no function to make another")
        self.executor.shutdown(wait=False)
        processes.end_workers(self.workers, self.driver)  # none of its runs may go on beside itself
        self.workers = set()
        self.executor = made(self.make)
        self.broken = False
