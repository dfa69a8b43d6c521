"""One thread in linear algebra: matrices are small, and more of them wait for each other and take others' cores."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np

_KEPT = 31 * 2**20  # bytes; glibc learns from no block above 32 MiB


def single_threaded() -> AbstractContextManager[Any]:
    """A context in which linear algebra uses one thread; the user's own settings are back afterwards."""
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    np.empty(_KEPT, dtype=np.uint8)  # once freed, glibc keeps blocks up to this size, where it had cleared new pages
    return ThreadpoolController()
