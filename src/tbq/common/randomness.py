"""Random streams keyed by purpose and counter, so that no result depends on the order in which runs return."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, purpose: str, counter: int = 0) -> np.random.Generator:
    """The generator of one purpose at one count; the same three always give the same numbers."""
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), counter]))


def fresh_seed() -> int:
    """A seed from the operating system, for when the user gives none."""
    return int(np.random.SeedSequence().generate_state(1, dtype=np.uint64)[0] >> np.uint64(1))
