"""One thing that was looked at in a result, and the sentence for either case."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tbq.common.types import Array


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    value: float
    threshold: float
    ok: bool
    sentence: str  # what was seen, and whether that is well
    advice: str  # what to do about it where it is not ok


def at_most(name: str, value: float, threshold: float, good: str, bad: str, advice: str) -> Finding:
    """A finding that is well up to the threshold, and the sentence for either case."""
    ok = bool(value <= threshold)
    return Finding(name, value, threshold, ok, good if ok else bad, advice)


def at_least(name: str, value: float, threshold: float, good: str, bad: str, advice: str) -> Finding:
    """A finding that is well from the threshold on, and the sentence for either case."""
    ok = bool(value >= threshold)
    return Finding(name, value, threshold, ok, good if ok else bad, advice)


def root_mean_square(x: Array) -> float:
    return float(np.sqrt(np.mean(x**2)))


def percent(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"
