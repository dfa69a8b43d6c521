"""Calibrations of ordinary differential equations: an epidemic, a nerve, an enzyme, predators and prey.

Data are synthetic and rounded, the likelihoods are normalised and have unknown noise. Solutions are by the classical
Runge–Kutta rule with fixed steps, all rows at once; where parameters make it explode the states stay at a wall. The
evidences, by benchmarks/real_references.py, are of these solutions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special, stats

from tbq.common.types import Array
from tbq.problem.prior import Prior
from tbq.problems.base import Problem, Reference
from tbq.problems.measured import columns, log_normal_density, numbers


def solve(slope: Callable[[Array], Array], start: Array, step: float, every: int, times: int, wall: float) -> Array:
    """States at ``times`` times, each ``every`` steps after the last: (states, ..., times) of a start (states, ...)."""
    state, states = start, []
    for i in range(every * times):
        k1 = slope(state)
        k2 = slope(state + 0.5 * step * k1)
        k3 = slope(state + 0.5 * step * k2)
        k4 = slope(state + step * k3)
        state = np.clip(state + step / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4), -wall, wall)
        if (i + 1) % every == 0:
            states.append(state)
    return np.stack(states, axis=-1)


# Of 763 people, reported ill on 18 days: infection 1.7, recovery 0.45, 2 at first, 60 % reported, dispersion 15.
ILL = numbers("4 14 25 95 141 166 167 137 63 63 37 26 13 5 1 6 3 4")
PEOPLE = 763.0


def sir5() -> Problem:
    """Susceptible, infected, recovered; a share of the infected is counted, with negative binomial noise."""

    def log_likelihood(theta: Array) -> Array:
        *_, reported, dispersion = columns(theta)
        mean = reported * infected(theta)
        log_share = np.log(mean) - np.log(mean + dispersion)
        ways = special.gammaln(ILL + dispersion) - special.gammaln(dispersion) - special.gammaln(ILL + 1.0)
        return np.sum(ways + ILL * log_share - dispersion * np.log1p(mean / dispersion), axis=-1)

    prior = Prior(
        {
            **{"infection": stats.loguniform(0.01, 20.0), "recovery": stats.loguniform(0.01, 20.0)},
            **{"first": stats.loguniform(0.01, 100.0), "reported": stats.loguniform(0.001, 1.0)},
            "dispersion": stats.loguniform(0.01, 1e4),
        }
    )
    return Problem(
        "sir5",
        "an epidemic, negative binomial counts",
        prior,
        log_likelihood,
        Reference(-74.9667, log_evidence_sd=0.0014),
    )


def infected(theta: Array) -> Array:
    """People who are ill on days 1 to 18, shape (..., 18)."""
    infection, recovery, first = (theta[..., i] for i in range(3))

    def slope(state: Array) -> Array:
        new = infection / PEOPLE * state[0]  # per infected person
        return np.stack([-new * np.exp(state[1]), new - recovery])

    start = np.stack([PEOPLE - first, np.log(first)])  # the logarithm, so that few stay more than none
    return np.exp(solve(slope, start, 0.1, 10, len(ILL), 1e4)[1])


# a 0.2, b 0.3, c 2.6 from −1 and 1, seen at 40 times with noises of 0.3 and 0.15.
VOLTAGE = numbers("""
    -0.28 1.44 2.38 1.89 1.37 1.62 1.62 1.64 1.61 0.27 -0.34 -1.81 -1.60 -1.77 -1.71 -1.36 -1.33 -0.54 1.50 1.98
    1.48 1.22 2.00 1.86 1.24 0.97 0.90 0.03 -1.40 -1.34 -1.63 -2.15 -1.08 -1.05 -0.82 1.69 2.51 1.73 1.92 1.91
""")
RECOVERY = numbers("""
    1.17 1.11 0.60 0.24 -0.05 -0.25 -0.53 -0.88 -0.98 -0.92 -0.90 -0.69 -0.15 0.10 0.75 0.77 1.41 1.18 0.82 0.76
    0.21 -0.11 -0.35 -0.29 -0.74 -1.02 -1.19 -1.04 -0.66 -0.28 0.19 0.43 0.78 0.61 1.34 0.76 0.58 0.22 -0.05
    -0.24
""")


def fitzhugh7() -> Problem:
    """FitzHugh and Nagumo's nerve: three rates, the two states at first, and a noise level of each."""

    def log_likelihood(theta: Array) -> Array:
        *_, noise_voltage, noise_recovery = columns(theta)
        voltage, recovery = nerve(theta)
        return log_normal_density(VOLTAGE - voltage, noise_voltage) + log_normal_density(
            RECOVERY - recovery, noise_recovery
        )

    noise = stats.loguniform(0.01, 10.0)
    prior = Prior(
        {
            **{"a": stats.uniform(-5.0, 10.0), "b": stats.uniform(-5.0, 10.0), "c": stats.loguniform(0.1, 20.0)},
            **{"voltage": stats.uniform(-10.0, 20.0), "recovery": stats.uniform(-10.0, 20.0)},
            **{"noise_voltage": noise, "noise_recovery": noise},
        }
    )
    return Problem(
        "fitzhugh7", "FitzHugh and Nagumo's nerve", prior, log_likelihood, Reference(-18.4335, log_evidence_sd=0.0014)
    )


def nerve(theta: Array) -> Array:
    """Voltage and recovery at t = 0.5, 1, …, 20, shape (2, ..., 40)."""
    a, b, c = (theta[..., i] for i in range(3))

    def slope(state: Array) -> Array:
        voltage, recovery = state
        return np.stack(
            [c * (voltage - voltage * voltage * voltage / 3.0 + recovery), (a - voltage - b * recovery) / c]
        )

    return solve(slope, np.stack([theta[..., 3], theta[..., 4]]), 0.05, 10, len(VOLTAGE), 100.0)


# Fastest rate 0.9, half of it at 2.1; 14 units of signal per unit of product on top of 3, noise of 0.5.
SUBSTRATE = np.array([1.0, 4.0, 10.0])
PRODUCT = numbers("""
    6.51 11.36 14.63 15.59 16.61 18.02 17.13 17.35 10.64 25.15 38.04 46.20 52.14 56.17 57.40 58.72 12.89 34.00
    51.88 71.01 87.93 104.10 116.39 127.93
""")


def enzyme5() -> Problem:
    """Michaelis and Menten's enzyme, from the signal of its product after 1, 3, …, 15 minutes, of three amounts."""

    def log_likelihood(theta: Array) -> Array:
        *_, gain, background, noise = columns(theta)
        return log_normal_density(PRODUCT - background - gain * product(theta), noise)

    prior = Prior(
        {
            **{"fastest": stats.loguniform(0.001, 100.0), "half": stats.loguniform(0.001, 1000.0)},
            **{"gain": stats.loguniform(0.01, 1e4), "background": stats.uniform(-500.0, 1000.0)},
            "noise": stats.loguniform(0.001, 100.0),
        }
    )
    return Problem(
        "enzyme5", "Michaelis and Menten's enzyme", prior, log_likelihood, Reference(-45.3155, log_evidence_sd=0.0015)
    )


def product(theta: Array) -> Array:
    """Substrate used up, for each of the three amounts at eight times, shape (..., 24)."""
    fastest, half = theta[..., 0], theta[..., 1]

    def slope(log_left: Array) -> Array:  # the logarithm, so that none falls below nothing
        return -fastest / (half + np.exp(log_left))

    start = np.stack([np.full(fastest.shape, np.log(amount)) for amount in SUBSTRATE])
    left = np.exp(solve(slope, start, 0.1, 10, 15, 1e6)[..., ::2])
    used = SUBSTRATE.reshape(-1, *([1] * (left.ndim - 1))) - left
    return np.moveaxis(used, 0, -2).reshape(*fastest.shape, len(PRODUCT))


# Growth 0.55, capture 0.028, death 0.8, gain 0.024 from 33 and 6; log-normal noises of 0.22 and 0.25, in 21 years.
PREY = numbers("""
    24.6 58.9 56.7 68.8 32.0 32.2 11.0 13.6 14.8 34.9 33.5 36.5 57.1 56.0 35.4 21.0 10.2 15.3 10.3 21.0 35.2
""")
PREDATORS = numbers("""
    6.8 11.2 13.0 36.2 39.3 63.9 14.3 17.4 8.4 9.0 4.7 6.6 12.5 20.0 45.1 48.7 25.9 15.0 10.9 12.0 5.0
""")


def predators8() -> Problem:
    """Lotka and Volterra's animals: four rates, both numbers in the first year, and a log-normal noise of each."""
    log_prey, log_predators = np.log(PREY), np.log(PREDATORS)
    jacobian = np.sum(log_prey) + np.sum(log_predators)  # the densities are of the numbers

    def log_likelihood(theta: Array) -> Array:
        *_, noise_prey, noise_predators = columns(theta)
        prey, predators = log_animals(theta)
        first = log_normal_density(log_prey - prey, noise_prey)
        return first + log_normal_density(log_predators - predators, noise_predators) - jacobian

    fast, slow, number = stats.loguniform(0.01, 10.0), stats.loguniform(1e-4, 1.0), stats.loguniform(0.1, 1000.0)
    noise = stats.loguniform(0.01, 10.0)
    prior = Prior(
        {
            **{"growth": fast, "capture": slow, "death": fast, "gain": slow},
            **{"prey": number, "predators": number, "noise_prey": noise, "noise_predators": noise},
        }
    )
    return Problem(
        "predators8", "predators and prey", prior, log_likelihood, Reference(-156.7957, log_evidence_sd=0.0014)
    )


def log_animals(theta: Array) -> Array:
    """Logarithms of both numbers in 21 years, shape (2, ..., 21)."""
    growth, capture, death, gain = (theta[..., i] for i in range(4))
    wall = 50.0  # no more animals than e^50

    def slope(state: Array) -> Array:
        prey, predators = np.exp(np.minimum(state, wall))
        return np.stack([growth - capture * predators, gain * prey - death])

    start = np.log(np.stack([theta[..., 4], theta[..., 5]]))
    later = solve(slope, start, 0.05, 20, len(PREY) - 1, wall)
    return np.concatenate([start[..., None], later], axis=-1)


ALL = (sir5, fitzhugh7, enzyme5, predators8)
