"""Regressions with unknown noise under wide priors: a line, a cubic, a growth curve and a sum of two exponentials.

Data are synthetic and rounded; the likelihoods are normalised. Evidences by benchmarks/real_references.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special, stats

from tbq.common.types import Array, Distribution
from tbq.problem.prior import Prior
from tbq.problems.base import Mode, Problem, Reference
from tbq.problems.measured import columns, log_normal_density, numbers

LINE_X, CUBIC_X, GROWTH_X = np.linspace(0.0, 10.0, 25), np.linspace(-1.0, 3.0, 30), np.arange(0.0, 60.0, 3.0)
DECAY_X = np.concatenate([np.linspace(0.1, 2.0, 16), np.linspace(2.5, 20.0, 16)])
# 4.2 − 1.3 x, noise of 0.6
LINE = numbers("""
    4.86 2.89 3.51 1.86 2.68 0.56 0.52 0.04 -1.40 -0.16 -2.15 -2.54 -2.64 -2.40 -3.87 -2.73 -4.48 -5.18 -5.28
    -6.17 -7.27 -7.50 -7.62 -7.31 -8.64
""")
# 2 − 3 x + 1.5 x² − 0.8 x³, noise of 0.8
CUBIC = numbers("""
    7.75 6.66 4.76 4.43 3.72 3.15 4.31 1.88 1.47 0.99 1.86 0.41 0.38 0.87 0.47 -1.25 0.61 -1.05 -1.00 -2.06
    -1.62 -4.03 -5.13 -5.31 -5.68 -8.10 -8.83 -9.95 -14.18 -13.98
""")
# 73 / (1 + exp(−0.21 (x − 27))), noise of 1.9
GROWTH = numbers("""
    0.1 2.8 4.7 1.5 2.5 7.5 9.7 17.7 28.4 37.6 49.7 52.4 65.4 67.3 68.2 71.1 69.9 70.3 68.9 71.7
""")
# 8 exp(−2.2 x) + 5 exp(−0.25 x) + 1.2, noise of 0.12
DECAY = numbers("""
    12.60 10.82 9.51 8.40 7.72 6.77 6.57 5.99 5.65 5.26 4.95 4.89 4.85 4.64 4.56 4.30 3.93 3.18 2.56 2.30 1.98
    1.92 1.64 1.54 1.52 1.50 1.33 1.29 1.30 1.38 1.13 1.10
""")


def line3() -> Problem:
    """Intercept and slope, normal priors several hundred times as wide as the posterior."""

    def curve(intercept: Array, slope: Array) -> Array:
        return intercept + slope * LINE_X

    marginals = {"intercept": stats.norm(0.0, 100.0), "slope": stats.norm(0.0, 10.0)}
    return _regression(
        "line3", "a line, unknown noise", marginals, curve, LINE, Reference(-38.8682, log_evidence_sd=0.0014)
    )


def cubic5() -> Problem:
    """Four coefficients of a cubic that trade off against each other, normal priors."""

    def curve(c0: Array, c1: Array, c2: Array, c3: Array) -> Array:
        return c0 + CUBIC_X * (c1 + CUBIC_X * (c2 + CUBIC_X * c3))

    marginals = {f"c{i}": stats.norm(0.0, 50.0) for i in range(4)}
    return _regression(
        "cubic5", "a cubic, unknown noise", marginals, curve, CUBIC, Reference(-59.2746, log_evidence_sd=0.0011)
    )


def growth4() -> Problem:
    """Logistic growth: capacity, rate and midpoint."""

    def curve(capacity: Array, rate: Array, midpoint: Array) -> Array:
        return capacity * special.expit(rate * (GROWTH_X - midpoint))

    marginals = {
        "capacity": stats.uniform(0.0, 1000.0),
        "rate": stats.loguniform(0.001, 100.0),
        "midpoint": stats.uniform(-200.0, 400.0),
    }
    return _regression(
        "growth4",
        "logistic growth, unknown noise",
        marginals,
        curve,
        GROWTH,
        Reference(-60.0751, log_evidence_sd=0.0010),
    )


def exponentials6() -> Problem:
    """Two exponentials and a background; exchanging the exponentials changes nothing."""

    def curve(amplitude1: Array, rate1: Array, amplitude2: Array, rate2: Array, background: Array) -> Array:
        first, second = np.exp(-rate1 * DECAY_X), np.exp(-rate2 * DECAY_X)
        return amplitude1 * first + amplitude2 * second + background

    amplitude, rate = stats.uniform(0.0, 100.0), stats.loguniform(0.001, 100.0)
    marginals = {
        **{"amplitude1": amplitude, "rate1": rate, "amplitude2": amplitude, "rate2": rate},
        "background": stats.uniform(-50.0, 100.0),
    }
    modes = (
        Mode("first faster", 0.5, lambda theta: theta[..., 1] > theta[..., 3]),
        Mode("second faster", 0.5, lambda theta: theta[..., 1] <= theta[..., 3]),
    )
    return _regression(
        "exponentials6", "two exponentials, unknown noise", marginals, curve, DECAY, Reference(0.5493, modes, 0.0011)
    )


def _regression(
    name: str,
    title: str,
    marginals: dict[str, Distribution],
    curve: Callable[..., Array],
    data: Array,
    reference: Reference,
) -> Problem:
    """Data around a curve; the last parameter is the noise's standard deviation."""

    def log_likelihood(theta: Array) -> Array:
        *coefficients, noise = columns(theta)
        return log_normal_density(data - curve(*coefficients), noise)

    prior = Prior({**marginals, "noise": stats.loguniform(0.001, 100.0)})
    return Problem(name, title, prior, log_likelihood, reference)


ALL = (line3, cubic5, growth4, exponentials6)
