"""What a model would return, by what was learned from its runs: outputs at any θ, without a run.

A surrogate of outputs knows components: misfits in units of the noise, principal components of these, or logarithms.
All outputs are linear in the components' values, and the runs themselves say how. Where log-likelihoods were learned
but runs have outputs, processes are fitted to these now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tbq.common.types import Array
from tbq.gp.levels import Processes
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.tuning import Tuning
from tbq.result.result import Result
from tbq.surrogate import noisy_reduction, reduction
from tbq.surrogate.feasibility import Bounded
from tbq.surrogate.noisy_outputs import NoisyOutputs
from tbq.surrogate.outputs import Component, Outputs, misfits


@dataclass(frozen=True)
class Emulator:
    """Outputs as random functions of working coordinates."""

    batch: Processes  # the processes, one for each component
    components: tuple[Component, ...]
    inflation: float  # of the components' standard deviations
    intercept: Array  # (m,)
    slopes: Array  # (components, m)
    left: Array  # (m,): standard deviation of what no component carries

    def mean(self, z: Array) -> Array:
        """Expected outputs, (n, m), at the components' own means."""
        return self.outputs(self.batch.project(z).mean)

    def outputs(self, latent: Array) -> Array:
        """Outputs (n, m) of values (components, n) of the processes."""
        return self.intercept + misfits(self.components, latent)[0].T @ self.slopes

    def sample(self, z: Array, rng: np.random.Generator) -> Array:
        """A draw of the outputs at each row of z by itself, (n, m)."""
        points = self.batch.project(z)
        sd = self.inflation * np.sqrt(points.variance)
        latent = points.mean + sd * rng.standard_normal(sd.shape)
        return self.outputs(latent) + self.left * rng.standard_normal((len(z), len(self.left)))


def emulator(result: Result) -> Emulator | None:
    """The outputs of a result's model; None where no outputs, or too few, are known."""
    likelihood = result.likelihood
    runs = [e for e in result.evaluations if e.outputs is not None and np.all(np.isfinite(e.outputs))]
    if likelihood is None or result.surrogate is None or not runs:
        return None
    prior = result.prior.simulated
    z = prior.to_working(np.array([e.theta for e in runs]))
    outputs = np.array([e.outputs for e in runs])
    surrogate = result.surrogate.inner if isinstance(result.surrogate, Bounded) else result.surrogate
    if not isinstance(surrogate, Outputs | NoisyOutputs):
        if len(runs) < prior.dim + 2:
            return None
        of: Any = reduction if likelihood.noise_model is None else noisy_reduction  # of the fine runs alone
        surrogate, _ = of.fit(z, outputs, likelihood, result.prior, "auto", reduction.Memory(), Tuning())
    return _of_components(surrogate, z, outputs)


def _of_components(surrogate: Outputs | NoisyOutputs, z: Array, outputs: Array) -> Emulator | None:
    """Least squares through the runs, which are met exactly where the components carry all."""
    components = surrogate.components
    if len(z) <= len(components):
        return None
    found, _ = misfits(components, surrogate.batch.project(z).mean)
    design = np.column_stack([np.ones(len(z)), found.T])
    coefficients = np.asarray(np.linalg.lstsq(design, outputs)[0], dtype=float)
    left = np.sqrt(np.mean((outputs - design @ coefficients) ** 2, axis=0))
    return Emulator(surrogate.batch, components, surrogate.inflation, coefficients[0], coefficients[1:], left)


# --- the fit to the data ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """Observed against what the posterior predicts, output by output."""

    likelihood: GaussianLikelihood
    noise_sd: Array  # (m,): the mean over the posterior, where it is itself unknown
    outputs: Array  # (n, m): the model at posterior draws, as far as the surrogate knows it
    draws: Array  # (n, m): with noise, what would be measured
    source: str  # where they come from, in words

    @property
    def residuals(self) -> Array:
        """Observed less the predicted median, in units of the noise; (m,)."""
        return np.asarray((self.likelihood.observed - np.median(self.outputs, axis=0)) / self.noise_sd)

    @property
    def covered(self) -> float:
        """Fraction of the data within their 90 % predictive intervals."""
        low, high = np.quantile(self.draws, [0.05, 0.95], axis=0)
        seen = np.isfinite(observed := self.likelihood.observed)
        return float(np.mean(((observed >= low) & (observed <= high))[seen]))


def fit(result: Result, n: int = 1000) -> Fit | None:
    """The posterior predictive by the surrogate, without a run; None where there are no outputs to predict."""
    model = emulator(result)
    if model is None or result.likelihood is None:
        return None
    theta = result.samples[:: max(len(result.samples) // n, 1)]
    rng = np.random.default_rng(0)
    outputs = model.sample(result.prior.to_working(theta)[:, : result.prior.simulated.dim], rng)
    return compare_with_data(result.likelihood, theta, outputs, "the surrogate, without new runs", rng)


def compare_with_data(
    likelihood: GaussianLikelihood, theta: Array, outputs: Array, source: str, rng: np.random.Generator
) -> Fit:
    """The data beside outputs at posterior draws, to which noise is added here."""
    sd = likelihood.noise_scales(theta, outputs).mean(axis=0)
    draws = outputs + likelihood.noise(theta, rng, outputs)
    if likelihood.noise_model is not None and likelihood.noise_model.has_discrepancy:
        draws = draws + likelihood.noise_model.discrepancy(likelihood.noise_parameters(theta), outputs, rng)
    return Fit(likelihood, sd, outputs, draws, source)
