"""Our own threads: one in linear algebra, whose matrices are small, and all cores over large sets of points.

More threads in one small product only wait for each other, and take cores from the simulator.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
R = TypeVar("R")

_KEPT = 31 * 2**20  # bytes; glibc learns from no block above 32 MiB


def single_threaded() -> AbstractContextManager[Any]:
    """A context in which linear algebra uses one thread; the user's own settings are back afterwards."""
    return _controller().limit(limits=1, user_api="blas")


def on_all_cores(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The function of each item. Threads share the items: linear algebra lets go of Python's lock."""
    n = min(cores(), len(items))
    if n < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(function, items))


def cores() -> int:
    """That this process may use; OMP_NUM_THREADS says so for us as for everyone."""
    said = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if said.isdigit() and int(said) > 0:
        return int(said)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    np.empty(_KEPT, dtype=np.uint8)  # once freed, glibc keeps blocks up to this size, where it had cleared new pages
    return ThreadpoolController()
