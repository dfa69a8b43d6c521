"""The next tempering parameter γ, from the coefficient of variation of the weights that the step would need."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize

from tbq.common.types import Array


def weight_cov(log_weights: Array) -> float:
    """Coefficient of variation of weights given as logarithms."""
    weights = np.exp(log_weights - np.max(log_weights))
    return float(np.std(weights) / np.mean(weights))


def next_gamma(log_weights: Callable[[float], Array], previous: float, limit: float) -> float:
    """The γ in (previous, 1] whose weights have the coefficient of variation ``limit``; 1 if that is not reached.

    ``log_weights(γ)`` are the logarithms of the weights that take the population from ``previous`` to γ. The
    root is bracketed: should even the smallest step exceed the limit (a population that does not fit the surrogate
    any more), that smallest step is what comes back, never a failure.
    """
    if _excess(1.0, log_weights, limit) <= 0.0:
        return 1.0
    smallest = min(previous + 1e-6 * max(1.0 - previous, 1e-3), 1.0)
    smallest = max(smallest, 1e-9)
    if _excess(smallest, log_weights, limit) >= 0.0:
        return smallest
    # What a function passed to brentq holds on to is kept until the garbage collector looks for cycles, which takes no
    # notice of size: gigabytes in a long run. What it is given as arguments is not.
    return float(optimize.brentq(_excess, smallest, 1.0, args=(log_weights, limit), xtol=1e-12, rtol=1e-10))


def _excess(gamma: float, log_weights: Callable[[float], Array], limit: float) -> float:
    return weight_cov(log_weights(gamma)) - limit
