"""Ten parameters, six of which matter (the paper's Section 5.2): two sharp modes, a ridge and a correlated Gaussian.

The printed energy integrates to 4.66125e-5: the product of three plane integrals, by dense quadrature. The paper states
1.4680e-4, which does not follow from its formula.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from tbq.common.types import Array
from tbq.problem.prior import Prior
from tbq.problems.base import Mode, Problem, Reference

_PRECISION = np.linalg.inv(np.array([[0.7**2, 0.56], [0.56, 1.0]]))
_CENTER = np.array([0.5, 1.0])


def ten() -> Problem:
    prior = Prior({f"theta{i}": stats.uniform(-4, 8) for i in range(1, 11)})
    modes = (
        Mode("theta1 near 2", 0.5, lambda theta: theta[..., 0] + theta[..., 1] > 0),
        Mode("theta2 near −2", 0.5, lambda theta: theta[..., 0] + theta[..., 1] <= 0),
    )
    title = "two sharp modes, a ridge, a Gaussian, and four idle parameters"
    return Problem("ten", title, prior, _log_likelihood, Reference(float(np.log(4.661250087e-05)), modes))


def _log_likelihood(theta: Array) -> Array:
    a, b = theta[..., 0], theta[..., 1]
    ring = -0.5 * ((np.hypot(a, b) - 2.0) / 0.2) ** 2
    modes = np.logaddexp(-0.5 * ((a - 2.0) / 0.08) ** 2, -0.5 * ((b + 2.0) / 0.08) ** 2)
    ridge = -0.5 * ((theta[..., 3] + np.sin(0.25 * np.pi * theta[..., 2])) / 0.3) ** 2
    off = theta[..., 4:6] - _CENTER
    return ring + modes + ridge - 0.5 * np.einsum("...i,ij,...j->...", off, _PRECISION, off)
