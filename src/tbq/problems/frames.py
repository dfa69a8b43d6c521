"""Frames identified from their natural frequencies: three storeys (the paper's Section 5.3) and two (Section 5.6)."""

from __future__ import annotations

import numpy as np
from scipy import stats

from tbq.common.types import Array
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.problems.base import Mode, Problem, Reference


def dof3() -> Problem:
    """Three natural frequencies in Hz, measured with σ = 0.05; the likelihood is normalised."""
    prior = Prior(
        {"theta1": stats.uniform(0.1, 0.9), "theta2": stats.uniform(0.5, 4.5), "theta3": stats.uniform(0.5, 4.5)}
    )
    modes = (
        Mode("theta1 near 0.50", 0.694, lambda theta: theta[..., 0] < 0.58),
        Mode("theta1 near 0.66", 0.306, lambda theta: theta[..., 0] >= 0.58),
    )
    likelihood = GaussianLikelihood(frequencies3, _MEASURED3, 0.05, names=("f1", "f2", "f3"), units="Hz")
    return Problem(
        "dof3", "three-storey frame, two modes", prior, likelihood, Reference(float(np.log(7.52408e-04)), modes)
    )


def dof2() -> Problem:
    """Two squared frequency ratios; lognormal stiffnesses; the likelihood is not normalised.

    The classic two-storey frame (Beck and Au 2002). The paper prints 1.4190e-3 for its own, unprinted parameters.
    """
    prior = Prior(
        {
            "theta1": stats.lognorm(0.497868, scale=np.exp(0.510237)),
            "theta2": stats.lognorm(0.626675, scale=np.exp(0.169578)),
        }
    )
    modes = (
        Mode("theta1 below theta2", 0.5308, lambda theta: theta[..., 0] < theta[..., 1]),
        Mode("theta1 above theta2", 0.4692, lambda theta: theta[..., 0] >= theta[..., 1]),
    )
    likelihood = GaussianLikelihood(squared_ratios, [1.0, 1.0], 1.0 / 16.0, normalized=False)
    return Problem(
        "dof2", "two-storey frame, two modes", prior, likelihood, Reference(float(np.log(1.5095e-03)), modes)
    )


_MASS3 = np.array([1000.0, 1200.0, 800.0])
_MEASURED3 = np.array([11.9191, 26.7954, 56.5167])


def frequencies3(theta: Array) -> Array:
    """Natural frequencies in Hz, ascending, of the three-storey frame; shape (..., 3)."""
    k1, k2, k3 = np.moveaxis(21.6e6 * np.asarray(theta), -1, 0)
    zero = np.zeros_like(k1)
    stiffness = np.stack(
        [np.stack([k1, -k1, zero], -1), np.stack([-k1, k1 + k2, -k2], -1), np.stack([zero, -k2, k2 + k3], -1)], -2
    )
    root = np.sqrt(_MASS3)
    return np.sqrt(np.linalg.eigvalsh(stiffness / np.outer(root, root))) / (2.0 * np.pi)


_MASS2 = np.array([16.5e3, 16.1e3])
_MEASURED2 = np.array([3.13, 9.83])


def frequencies2(theta: Array) -> Array:
    """Natural frequencies in Hz, ascending, of the two-storey frame; shape (..., 2)."""
    k1, k2 = np.moveaxis(29.7e6 * np.asarray(theta), -1, 0)
    m1, m2 = _MASS2
    a, b = (k1 + k2) / m1, k2 / m2
    half, gap = 0.5 * (a + b), np.sqrt(0.25 * (a - b) ** 2 + k2**2 / (m1 * m2))
    return np.sqrt(np.stack([half - gap, half + gap], -1)) / (2.0 * np.pi)


def squared_ratios(theta: Array) -> Array:
    """Squared frequencies of the two-storey frame by the measured ones; shape (..., 2)."""
    return (frequencies2(theta) / _MEASURED2) ** 2
