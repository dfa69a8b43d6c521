"""How a surrogate's errors compare with what it expects, learned from runs that it predicted before they were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.prior import Prior
from tbq.surrogate.protocol import Surrogate

_RELEVANT_DEPTH = 10.0  # nats of log L^γ below the best run within which a run's surprise counts
_FLOOR = 0.02  # nats: no one is surprised by less
_CAP = 25.0
_KEPT = 30
_PRIOR_RUNS = 5  # runs that the starting inflation is worth
_MOST_INFLATION = 4.0


def surprises(
    surrogate: Surrogate[Any], gamma: float, prior: Prior, known: Sequence[Evaluation], new: Sequence[Evaluation]
) -> tuple[float, ...]:
    """Squared z-scores of new runs at points that matter, against what was predicted of them."""
    good = [e for e in new if e.status is Status.OK]
    if not good:
        return ()
    y = np.array([e.log_likelihood for e in good])
    mean, variance = surrogate.log_likelihood(surrogate.at(prior.to_working(np.array([e.theta for e in good]))))
    best = max(e.log_likelihood for e in (*known, *good) if e.status is Status.OK)
    matters = gamma * (best - np.maximum(y, mean)) < _RELEVANT_DEPTH
    z = (y - mean) / np.hypot(np.sqrt(variance), _FLOOR)
    return tuple(float(v) for v in np.minimum(z[matters] ** 2, _CAP))


def inflation(start: float, surprises: Sequence[float]) -> float:
    """By how much to multiply standard deviations: never below the start, which 1 keeps as the paper has it."""
    return float(np.clip(_learned(start, surprises), start, _MOST_INFLATION)) if start > 1.0 else 1.0


def supported(start: float, surprises: Sequence[float]) -> float:
    """The share of inflated standard deviations that surprises speak for: runs are stopped by more, to be safe."""
    return min(_learned(start, surprises) / inflation(start, surprises), 1.0) if start > 1.0 else 1.0


def deflation(start: float, surprises: Sequence[float]) -> float:
    """By how much to multiply standard deviations in the mean of L, where runs surprised less than they might have.

    The mean exp(μ + ½σ²) is too high by about ½σ² where σ is too cautious.
    """
    return min(_learned(1.0, surprises), 1.0) if start > 1.0 else 1.0


def _learned(start: float, surprises: Sequence[float]) -> float:
    """Root mean square of the last z-scores, the start being worth a few."""
    recent = surprises[-_KEPT:]
    return float(np.sqrt((_PRIOR_RUNS * start**2 + sum(recent)) / (_PRIOR_RUNS + len(recent))))
