"""Calibrations whose noise is unknown: simulators, priors, synthetic data, and what is said of the noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tbq.common.types import Array
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.modal import ModalLikelihood
from tbq.problem.noise import Discrepancy, Exponential
from tbq.problem.prior import Prior


@dataclass(frozen=True)
class Case:
    """A likelihood whose noise has parameters, and the prior of the simulator's."""

    title: str
    prior: Prior
    likelihood: GaussianLikelihood
    most_runs: int  # that it should need


def decay() -> Case:
    """Two parameters, twelve outputs, one unknown noise."""
    t = np.linspace(0.25, 5.0, 12)

    def model(theta: Array) -> Array:
        return np.asarray(theta[..., 0, None] * np.exp(-theta[..., 1, None] * t))

    data = model(np.array([1.3, 0.8])) + 0.05 * np.random.default_rng(1).standard_normal(12)
    prior = Prior({"A": stats.uniform(0.2, 2.8), "k": stats.uniform(0.1, 2.9)})
    return Case("decay", prior, GaussianLikelihood(model, data, stats.loguniform(0.005, 0.5)), 14)


def lotka_volterra(theta: Array, years: int = 20, substeps: int = 12) -> Array:
    """Logarithms of hares and lynxes at 0…20 years, (..., 42), by Runge and Kutta's method in logarithms."""
    a, b, c, d = (theta[..., i] for i in range(4))
    s = np.log(theta[..., 4:6])
    h, path = 1.0 / substeps, [s]

    def slope(s: Array) -> Array:
        e = np.exp(np.clip(s, -30.0, 30.0))
        return np.stack([a - b * e[..., 1], d * e[..., 0] - c], axis=-1)

    for _ in range(years):
        for _ in range(substeps):
            k1 = slope(s)
            k2 = slope(s + 0.5 * h * k1)
            k3 = slope(s + 0.5 * h * k2)
            s = s + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + slope(s + h * k3))
        path.append(s)
    y = np.stack(path, axis=-1)
    return y.reshape(*y.shape[:-2], -1)


def lynx() -> Case:
    """Six parameters of a differential equation, two groups of 21 outputs, each with an unknown noise."""
    truth = np.array([0.55, 0.028, 0.8, 0.024, 33.0, 5.9])
    data = lotka_volterra(truth) + 0.25 * np.random.default_rng(2).standard_normal(42)
    centre, sds = [0.6, 0.03, 0.8, 0.025, 30.0, 6.0], [0.2, 0.25, 0.2, 0.25, 0.3, 0.3]
    names = ["a", "b", "c", "d", "hares", "lynxes"]
    prior = Prior({n: stats.lognorm(s, scale=c) for n, s, c in zip(names, sds, centre, strict=True)})
    groups = {"hare": slice(0, 21), "lynx": slice(21, 42)}
    noise = {name: stats.lognorm(1.0, scale=0.37) for name in groups}
    return Case("ODE", prior, GaussianLikelihood(lotka_volterra, data, noise, groups=groups), 80)


def correlated() -> Case:
    """Four parameters, a hundred outputs, residuals correlated over an unknown length."""
    t = np.arange(100) * 0.1

    def model(theta: Array) -> Array:
        a, k, w, b = (theta[..., i, None] for i in range(4))
        return np.asarray(a * np.exp(-k * t) * np.cos(w * t) + b)

    covariance = 0.1**2 * np.exp(-np.abs(t[:, None] - t) / 0.5)
    rng = np.random.default_rng(4)
    data = model(np.array([1.0, 0.2, 2.0, 0.3])) + np.linalg.cholesky(covariance) @ rng.standard_normal(100)
    prior = Prior(
        {
            "a": stats.uniform(0.3, 1.7),
            "k": stats.uniform(0.0, 1.0),
            "w": stats.uniform(1.2, 1.6),
            "b": stats.norm(0, 0.5),
        }
    )
    correlation = Exponential(length=stats.loguniform(0.05, 5.0))
    noise = stats.loguniform(0.01, 1.0)
    likelihood = GaussianLikelihood(model, data, noise, coordinates=t, correlation=correlation)
    return Case("AR(1) residuals", prior, likelihood, 45)


_TIMES = np.linspace(0.2, 10.0, 50)


def oscillator(theta: Array) -> Array:
    """A linear oscillator let go: frequency, damping ratio, amplitude."""
    w, zeta, x0 = (theta[..., i, None] for i in range(3))
    damped = w * np.sqrt(1.0 - zeta**2)
    phase = damped * _TIMES
    return np.asarray(x0 * np.exp(-zeta * w * _TIMES) * (np.cos(phase) + zeta * w / damped * np.sin(phase)))


def drift() -> Case:
    """An oscillator whose sensor drifts, which the model does not know of; with discrepancy and unknown noise."""
    return _drift(Discrepancy(amplitude=stats.loguniform(0.005, 0.5), length=stats.loguniform(0.2, 5.0)))


def no_discrepancy() -> Case:
    """The same data without a discrepancy."""
    return _drift(None)


def _drift(discrepancy: Discrepancy | None) -> Case:
    truth = oscillator(np.array([2.0, 0.04, 1.0]))
    data = truth + 0.15 * np.tanh((_TIMES - 4.0) / 2.0) + 0.02 * np.random.default_rng(3).standard_normal(50)
    prior = Prior({"w": stats.uniform(1.5, 1.0), "zeta": stats.uniform(0.01, 0.14), "x0": stats.uniform(0.7, 0.6)})
    likelihood = GaussianLikelihood(
        oscillator, data, stats.loguniform(0.005, 0.5), coordinates=_TIMES, discrepancy=discrepancy
    )
    return Case("missing drift" if discrepancy else "missing drift, not allowed for", prior, likelihood, 30)


def replicates() -> Case:
    """Three tests of the decay, five values of which are missing."""
    base = decay()
    model = base.likelihood.experiments[0].model
    data = model(np.array([1.3, 0.8])) + 0.05 * np.random.default_rng(6).standard_normal((3, 12))
    data.flat[[2, 9, 14, 27, 30]] = np.nan
    return Case("replicates and gaps", base.prior, GaussianLikelihood(model, data, stats.loguniform(0.005, 0.5)), 14)


def outliers() -> Case:
    """The decay with two data that are far off, and Student errors of four degrees of freedom."""
    base = decay()
    model = base.likelihood.experiments[0].model
    data = base.likelihood.observed.copy()
    data[[3, 8]] += [0.5, -0.4]
    likelihood = GaussianLikelihood(model, data, stats.loguniform(0.005, 0.5), freedom=4.0)
    return Case("outliers, Student errors", base.prior, likelihood, 25)


def frame(theta: Array) -> tuple[Array, Array]:
    """Three storeys that sway in x and in y: their frequencies in their order, and shapes."""
    chain = np.array([[2.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
    values, shapes = np.linalg.eigh(np.kron(np.diag(theta[:2]), chain))
    return np.sqrt(values), shapes


_STIFFNESS = {"kx": stats.uniform(0.5, 1.5), "ky": stats.uniform(0.5, 1.5)}


def swap() -> Case:
    """Two stiffnesses of a frame whose first two modes swap within the prior; frequencies and shapes of three modes."""
    f, shapes = frame(np.array([1.0, 1.15]))
    rng = np.random.default_rng(7)
    measured = shapes[:, :3] * np.array([-3.0, 0.5, 7.0]) + 0.03 * rng.standard_normal((6, 3))
    frequencies = f[:3] * (1.0 + 0.02 * rng.standard_normal(3))
    noise = stats.lognorm(0.7, scale=0.02)
    likelihood = ModalLikelihood(frame, frequencies, measured, frequency_noise=noise, shape_noise=0.03)
    return Case("modes that swap", Prior(_STIFFNESS), likelihood, 30)


def two_explanations() -> Case:
    """The same without shapes: nobody knows which of the two modes sways in x."""
    f, _ = frame(np.array([1.0, 1.3]))
    frequencies = f[:2] * (1.0 + 0.02 * np.random.default_rng(8).standard_normal(2))
    return Case(
        "modes without shapes", Prior(_STIFFNESS), ModalLikelihood(frame, frequencies, frequency_noise=0.02), 60
    )


CASES: dict[str, Callable[[], Case]] = {
    "decay": decay,
    "lynx": lynx,
    "correlated": correlated,
    "drift": drift,
    "no_discrepancy": no_discrepancy,
    "replicates": replicates,
    "outliers": outliers,
    "swap": swap,
    "two_explanations": two_explanations,
}
