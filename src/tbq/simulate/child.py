"""One call of a log-likelihood, here or in a process of its own that can be ended, with all that it started.

Such a process runs this file as a script. It imports nothing of the package and little else, to start quickly.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

_DEEP = 20  # exceptions that are the cause of another
READY = b"+"  # said when the log-likelihood is loaded: from here on the time counts

Attempt = tuple[Any, Any, str | None, float, str, str]

NAMED, SEEN = "named", "seen"  # outages that somebody called so, and those that look like one
_ELSEWHERE = {  # errors of the system that no theta makes: hosts, networks and disks
    errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ENOSPC, errno.EDQUOT, errno.ESTALE
}  # fmt: skip


def attempt(log_likelihood: Callable[[Any], Any], theta: Any) -> Attempt:
    """Value, outputs where the likelihood tells them (``evaluate``), what it raised, seconds, an error's status, and
    whether it is an outage."""
    start = time.perf_counter()
    value = outputs = error = None
    status, outage = "failed", ""
    try:
        if hasattr(log_likelihood, "evaluate"):
            value, outputs = log_likelihood.evaluate(theta)
        else:
            value = log_likelihood(theta)
    except (Exception, SystemExit) as exception:
        from tbq.common.words import described

        error = described(exception)
        status = "timeout" if isinstance(exception, TimeoutError) else "failed"
        outage = outage_of(exception)
    return value, outputs, error, time.perf_counter() - start, status, outage


def outage_of(exception: BaseException) -> str:
    """Whether what was raised has nothing to do with theta: NAMED so, SEEN to be so, or empty."""
    errors = sys.modules.get("tbq.common.errors")  # where it is not loaded, nobody has raised one of them
    if errors is not None and isinstance(exception, errors.Transient):
        return SEEN if isinstance(exception, ConnectionError) else NAMED
    cause: BaseException | None = exception
    for _ in range(_DEEP):
        if isinstance(cause, OSError) and cause.errno in _ELSEWHERE:
            return SEEN
        cause = cause and (cause.__cause__ or cause.__context__)
    return ""


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the simulator prints must not mix with the answer
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    sys.path[:] = pickle.load(sys.stdin.buffer)
    payload, theta, number = pickle.load(sys.stdin.buffer)
    answer: Attempt
    try:
        log_likelihood = pickle.loads(payload)
    except Exception as exception:
        from tbq.common.words import described

        answer = None, None, f"log_likelihood cannot be loaded: {described(exception)}", 0.0, "failed", ""
    else:
        answers.write(READY)
        answers.flush()
        if (names := sys.modules.get("tbq.simulate.run_number")) is not None:  # loaded by what names files after it
            names.current.set(number)
        answer = attempt(log_likelihood, theta)
    try:
        data = pickle.dumps(answer)
    except Exception:
        kind = type(answer[0]).__name__
        data = pickle.dumps((None, None, f"the log-likelihood returned {kind}, not a number", *answer[3:]))
    with contextlib.suppress(Exception):  # the simulator may have closed it
        sys.stdout.flush()
    answers.write(data)
    answers.close()


def _end_with_parent(parent: int) -> None:
    """A worker that is killed must not leave its simulator running."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
