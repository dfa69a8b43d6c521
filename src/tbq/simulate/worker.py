"""What runs on a worker: the log-likelihood at one point, there or in a process of its own.

A run that must end in time, and one whose worker died before, gets a process of its own. Nothing else can end a hung
run on every executor: a future that runs cannot be cancelled and a thread cannot be killed. The clock starts in the
worker, when the log-likelihood is loaded; waiting in a queue does not count.
"""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tbq.common.arguments import floats
from tbq.common.errors import ArgumentError
from tbq.common.types import Array
from tbq.common.words import described
from tbq.problem.evaluation import Status
from tbq.simulate import child, processes, run_number
from tbq.simulate.processes import Driver

LogLikelihood = Callable[[Array], Any]

_LOADING = 120.0  # seconds that a process may take to start and load the log-likelihood
_PLAIN = (type(None), bool, int, float, str, list, tuple, dict, np.ndarray, np.generic)


class Answer(NamedTuple):
    """What came of a call; ``status`` is that of an error."""

    value: Any = None
    outputs: Any = None
    error: str | None = None
    seconds: float = 0.0
    status: Status = Status.FAILED
    outage: str = ""  # an error that has nothing to do with theta: child.NAMED or child.SEEN


class Ticket(NamedTuple):
    """Tells calls apart: some clusters make equal calls only once."""

    run: str
    id: int
    attempt: int = 0
    outages: int = 0
    driver: Driver | None = None


class Portable:
    """A log-likelihood that any executor can send: as it is within a process, pickled (closures too) to another."""

    def __init__(self, log_likelihood: LogLikelihood) -> None:
        self._log_likelihood: LogLikelihood | None = log_likelihood
        self._payload: bytes | None = None

    @property
    def payload(self) -> bytes:
        if self._payload is None:
            self._payload = _dumps(self._log_likelihood)
        return self._payload

    def get(self) -> LogLikelihood:
        return _loads(self.payload) if self._log_likelihood is None else self._log_likelihood

    def __getstate__(self) -> bytes:
        return self.payload

    def __setstate__(self, payload: bytes) -> None:
        self._log_likelihood, self._payload = None, payload


def call(log_likelihood: Portable, theta: Array, timeout: float | None, apart: bool, ticket: Ticket) -> Answer:
    """One call; what it starts ends with us."""
    with processes.marking(ticket.driver):
        if apart or timeout is not None:
            return _call_apart(log_likelihood.payload, theta, timeout, ticket.id)
        try:
            function = log_likelihood.get()
        except Exception as error:
            return Answer(error=f"log_likelihood cannot be loaded: {described(error)}")
        outer = run_number.current.set(ticket.id)
        try:
            return _answer(child.attempt(function, theta))
        finally:
            run_number.current.reset(outer)


def _answer(attempt: child.Attempt) -> Answer:
    """In numbers and words, where they are to be had: another process may not be able to read anything else."""
    value, outputs, error, seconds, status, outage = attempt
    try:
        value, outputs = (v if isinstance(v, _PLAIN) else floats(v) for v in (value, outputs))
    except Exception:
        kind = type(value if outputs is None else outputs).__name__
        value, outputs, error = None, None, f"the log-likelihood returned {kind}, not a number"
    return Answer(value, outputs, error, seconds, Status(status), outage)


def _call_apart(payload: bytes, theta: Array, timeout: float | None, number: int) -> Answer:
    start, answered = time.perf_counter(), False
    pipe = subprocess.PIPE
    process = processes.Program([sys.executable, "-P", child.__file__], stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    clock = _Clock(process)
    try:
        with contextlib.suppress(OSError), process.stdin as stdin:  # it may have died
            stdin.write(pickle.dumps(sys.path) + pickle.dumps((payload, theta, number)))
        clock.set(timeout and timeout + _LOADING)
        data = process.stdout.read(1)
        if data == child.READY:
            clock.set(timeout)
            start, data = time.perf_counter(), b""
        data += process.stdout.read()
        answered = bool(data)
    finally:
        clock.set(None)
        process.finish() if answered else process.end()
        process.stdout.close()
    seconds = time.perf_counter() - start
    try:
        return _answer(pickle.loads(data))
    except Exception as error:  # no answer, half of one, or one that only its own process can read
        if data.endswith(pickle.STOP):
            return Answer(error=f"what the log-likelihood returned cannot be read: {described(error)}", seconds=seconds)
    if clock.expired:
        return Answer(error=f"no answer within {timeout:g} s", seconds=seconds, status=Status.TIMEOUT)
    message = f"its process ended with exit status {process.returncode}"
    return Answer(error=message, seconds=seconds, status=Status.LOST)


class _Clock:
    """Ends a process when its time is up."""

    def __init__(self, process: processes.Program) -> None:
        self.process, self.expired = process, False
        self.timer: threading.Timer | None = None

    def set(self, seconds: float | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = None if seconds is None else threading.Timer(seconds, self._expire)
        if self.timer is not None:
            self.timer.daemon = True
            self.timer.start()

    def _expire(self) -> None:
        self.expired = True
        self.process.end()


def _dumps(log_likelihood: LogLikelihood | None) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        cloudpickle = None
    try:
        return (cloudpickle or pickle).dumps(log_likelihood)
    except Exception as error:
        hint = (
            "" if cloudpickle else "; with cloudpickle installed (pip install 'tbq[parallel]') closures can be sent too"
        )
        raise ArgumentError(
            f"log_likelihood cannot be sent to another process ({described(error)}); make it a function "
            f"of a module and open files and connections within it{hint}"
        ) from error


@lru_cache(maxsize=4)
def _loads(payload: bytes) -> LogLikelihood:
    """Loaded once per process, so that what a log-likelihood keeps between calls is kept."""
    return pickle.loads(payload)
