"""Measured series: an offset with correlated noise, and a sinusoid seen in two seasons. Offsets are uniform on ±1000.

Data are synthetic and rounded; the likelihoods are normalised. Evidences by benchmarks/real_references.py.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from tbq.common.types import Array
from tbq.problem.prior import Prior
from tbq.problems.base import Mode, Problem, Reference
from tbq.problems.measured import columns, log_normal_density, numbers

_OFFSET = stats.uniform(-1000.0, 2000.0)

# An offset of 187.3, an Ornstein–Uhlenbeck process, measurement errors and a jitter of 1.8.
TIMES = numbers("""
    2.8 5.0 8.2 8.3 8.4 19.4 20.2 20.6 22.1 22.5 26.5 31.2 31.9 32.3 32.8 33.2 33.4 35.1 35.8 41.6 42.3 42.4
    42.4 44.3 45.7 46.6 51.1 51.6 53.2 58.7 60.1 61.3 62.9 64.3 70.6 70.7 72.5 73.6 75.6 75.7 78.2 80.5 81.2
    83.0 84.9 86.0 87.3 87.6
""")
ERRORS = numbers("""
    1.04 1.05 1.24 1.52 0.94 0.89 0.72 0.72 0.57 0.93 0.88 0.71 0.63 0.92 1.18 0.82 0.87 0.68 0.74 0.73 0.73
    0.67 0.90 1.18 0.60 1.22 0.71 0.72 0.42 0.39 1.00 0.58 1.02 0.81 0.86 1.19 0.78 0.30 0.47 1.07 1.46 0.78
    0.65 0.53 0.94 0.47 0.55 0.83
""")
VALUES = numbers("""
    187.54 186.71 189.90 184.63 184.62 186.31 187.24 186.41 191.47 186.73 188.92 186.08 187.80 186.27 186.17
    190.57 186.93 191.24 186.51 186.30 189.59 182.37 182.95 186.68 187.94 188.59 186.60 183.96 188.58 188.27
    184.80 187.19 191.44 188.10 184.57 185.62 185.99 187.57 189.15 185.49 185.58 189.49 189.30 190.72 184.48
    185.06 189.08 185.26
""")
_CORRELATED_SD, _CORRELATION_TIME = 1.2, 3.0  # known, of the process


def series2() -> Problem:
    """Jitter and offset of a series whose noise is correlated in time, with a known correlation."""
    known = covariance()
    variances, axes = np.linalg.eigh(known)  # the jitter adds its square to each variance
    data, ones = VALUES @ axes, axes.sum(axis=0)

    def log_likelihood(theta: Array) -> Array:
        jitter, offset = columns(theta)
        return log_normal_density(data - offset * ones, np.sqrt(variances + jitter**2))

    prior = Prior({"jitter": stats.loguniform(0.01, 100.0), "offset": _OFFSET})
    return Problem(
        "series2",
        "offset and jitter, correlated noise",
        prior,
        log_likelihood,
        Reference(-118.0011, log_evidence_sd=0.0008),
    )


def covariance() -> Array:
    """Of the data of ``series2`` without the jitter: the process and the measurement errors."""
    apart = np.abs(np.subtract.outer(TIMES, TIMES))
    return _CORRELATED_SD**2 * np.exp(-apart / _CORRELATION_TIME) + np.diag(ERRORS**2)


# An offset of −34 and a sinusoid of period 12.7 and amplitude 6; errors of 1 and a jitter of 1.6.
NIGHTS = numbers("""
    3.5 3.7 6.9 7.2 9.8 11.0 12.7 12.9 13.4 15.9 17.3 20.0 153.3 154.3 157.0 157.7 159.1 161.2 162.7 164.2 167.9
    168.3 168.5 168.9
""")
VELOCITIES = numbers("""
    -36.69 -39.42 -35.15 -31.73 -30.31 -27.67 -30.67 -35.76 -34.24 -39.10 -38.56 -33.36 -35.93 -36.67 -41.12
    -37.99 -31.63 -27.07 -26.39 -30.01 -36.82 -38.07 -38.83 -39.81
""")
_ERROR = 1.0


def sinusoid5() -> Problem:
    """Period, amplitude, phase, offset and jitter of a sinusoid seen in two seasons, with a period in a window.

    How many periods lie between the seasons is not known: each number is a mode.
    """

    def log_likelihood(theta: Array) -> Array:
        period, amplitude, phase, offset, jitter = columns(theta)
        wave = np.sin(2.0 * np.pi * NIGHTS / period + phase)
        return log_normal_density(VELOCITIES - offset - amplitude * wave, np.hypot(_ERROR, jitter))

    prior = Prior(
        {
            "period": stats.loguniform(10.0, 16.0),
            "amplitude": stats.loguniform(0.1, 1000.0),
            "phase": stats.uniform(0.0, 2.0 * np.pi),
            "offset": _OFFSET,
            "jitter": stats.loguniform(0.01, 100.0),
        }
    )
    edges = (0.0, 12.15, 13.25, np.inf)
    masses = {"period near 11.7": 0.0719, "period near 12.7": 0.6932, "period near 13.9": 0.2349}
    modes = tuple(
        Mode(name, mass, lambda theta, a=a, b=b: (theta[..., 0] > a) & (theta[..., 0] <= b))  # type: ignore[misc]
        for (name, mass), a, b in zip(masses.items(), edges[:-1], edges[1:], strict=True)
    )
    return Problem(
        "sinusoid5", "a sinusoid in a period window", prior, log_likelihood, Reference(-65.1688, modes, 0.0027)
    )


ALL = (series2, sinusoid5)
