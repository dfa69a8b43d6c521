"""Samples of distributions with unknown parameters: a correlated normal, Weibull life times, annual maxima.

Data are synthetic and rounded; the likelihoods are normalised. Evidences by benchmarks/real_references.py.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from tbq.common.types import Array, BoolArray
from tbq.problem.prior import Prior
from tbq.problems.base import Mode, Problem, Reference
from tbq.problems.measured import LOG_2PI, columns, numbers

# Means 12 and −7, loadings 2, 1.1 and 0.9.
FIRST = numbers("""
    15.19 11.88 13.98 16.97 10.77 7.97 13.28 12.79 8.16 13.91 9.69 14.57 10.17 14.11 11.92 14.94 9.71 16.56 9.33
    12.82 12.24 12.96 11.54 10.59
""")
SECOND = numbers("""
    -4.77 -9.08 -3.70 -3.82 -6.84 -9.65 -5.88 -7.91 -8.85 -6.25 -7.93 -5.53 -6.23 -6.06 -7.81 -5.96 -8.31 -7.40
    -7.63 -6.35 -7.14 -6.09 -8.33 -9.18
""")


def loadings5() -> Problem:
    """Two means and the triangular factor of a covariance whose signs nobody fixed: four equal modes."""

    def log_likelihood(theta: Array) -> Array:
        mean1, mean2, loading11, loading21, loading22 = columns(theta)
        score1 = (FIRST - mean1) / loading11
        score2 = (SECOND - mean2 - loading21 * score1) / loading22
        volume = np.log(np.abs(loading11 * loading22))
        return -np.sum(0.5 * (score1**2 + score2**2) + volume + LOG_2PI, axis=-1)

    mean, loading = stats.uniform(-100.0, 200.0), stats.uniform(-50.0, 100.0)
    prior = Prior(
        {"mean1": mean, "mean2": mean, "loading11": loading, "loading21": loading, "loading22": loading},
    )
    modes = tuple(
        Mode(f"loadings {'−+'[a]}, {'−+'[b]}", 0.25, lambda theta, a=a, b=b: _signs(theta, a, b))  # type: ignore[misc]
        for a in (0, 1)
        for b in (0, 1)
    )
    title = "a normal sample, signs of its factor free"
    return Problem("loadings5", title, prior, log_likelihood, Reference(-115.8493, modes, 0.0013))


def _signs(theta: Array, first: int, second: int) -> BoolArray:
    return ((theta[..., 2] > 0) == first) & ((theta[..., 4] > 0) == second)


# Twelve units at each of three stresses; shape 1.6, life 1000 at stress 0 and e^−1.2 times it per unit of stress.
HOURS = numbers("""
    2116 1444 1755 2790 1232 2593 2339 3000 3000 1881 2649 275 422 467 615 337 1035 1368 559 1324 1269 413 675
    411 284 12 51 339 444 155 259 106 184 65 250 190
""")
STRESS = np.repeat([-1.0, 0.0, 1.0], 12)
FAILED = HOURS < 3000.0  # the others were still running when the test ended


def weibull3() -> Problem:
    """An accelerated life test with units that did not fail: shape, characteristic life, and what stress does to it."""

    def log_likelihood(theta: Array) -> Array:
        shape, life, acceleration = columns(theta)
        log_ratio = np.log(HOURS / life) + acceleration * STRESS  # of the hours and the life at that stress
        hazard = np.log(shape / HOURS) + shape * log_ratio
        return np.sum(np.where(FAILED, hazard, 0.0) - np.exp(shape * log_ratio), axis=-1)

    prior = Prior(
        {
            "shape": stats.loguniform(0.05, 20.0),
            "life": stats.loguniform(1.0, 1e6),
            "acceleration": stats.uniform(-10.0, 20.0),
        }
    )
    return Problem(
        "weibull3",
        "Weibull life times, some censored",
        prior,
        log_likelihood,
        Reference(-258.1683, log_evidence_sd=0.0008),
    )


# Location 62, scale 14, shape 0.12 (a heavy upper tail).
MAXIMA = numbers("""
    77.5 72.0 69.2 87.1 37.4 51.8 73.1 63.6 56.2 64.5 53.4 54.7 65.5 52.4 64.4 75.7 73.2 90.8 95.0 74.7 56.5
    63.5 97.6 58.4 94.3 41.9 40.2 71.3 45.4 97.9 57.5 68.1 53.8 77.0 61.2 47.2 58.5 61.8 63.0 76.5
""")


def extremes3() -> Problem:
    """Forty annual maxima, generalised extreme values; the likelihood is zero where a datum is out of reach."""

    def log_likelihood(theta: Array) -> Array:
        location, scale, shape = columns(theta)
        stretched = shape * (MAXIMA - location) / scale
        within = np.all(stretched > -1.0, axis=-1)
        reduced = np.log1p(np.maximum(stretched, -1.0 + 1e-15)) / shape
        with np.errstate(over="ignore"):  # far below the data: zero likelihood too
            value = -np.sum(np.log(scale) + (1.0 + shape) * reduced + np.exp(-reduced), axis=-1)
        return np.where(within, value, -np.inf)

    prior = Prior(
        {
            "location": stats.uniform(-1000.0, 2000.0),
            "scale": stats.loguniform(0.1, 1000.0),
            "shape": stats.uniform(-2.0, 4.0),
        }
    )
    return Problem("extremes3", "annual maxima", prior, log_likelihood, Reference(-177.2604, log_evidence_sd=0.0009))


ALL = (loadings5, weibull3, extremes3)
