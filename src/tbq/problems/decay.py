"""An exponential decay seen at twenty times: the everyday curve fit, whose parameters trade off against each other.

The data are amplitude 1.3, rate 0.8, offset 0.3 and normal noise, rounded. The exact evidence is by the trapezoidal
rule over all three parameters, on 4001 rates and, at each, 401 × 401 amplitudes and offsets within nine standard
deviations of the best ones.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from tbq.common.types import Array
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.problems.base import Problem, Reference

TIMES = np.linspace(0.25, 5.0, 20)
_FIRST = [1.324, 1.105, 1.001, 0.905, 0.835, 0.697, 0.593, 0.523, 0.552, 0.558]
_LAST = [0.458, 0.356, 0.349, 0.459, 0.375, 0.266, 0.339, 0.277, 0.298, 0.299]
OBSERVED = np.array([*_FIRST, *_LAST])
NOISE = 0.05


def decay() -> Problem:
    """Amplitude, rate and offset from twenty data; the likelihood is normalised."""
    prior = Prior(
        {"amplitude": stats.uniform(0.2, 2.8), "rate": stats.uniform(0.1, 2.9), "offset": stats.uniform(-0.5, 1.5)}
    )
    likelihood = GaussianLikelihood(curve, OBSERVED, NOISE, coordinates={"time": TIMES})
    return Problem("decay", "exponential decay, twenty data", prior, likelihood, Reference(24.556483304))


def curve(theta: Array) -> Array:
    """The decay at all times; shape (..., 20)."""
    amplitude, rate, offset = (theta[..., i, None] for i in range(3))
    return amplitude * np.exp(-rate * TIMES) + offset
