"""How a surrogate's errors compare with what it expects, learned from runs that it predicted before they were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tbq.problem.evaluation import Evaluation, Status, noise_sd
from tbq.problem.prior import Prior
from tbq.problem.tuning import Tuning
from tbq.surrogate.protocol import Surrogate


def squared_z(
    surrogate: Surrogate[Any],
    gamma: float,
    prior: Prior,
    known: Sequence[Evaluation],
    new: Sequence[Evaluation],
    tuning: Tuning,
    noise: float = 0.0,
) -> tuple[float, ...]:
    """Squared z-scores of new runs at points that matter, against what was predicted of them.

    ``noise`` is the standard deviation in nats of runs that do not tell theirs.
    """
    good = [e for e in new if e.status is Status.OK]
    if not good:
        return ()
    y = np.array([e.log_likelihood for e in good])
    mean, variance = surrogate.log_likelihood(surrogate.at(prior.to_working(np.array([e.theta for e in good]))))
    best = max(e.log_likelihood for e in (*known, *good) if e.status is Status.OK)
    matters = gamma * (best - np.maximum(y, mean)) < tuning.inflation_depth
    variance = variance + np.array([noise_sd(e, noise) for e in good]) ** 2
    z = (y - mean) / np.hypot(np.sqrt(variance), tuning.inflation_floor)
    return tuple(float(v) for v in np.minimum(z[matters] ** 2, tuning.inflation_clip))


def inflation(tuning: Tuning, squared_z: Sequence[float], least: float | None = None) -> float:
    """By how much to multiply standard deviations: never below the start, or ``least``; 1 where nothing is inflated."""
    if not tuning.inflate:
        return 1.0
    start = tuning.inflation_start
    learned = _root_mean_square(start, tuning, squared_z)
    return float(np.clip(learned, start if least is None else least, tuning.inflation_most))


def supported(tuning: Tuning, squared_z: Sequence[float], least: float | None = None) -> float:
    """The fraction of inflated standard deviations that predictions support: runs are stopped by more, to be safe."""
    if not tuning.inflate:
        return 1.0
    learned = _root_mean_square(tuning.inflation_start, tuning, squared_z)
    return min(learned / inflation(tuning, squared_z, least), 1.0)


def deflation(tuning: Tuning, squared_z: Sequence[float]) -> float:
    """By how much to multiply standard deviations in the mean of L, where predictions were better than they claimed.

    The mean exp(μ + ½σ²) is too high by about ½σ² where σ is too cautious.
    """
    return min(_root_mean_square(1.0, tuning, squared_z), 1.0) if tuning.adjust_mean else 1.0


def _root_mean_square(start: float, tuning: Tuning, squared_z: Sequence[float]) -> float:
    """Of the last z-scores, the start being worth a few."""
    recent, worth = squared_z[-tuning.inflation_memory :], tuning.inflation_runs
    return float(np.sqrt((worth * start**2 + sum(recent)) / (worth + len(recent))))
