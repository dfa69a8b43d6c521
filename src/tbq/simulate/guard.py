"""A process beside the one that runs simulators: when that one dies, however it dies, this ends all that it started.

:mod:`tbq.simulate.processes` starts it as a script in a session of its own, with the standard library alone. What a run
starts carries a mark in its environment, which children inherit wherever they go: groups, sessions and parents they can
leave. Pool workers and programs are also announced by their numbers, for they may be forked, which leaves no mark that
others can see, and for systems without /proc. (Linux can kill the children of a dead process by itself,
PR_SET_PDEATHSIG, but only direct ones, and already when the *thread* that started them ends.)

``guard.py PROCESS MARK`` reads lines from its standard input, and acts when they end or when the process is gone:

- ``*pid``: a process that ends with us; ``/pid``: it has ended;
- ``+folder``: hold a shared lock on a folder until ``-folder``, or until all is ended. A byte on standard output says
  that it is held. Whoever gets an exclusive lock there knows that nothing is left of runs for the journal in it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterable

VARIABLE = "TBQ_RUN"  # of the environment: the mark
_POLL = 0.5  # seconds between two looks where nothing tells us that a process is gone
_QUIET = 0.05  # seconds without a marked process after which none is being born: it has no mark between fork and exec
_PATIENCE = 5.0  # seconds that killed processes may take to go; longer ones wait for a device
_PROC = "/proc"


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    process, mark = int(sys.argv[1]), sys.argv[2]
    announced = _watch(process)
    end_tree([pid for pid, born in announced.items() if born and birth(pid) == born])
    end_marked(mark)


def _watch(process: int) -> dict[int, str]:
    """Wait until the process is gone, or has nothing more to say; the announced processes, and when they were born."""
    handles = [0, *_handle(process)]
    holding: dict[bytes, int] = {}
    announced: dict[int, str] = {}
    buffer = b""
    while os.getppid() == process:
        ready = select.select(handles, [], [], _POLL)[0]
        if 0 in ready:
            data = os.read(0, 65536)
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                _take(line[:1], line[1:], announced, holding)
            if not data:
                break
        elif ready:
            break
    for line in _rest(buffer):  # what was said last
        _take(line[:1], line[1:], announced, holding)
    return announced


def _rest(buffer: bytes) -> list[bytes]:
    """Lines still in the pipe; its other end may be held open by a process that was just forked."""
    while select.select([0], [], [], 0.0)[0] and (data := os.read(0, 65536)):
        buffer += data
    return buffer.split(b"\n")[:-1]


def _take(kind: bytes, what: bytes, announced: dict[int, str], holding: dict[bytes, int]) -> None:
    if kind == b"*":
        announced[int(what)] = birth(int(what))
    elif kind == b"/":
        announced.pop(int(what), None)
    elif kind == b"+":
        import fcntl

        with contextlib.suppress(OSError):  # the folder is gone, or cannot be locked where it lies
            holding[what] = os.open(what, os.O_RDONLY)
            fcntl.flock(holding[what], fcntl.LOCK_SH)
        with contextlib.suppress(OSError):
            os.write(1, b"+")
    elif kind == b"-" and what in holding:
        os.close(holding.pop(what))


def _handle(pid: int) -> list[int]:
    """A file that can be read when the process has ended; none where the system has no such thing."""
    try:
        return [os.pidfd_open(pid)]
    except (AttributeError, OSError):
        return []


# --- ending -------------------------------------------------------------------------------------------------


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def end_tree(roots: Iterable[int]) -> None:
    """Kill processes, all their descendants, and the groups that they lead; parents first, who might wait for them."""
    roots = [*roots]
    for pid in [*roots, *descendants(roots)]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL) if os.getpgid(pid) == pid else os.kill(pid, signal.SIGKILL)


def end_marked(*marks: str) -> None:
    """Kill every process whose mark contains one of these, and return when none has been seen for a moment."""
    deadline = time.monotonic() + _PATIENCE
    quiet = False
    while time.monotonic() < deadline:
        found = [pid for pid, value in marked() if any(m in value for m in marks) and not _cleans_up(pid)]
        if quiet and not found:
            return
        for pid in found:
            kill(pid)
        quiet = not found
        time.sleep(_QUIET if quiet else 0.005)


def marked() -> list[tuple[int, str]]:
    """All other processes with a mark, and that; none where environments cannot be seen. The dead have no more any."""
    found = []
    prefix = f"{VARIABLE}=".encode()
    for pid in _processes():
        if pid != os.getpid():
            with contextlib.suppress(OSError), open(f"{_PROC}/{pid}/environ", "rb") as file:
                for entry in file.read().split(b"\0"):
                    if entry.startswith(prefix):
                        found.append((pid, entry[len(prefix) :].decode(errors="replace")))
    return found


def _cleans_up(pid: int) -> bool:
    """Python's own tracker frees what dead processes have left of shared memory, and then ends by itself."""
    with contextlib.suppress(OSError), open(f"{_PROC}/{pid}/cmdline", "rb") as file:
        return b"multiprocessing.resource_tracker" in file.read()
    return False


def descendants(pids: Iterable[int]) -> set[int]:
    """Children, their children and so on, without ourselves."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found: set[int] = set()
    new = [*pids]
    while new:
        new = [c for p in new for c in children.get(p, ()) if c not in found and c != os.getpid()]
        found.update(new)
    return found


def _parents() -> list[tuple[int, int]]:
    """Every process and its parent."""
    if os.path.isdir(_PROC):
        return [(pid, int(fields[1])) for pid in _processes() if (fields := _status(pid))]
    import subprocess

    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False).stdout
    pairs = (line.split() for line in listing.splitlines())
    return [(int(pid), int(parent)) for pid, parent in pairs]


def birth(pid: int) -> str:
    """When a process was started, which tells it from later ones with its number; empty if it is dead."""
    if not os.path.isdir(_PROC):
        return "unknown"
    fields = _status(pid)
    return fields[19] if fields and fields[0] not in "ZX" else ""


def _status(pid: int) -> list[str]:
    """What /proc says of a process, from its state on: the name before may hold anything."""
    with contextlib.suppress(OSError), open(f"{_PROC}/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()
    return []


def _processes() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()] if os.path.isdir(_PROC) else []


if __name__ == "__main__":
    main()
