"""Licences: how many runs of a program may be under way at once, however many workers there are."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from tbq.common.arguments import whole
from tbq.common.errors import ArgumentError
from tbq.simulate import processes

_LOOK = (0.02, 1.0)  # seconds between two tries to get one: at first, and at most

_lock = threading.Lock()
_taken: set[Path] = set()  # by threads of this process: some disks lock for a whole process


@dataclass(frozen=True)
class Licences:
    """At most ``limit`` at a time, of all runs on all machines that see ``folder``.

    They are locks on files there, which end with the process that holds them, however that ends.
    """

    limit: int
    folder: str | Path

    def __post_init__(self) -> None:
        whole("licences", self.limit)
        if not str(self.folder):
            raise ArgumentError("licences: folder must be that of their locks; got an empty one")

    @contextmanager
    def one(self) -> Iterator[None]:
        """Wait for one, and give it back at the end."""
        folder = Path(self.folder).expanduser().resolve()
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / f"licence-{i}.lock" for i in range(1, self.limit + 1)]
        pause = _LOOK[0]
        while (held := _any_of(random.sample(files, len(files)))) is None:
            processes.check_wanted()
            time.sleep(pause)
            pause = min(2.0 * pause, _LOOK[1])
        try:
            yield
        finally:
            held.release()
            _give_back(Path(held.lock_file))


def _any_of(files: Sequence[Path]) -> FileLock | None:
    for file in files:
        if _take(file):
            lock = FileLock(file)
            try:
                lock.acquire(blocking=False)
                return lock
            except BaseException as error:
                _give_back(file)
                if not isinstance(error, Timeout):
                    raise
    return None


def _take(file: Path) -> bool:
    with _lock:
        if file in _taken:
            return False
        _taken.add(file)
        return True


def _give_back(file: Path) -> None:
    with _lock:
        _taken.discard(file)
