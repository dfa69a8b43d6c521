"""From finished runs to a surrogate: of the outputs where there are any and they can be modelled, else of log L."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tbq.common.types import Array
from tbq.engine import output_checks
from tbq.evidence.population import Population
from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.problem.settings import Settings
from tbq.surrogate import inflation, reduction, selection
from tbq.surrogate.feasibility import Bounded
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.protocol import Surrogate

GAVE_UP = "The outputs are rough: the log-likelihoods were learned instead, which tell more of the evidence."


@dataclass(frozen=True)
class Runs:
    """What there is to learn from."""

    evaluations: tuple[Evaluation, ...]
    prior: Prior
    settings: Settings
    likelihood: GaussianLikelihood | None  # the data, where outputs can be learned


@dataclass(frozen=True)
class Memory:
    """What one fit leaves to the next, for either surrogate."""

    values: selection.Memory = field(default_factory=selection.Memory)
    outputs: reduction.Memory = field(default_factory=reduction.Memory)
    objection: str = ""  # why the outputs may not be modelled well
    compared_at: int = 0  # runs when outputs were last compared with log-likelihoods


def fit(runs: Runs, gamma: float, inflation: float, memory: Memory) -> tuple[Surrogate[Any], Memory]:
    """The surrogate that all runs so far make, and what the next fit should know of it."""
    if runs.settings.surrogate == "log_likelihood":
        return fit_values(runs, gamma, inflation, memory)
    assert runs.likelihood is not None
    seen = [e for e in runs.evaluations if e.outputs is not None]
    z = runs.prior.to_working(np.array([e.theta for e in seen]))
    outputs = np.array([e.outputs for e in seen])
    kernel, tuning = runs.settings.kernel, runs.settings.tuning
    surrogate, remembered = reduction.fit(z, outputs, runs.likelihood, runs.prior, kernel, memory.outputs, tuning)
    surrogate = replace(surrogate, inflation=inflation)
    return surrogate, replace(memory, outputs=remembered, objection=output_checks.rough(surrogate, tuning))


def fit_values(runs: Runs, gamma: float, inflation: float, memory: Memory) -> tuple[LogNormal, Memory]:
    """A surrogate of the log-likelihoods."""
    surrogate, values = selection.fit(*_values(runs), runs.settings.kernel, gamma, memory.values, runs.settings.tuning)
    surrogate = replace(surrogate, cap=runs.settings.tuning.mean_cap, inflation=inflation)
    return surrogate, replace(memory, values=values)


def deflated(surrogate: Surrogate[Any], deflation: float) -> Surrogate[Any]:
    """With the mean of L that tested predictions support; that of outputs needs neither cap nor guess."""
    if isinstance(surrogate, Bounded):
        return replace(surrogate, inner=deflated(surrogate.inner, deflation))
    return replace(surrogate, deflation=deflation) if isinstance(surrogate, LogNormal) else surrogate


def rivals(runs: Runs, gamma: float, deflation: float, memory: Memory) -> list[tuple[Surrogate[Any], float]]:
    """Other surrogates of the log-likelihoods that the same runs make plausible, with the nats that they are behind."""
    if runs.settings.surrogate == "outputs":
        return []
    found = selection.rivals(*_values(runs), gamma, memory.values, runs.settings.tuning)
    return [(replace(s, cap=runs.settings.tuning.mean_cap, deflation=deflation), behind) for s, behind in found]


def _values(runs: Runs) -> tuple[Array, Array, Array]:
    """Points, log-likelihoods and what is taken for their noise."""
    good = [e for e in runs.evaluations if e.status is Status.OK]
    y = np.array([e.log_likelihood for e in good])
    z = runs.prior.to_working(np.array([e.theta for e in good]))
    return z, y, np.full(len(y), runs.settings.tuning.noise_sd**2)


def due_for_comparison(runs: Runs, memory: Memory) -> bool:
    """Whether outputs have to be compared with log-likelihoods again: every few runs, where all have all outputs."""
    done, tuning = runs.evaluations, runs.settings.tuning
    if runs.settings.surrogate != "outputs" or runs.settings.otherwise is None:
        return False
    enough = len(done) >= tuning.output_least_runs and len(done) - memory.compared_at >= tuning.output_compare_every
    return enough and all(e.status is Status.OK for e in done)  # leaving one out needs all outputs of all runs


def better_without_outputs(
    runs: Runs, memory: Memory, surrogate: Any, population: Population, rng: np.random.Generator
) -> bool:
    """Whether the log-likelihoods of the same runs say more of the evidence, as with rough outputs."""
    otherwise = runs.settings.otherwise
    assert otherwise is not None
    values, _ = fit_values(replace(runs, settings=otherwise), 1.0, inflation.inflation(otherwise.tuning, ()), memory)
    log_likelihood = np.array([e.log_likelihood for e in runs.evaluations])
    return output_checks.knows_better(values, surrogate, log_likelihood, population, runs.settings.tuning, rng)


def compare_with_values(runs: Runs, memory: Memory, surrogate: Surrogate[Any], population: Population) -> Memory:
    """Ask the log-likelihoods of the same runs for the evidence; an objection where they contradict."""
    if memory.objection or any(e.status is Status.INFEASIBLE for e in runs.evaluations):  # they do not know its border
        return memory
    tuning = runs.settings.tuning
    values, memory = fit_values(runs, 1.0, inflation.inflation(tuning, ()), memory)
    return replace(memory, objection=output_checks.contradicted(surrogate, values, population, tuning))
