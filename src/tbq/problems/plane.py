"""Four posteriors in the plane, U[−4, 4]² priors (the paper's Section 5.1, eq:EnergyFunExample1).

Exact evidences by dense quadrature. Written with ``theta[..., 0]`` so that one θ and many rows both work.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from tbq.common.types import Array
from tbq.problem.prior import Prior
from tbq.problems.base import Problem, Reference


def u1() -> Problem:
    return _problem("u1", "two disconnected modes", _log_u1, 0.10214300206)


def u2() -> Problem:
    return _problem("u2", "sinusoidal ridge", _log_u2, 0.12533141373)


def u3() -> Problem:
    return _problem("u3", "ridge with a weaker branch", _log_u3, 0.21932997401)


def u4() -> Problem:
    return _problem("u4", "ridge with a step", _log_u4, 0.22879944935)


def _problem(name: str, title: str, log_likelihood: object, evidence: float) -> Problem:
    prior = Prior({"theta1": stats.uniform(-4, 8), "theta2": stats.uniform(-4, 8)})
    return Problem(name, title, prior, log_likelihood, Reference(float(np.log(evidence))))  # type: ignore[arg-type]


def _bump(x: Array, width: float) -> Array:
    return -0.5 * (x / width) ** 2


def _wave(x: Array) -> Array:
    return np.sin(0.5 * np.pi * x)


def _log_u1(theta: Array) -> Array:
    a, b = theta[..., 0], theta[..., 1]
    return _bump(np.hypot(a, b) - 2.0, 0.4) + np.logaddexp(_bump(a - 2.0, 0.6), _bump(a + 2.0, 0.6))


def _log_u2(theta: Array) -> Array:
    return _bump(theta[..., 1] + _wave(theta[..., 0]), 0.4)


def _log_u3(theta: Array) -> Array:
    ridge = theta[..., 1] + _wave(theta[..., 0])
    branch = 3.0 * np.exp(_bump(theta[..., 0] - 1.0, 0.6))
    return np.logaddexp(_bump(ridge, 0.35), _bump(ridge - branch, 0.35))


def _log_u4(theta: Array) -> Array:
    ridge = theta[..., 1] + _wave(theta[..., 0])
    step = 3.0 / (1.0 + np.exp(-(theta[..., 0] - 1.0) / 0.2))
    return np.logaddexp(_bump(ridge, 0.4), _bump(ridge - step, 0.35))
