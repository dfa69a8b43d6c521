"""One writer per journal: a lock that ends with its process, however that ends, and that no forked worker keeps.

It is on a file of its own beside the journal: some systems let nobody read a file that another has locked.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from tbq.common.errors import TbqError

FILE = "journal.lock"
_PATIENCE = 20  # tries to get the lock: a process that was just forked or killed lets go in a moment
_LOOKS = 3  # tries of a reader, who may meet another reader
_PAUSE = 0.05  # seconds between tries


class InUseError(TbqError):
    """Another process writes to the journal."""


def acquire(path: Path) -> int:
    """Descriptor of the locked file; closing it gives the lock back."""
    for _ in range(_PATIENCE):
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if _locked(file) and is_at(file, path):  # and was not removed in between
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        time.sleep(_PAUSE)
    journal = path.with_name("journal.jsonl")
    raise InUseError(f"journal: {journal} is in use by another run; wait for it, end it, or close its session")


def held(path: Path) -> bool:
    """Whether somebody has the lock. Needs no right to write, and leaves nothing behind."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY)
        try:
            for _ in range(_LOOKS):
                if _locked(file):
                    return False
                time.sleep(_PAUSE)
            return True
        finally:
            os.close(file)
    return False


def is_at(file: int, path: Path) -> bool:
    """Whether an open file is still the one at its path."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False


def _locked(file: int) -> bool:
    from filelock import lock_descriptor

    return lock_descriptor(file, blocking=False)
