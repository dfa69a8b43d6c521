"""Calibrations with a coarse model beside the fine one: good ones, poor ones, and some of no use at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import stats

from tbq.common.errors import SimulatorError
from tbq.common.types import Array
from tbq.problem.experiment import Model
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior


@dataclass(frozen=True)
class Case:
    """A simulator of two levels, and data."""

    problem: str  # whose evidence it has: those of the same problem differ in the coarse model alone
    prior: Prior
    model: Model
    coarse: Model
    observed: Array
    noise: Array | float
    cost: float  # of a coarse run, in fine ones
    most_fine: float  # fine runs that it should need at most

    def likelihood(self, levels: int = 2) -> GaussianLikelihood:
        below = {"coarse": self.coarse, "cost": self.cost} if levels == 2 else {}
        return GaussianLikelihood(self.model, self.observed, self.noise, **below)  # type: ignore[arg-type]


def battery_case() -> Case:
    """A battery module of finite elements: linear ones and two modes of decay for quadratic ones and twelve."""
    from tbq.problems import battery

    problem = battery.battery()
    return Case(
        "battery", problem.prior, battery.model, battery.coarse_model, battery.OBSERVED, battery.NOISE, 0.01, 12
    )


# --- an oscillator ------------------------------------------------------------------------------------------

TIMES = np.linspace(0.1, 4.0, 40)


def decaying(theta: Array) -> Array:
    """x at 40 times, for x'' + 2ζω x' + ω² x = 0 with x(0) = a, x'(0) = v; theta = ω, ζ, a, v."""
    w, z, a, v = (theta[..., i, None] for i in range(4))
    damped = w * np.sqrt(1.0 - z**2)
    wave = a * np.cos(damped * TIMES) + (v + z * w * a) / damped * np.sin(damped * TIMES)
    return np.asarray(np.exp(-z * w * TIMES) * wave)


def euler(theta: Array) -> Array:
    """The same by Euler's explicit method in steps of 0.02."""
    w, z, x, v = (theta[..., i] for i in range(4))
    found, h = [], 0.02
    for k in range(200):
        x, v = x + h * v, v - h * (2.0 * z * w * v + w * w * x)
        if k % 5 == 4:
            found.append(x)
    return np.stack(found, axis=-1)


def oscillator() -> Case:
    prior = Prior(
        {
            "w": stats.uniform(2.0, 2.0),
            "z": stats.uniform(0.02, 0.2),
            "a": stats.uniform(0.5, 1.0),
            "v": stats.uniform(-1.0, 2.0),
        }
    )
    clean = decaying(np.array([3.0, 0.1, 1.0, 0.3]))
    data = clean + 0.05 * np.random.default_rng(7).standard_normal(40)
    return Case("oscillator", prior, decaying, euler, data, 0.05, 0.01, 14)


# --- a beam -------------------------------------------------------------------------------------------------

TRUE = np.array([0.85, 1.1, 1.0, 18.0, 0.08, 1.0])


def frequencies(theta: Array, elements: int = 40) -> Array:
    """The first four of a clamped beam: stiffness of its thirds, root spring, tip mass, density."""
    if theta.ndim > 1:
        return np.array([frequencies(row, elements) for row in theta])
    n, h = elements, 1.0 / elements
    third = np.repeat(theta[:3], 4 * n).reshape(n, 12).mean(axis=1)  # mean stiffness of an element
    bending = np.array([[12, 6 * h, -12, 6 * h], [6 * h, 4 * h * h, -6 * h, 2 * h * h]])
    bending = np.vstack([bending, -bending[0], [6 * h, 2 * h * h, -6 * h, 4 * h * h]]) / h**3
    inertia = np.array([[156, 22 * h, 54, -13 * h], [22 * h, 4 * h * h, 13 * h, -3 * h * h]])
    swapped = inertia[:, [2, 3, 0, 1]][:, :] * np.array([1.0, -1.0, 1.0, -1.0])
    inertia = theta[5] * h / 420.0 * np.vstack([inertia, swapped * np.array([[1.0], [-1.0]])])
    stiffness, mass = np.zeros((2 * n + 2, 2 * n + 2)), np.zeros((2 * n + 2, 2 * n + 2))
    for e in range(n):
        s = slice(2 * e, 2 * e + 4)
        stiffness[s, s] += third[e] * bending
        mass[s, s] += inertia
    stiffness[1, 1] += theta[3]
    mass[-2, -2] += theta[4]
    root = np.linalg.cholesky(mass[1:, 1:])
    inner = np.linalg.solve(root, np.linalg.solve(root, stiffness[1:, 1:]).T)
    return np.sqrt(np.linalg.eigvalsh(0.5 * (inner + inner.T))[:4])


def wrong_sign(theta: Array) -> Array:
    """More tip mass acts as less."""
    turned = np.array(theta, dtype=float)
    turned[..., 4] = 0.2 - turned[..., 4]
    return frequencies(turned, 4)


def useless(theta: Array) -> Array:
    """Numbers of the right size that have nothing to do with the beam."""
    scaled = np.log(theta[..., :4] / np.array([1.0, 1.0, 1.0, 20.0])) / 0.2
    rest = np.stack([(theta[..., 4] - 0.1) / 0.06, (theta[..., 5] - 1.0) / 0.05], axis=-1)
    u = np.concatenate([scaled, rest], axis=-1)
    mix = np.cos(np.outer([1.0, 2.3, 3.1, 4.7], np.arange(1, 7)))
    bent = 1.0 + 0.1 * np.sin(0.6 * u @ mix.T + 1.0) + 0.05 * (u[..., 4] * u[..., 2])[..., None]
    return np.asarray(frequencies(TRUE) * bent)


def failing(theta: Array) -> Array:
    """Fails on four tenths of the posterior."""
    if theta[5] + 0.3 * (theta[4] - 0.08) > 1.02:
        raise SimulatorError("no convergence")
    return frequencies(theta, 4)


def beam(coarse: Model, most_fine: float) -> Case:
    prior = Prior(
        {
            **{f"ei{i}": stats.lognorm(0.2) for i in (1, 2, 3)},
            "spring": stats.lognorm(0.3, scale=20.0),
            "tip": stats.uniform(0.0, 0.2),
            "rho": stats.lognorm(0.05),
        }
    )
    clean = frequencies(TRUE)
    data = clean + 0.01 * clean * np.random.default_rng(3).standard_normal(4)
    return Case("beam", prior, frequencies, coarse, data, 0.01 * clean, 0.02, most_fine)


# ``most_fine`` of a coarse model of no use is a fifth more than the 55 runs without one
CASES: dict[str, Callable[[], Case]] = {
    "battery": battery_case,
    "oscillator": oscillator,
    "beam": partial(beam, partial(frequencies, elements=4), 26),
    "beam_2": partial(beam, partial(frequencies, elements=2), 45),
    "wrong_sign": partial(beam, wrong_sign, 66),
    "useless": partial(beam, useless, 66),
    "failing": partial(beam, failing, 66),
}
