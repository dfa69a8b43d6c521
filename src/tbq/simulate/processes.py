"""Processes that runs start, here and on pool workers: none of them outlives us.

A :mod:`tbq.simulate.guard` stands beside each process that makes runs, and ends what they started when it dies.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import multiprocessing
import multiprocessing.spawn
import os
import platform
import re
import signal
import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tbq.common.errors import SimulatorError, TbqError
from tbq.simulate import guard

_LOOK = 0.02  # seconds between two tries to get a lock
_SAY = 1.0  # seconds of waiting for it after which we say so
_logger = logging.getLogger("tbq")


class Driver(NamedTuple):
    """The process that runs are made for, and what they are of."""

    pid: int
    host: str
    mark: str  # of its guard
    run: str  # tells runs apart that are under way at the same time
    journal: str  # tells journals apart


class _Guard:
    """The guard of this process; where none could be started, nobody listens."""

    def __init__(self) -> None:
        self.pid, self.mark = os.getpid(), uuid.uuid4().hex
        self.process = _start_guard(self.mark)
        self.holding: Counter[Path] = Counter()

    def say(self, kind: str, what: object) -> bool:
        """Whether somebody listens."""
        if self.process is None or self.process.stdin is None:
            return False
        try:
            os.write(self.process.stdin.fileno(), os.fsencode(f"{kind}{what}\n"))
        except OSError:
            return False
        return True

    def answer(self) -> None:
        """Wait for it."""
        if self.process is not None and self.process.stdout is not None:
            os.read(self.process.stdout.fileno(), 1)

    def close(self) -> None:
        if self.process is not None and self.process.stdin is not None and self.process.stdout is not None:
            self.process.stdin.close()
            self.process.stdout.close()


class _Own:
    """What this process has started, and who guards it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.guard: _Guard | None = None
        self.inherited: list[_Guard] = []  # those of our parents, whose processes are not ours to wait for
        self.active: Counter[str] = Counter()  # marks of what is under way
        self.before: str | None = None  # the variable of the environment while nothing is
        self.programs: set[Program] = set()  # that run
        self.ended: set[str] = set()  # runs that nobody waits for any more


_own = _Own()
_here = threading.local()  # of: whom this thread works for


def driver(run: str, folder: Path | None = None) -> Driver:
    """This process, with a guard beside it. ``folder`` is that of the journal."""
    return Driver(os.getpid(), platform.node(), _mine().mark, run, "" if folder is None else _tag(folder))


def _mine() -> _Guard:
    with _own.lock:
        if _own.guard is None:
            _own.guard = _Guard()
        return _own.guard


def _start_guard(mark: str) -> subprocess.Popen[bytes] | None:
    python = os.fsdecode(multiprocessing.spawn.get_executable() or "")
    if not hasattr(os, "killpg") or "py" not in Path(python).name.lower():  # we may live inside another program
        return None
    command = [python, "-I", "-S", guard.__file__, str(os.getpid()), mark]
    environment = {k: v for k, v in os.environ.items() if k != guard.VARIABLE}
    pipe, nobody = subprocess.PIPE, subprocess.DEVNULL
    with contextlib.suppress(OSError):
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=nobody, start_new_session=True, env=environment
        )
    return None


# --- the mark -----------------------------------------------------------------------------------------------


@contextmanager
def marking(of: Driver | None) -> Iterator[None]:
    """What is started within carries the mark of the driver's guard; on a cluster, that of a guard of this process."""
    of = of or driver("")
    mark = f"{of.mark if _belongs_to(of) else _mine().mark}/{os.getpid()}/{of.journal}/"
    outer, _here.of = getattr(_here, "of", None), of
    with _own.lock:
        if not _own.active:
            _own.before = os.environ.get(guard.VARIABLE)
        _own.active[mark] += 1
        _set_variable()
    try:
        yield
    finally:
        _here.of = outer
        with _own.lock:
            _own.active[mark] -= 1
            if not _own.active[mark]:
                del _own.active[mark]
            _set_variable()


def _set_variable() -> None:
    if _own.active:
        os.environ[guard.VARIABLE] = (_own.before or "") + "".join(_own.active)
    elif _own.before is None:
        os.environ.pop(guard.VARIABLE, None)
    else:
        os.environ[guard.VARIABLE] = _own.before


def _belongs_to(of: Driver) -> bool:
    """Whether we are the driver or a worker of its own pool, which ends with it."""
    parent = multiprocessing.parent_process()
    return of.host == platform.node() and of.pid in (os.getpid(), parent.pid if parent else None)


# --- programs and workers -----------------------------------------------------------------------------------


class Program(subprocess.Popen[bytes]):
    """A program that leads a session of its own and has a mark of its own, so that all it starts can be ended."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        of: Driver | None = getattr(_here, "of", None)
        self.run, self.mark, self.ending = of.run if of else "", uuid.uuid4().hex, threading.RLock()
        check_wanted()
        with marking(of):
            mark = {guard.VARIABLE: f"{os.environ[guard.VARIABLE]}{self.mark}/"}
            environment = {**os.environ, **options.pop("env", {}), **mark}
            super().__init__(command, start_new_session=True, env=environment, **options)
        _own.programs.add(self)
        if _own.guard is not None:
            _own.guard.say("*", self.pid)

    def finish(self) -> None:
        """It has said all it had to say: end it, and what is left of its group."""
        with self.ending:
            if self.returncode is None:  # the group is there until its leader is waited for
                if hasattr(os, "killpg"):
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(self.pid, signal.SIGKILL)
                else:
                    self.kill()
                self.wait()
        if self in _own.programs and _own.guard is not None:
            _own.guard.say("/", self.pid)
        _own.programs.discard(self)

    def end(self) -> None:
        """End it before its time, and all that it started, wherever that has gone."""
        with self.ending:  # its number is its own until it is waited for
            if self.poll() is None and hasattr(os, "killpg"):
                guard.end_tree([self.pid])
                guard.end_marked(self.mark)
            self.finish()


def check_wanted() -> None:
    """Refuse to start anything for a run that has ended while this thread waited."""
    of: Driver | None = getattr(_here, "of", None)
    if of is not None and of.run in _own.ended:
        raise SimulatorError("the run that this was for has ended")


def end_programs(run: str) -> None:
    """End the programs of a run that this process started; it starts no more."""
    _own.ended.add(run)
    for program in [p for p in list(_own.programs) if p.run == run]:
        program.end()


def workers(executor: Executor, known: set[int]) -> set[int]:
    """The processes of a pool; the guard is told of those that were not known."""
    found = getattr(executor, "_processes", None) if isinstance(executor, ProcessPoolExecutor) else None
    pids = set(found or ())
    for pid in pids - known:
        _mine().say("*", pid)
    return pids


def end_workers(pids: set[int], of: Driver) -> None:
    """Kill processes of a pool and all that they started, also where they are dead already."""
    if pids and hasattr(os, "killpg"):
        guard.end_tree(pids & _children())
        guard.end_marked(*(f"{of.mark}/{pid}/" for pid in pids))
        for pid in pids:
            _mine().say("/", pid)


def interrupt_workers(pids: set[int]) -> None:
    """What Ctrl-C in a terminal says to them."""
    if hasattr(os, "killpg"):
        for pid in pids & _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)


def _children() -> set[int]:
    """Processes of ours that live: a number that died may be another's by now."""
    return {child.pid for child in multiprocessing.active_children() if child.pid is not None}


# --- what is left of a run that was killed ------------------------------------------------------------------


def hold(folder: Path) -> None:
    """Say that runs are under way for the journal of a folder, until they are released or all is ended."""
    mine = _mine()
    with _own.lock:
        mine.holding[folder] += 1
        if mine.holding[folder] == 1 and mine.say("+", folder):
            mine.answer()


def release(folder: Path) -> None:
    mine = _mine()
    with _own.lock:
        mine.holding[folder] -= 1
        if not mine.holding[folder]:
            mine.say("-", folder)


def wait_for_orphans(folder: Path, patience: float) -> None:
    """Return when nothing runs any more for the journal of a folder; raises when that takes too long."""
    for pid, value in guard.marked():  # where the guard was killed too
        owner = re.search(rf"/(\d+)/{_tag(folder)}/", value)
        if owner and not guard.birth(int(owner[1])):
            guard.kill(pid)
    start, said = time.monotonic(), False
    while not _is_free(folder):
        waited = time.monotonic() - start
        if waited > patience:
            raise TbqError(
                f"journal: runs of {folder} that were interrupted are still under way, and none is made beside itself; "
                "wait for them, or end them"
            )
        if waited > _SAY and not said:
            said = True
            _logger.warning("waiting for interrupted runs of %s to end", folder)
        time.sleep(_LOOK)


def _is_free(folder: Path) -> bool:
    try:
        import fcntl

        file = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # not to be had where the folder lies
        return True
    finally:
        os.close(file)
    return True


def _tag(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]


# --- birth and death of this process ------------------------------------------------------------------------


def _after_fork() -> None:
    """In a process that was just forked: it is nobody's guard's, unless for a run; then the guard is told."""
    mine, at_work, inherited = _own.guard, bool(_own.active), _own.inherited
    _own.__init__()  # type: ignore[misc]
    if mine is not None:
        if at_work and not mine.say("*", os.getpid()) and os.getppid() != mine.pid:
            os._exit(1)  # all the others have been ended already
        mine.close()
        _own.inherited = [*inherited, mine]


def _at_exit() -> None:
    mine = _own.guard
    if mine is not None and mine.process is not None:
        mine.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            mine.process.wait(10.0)


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
