"""Room on the disk, taken before it is needed: a run that returns to a full disk must not be lost."""

from __future__ import annotations

import ctypes
import errno
import os

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, the user's share of it, the largest file there may be
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE: blocks are taken, and the file ends where it did


def take(file: int, start: int, length: int) -> None:
    """Take blocks of the disk for bytes of a file that will be written later. Raises OSError where there are none.

    Where the system cannot do that (other than Linux, some network disks) nothing happens.
    """
    if os.name != "posix":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    allocate = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)
    if allocate is None:
        return
    if allocate(file, _KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(length)) == 0:
        return
    if (number := ctypes.get_errno()) in FULL:
        raise OSError(number, os.strerror(number))
