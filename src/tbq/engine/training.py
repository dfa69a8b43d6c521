"""From finished runs to a surrogate: of the outputs where there are any and they can be modelled, else of log L."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tbq.common.types import Array
from tbq.engine import output_checks
from tbq.evidence.population import Population
from tbq.gp.kernels import KernelChoice
from tbq.problem.evaluation import Evaluation, Status, noise_sd
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.problem.settings import Settings
from tbq.problem.tuning import Tuning
from tbq.surrogate import inflation, levels, noisy_reduction, reduction, selection
from tbq.surrogate.data import Data
from tbq.surrogate.feasibility import Bounded
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.protocol import Surrogate
from tbq.surrogate.warp import Frame

GAVE_UP = "The outputs are rough: the log-likelihoods were learned instead, which tell more of the evidence."


@dataclass(frozen=True)
class Runs:
    """What there is to learn from."""

    evaluations: tuple[Evaluation, ...]
    prior: Prior
    settings: Settings
    likelihood: GaussianLikelihood | None  # the data, where outputs can be learned
    coarse: tuple[Evaluation, ...] = ()  # of a coarse model
    found: bool = False  # whether it is known where the posterior is


@dataclass(frozen=True)
class Memory:
    """What one fit leaves to the next, for either surrogate."""

    values: selection.Memory = field(default_factory=selection.Memory)
    outputs: reduction.Memory = field(default_factory=reduction.Memory)
    objection: str = ""  # why the outputs may not be modelled well
    compared_at: int = 0  # runs when outputs were last compared with log-likelihoods


def fit(runs: Runs, gamma: float, inflation: float, memory: Memory, frame: Frame) -> tuple[Surrogate[Any], Memory]:
    """The surrogate that all runs so far make, and what the next fit should know of it."""
    if runs.settings.surrogate == "log_likelihood":
        return fit_values(runs, gamma, inflation, memory, frame)
    assert runs.likelihood is not None
    seen = [e for e in runs.evaluations if e.outputs is not None]
    z = runs.prior.simulated.to_working(np.array([e.theta for e in seen]))
    outputs = np.array([e.outputs for e in seen])
    kernel, tuning = runs.settings.kernel, runs.settings.tuning
    surrogate, remembered = learned_outputs(
        z, outputs, runs.likelihood, runs.prior, kernel, memory.outputs, tuning, coarse_of(runs)
    )
    surrogate = replace(surrogate, inflation=inflation)
    return surrogate, replace(memory, outputs=remembered, objection=output_checks.rough(surrogate, tuning))


def learned_outputs(
    z: Array,
    outputs: Array,
    likelihood: GaussianLikelihood,
    prior: Prior,
    kernel: KernelChoice,
    memory: reduction.Memory,
    tuning: Tuning,
    coarse: levels.Coarse | None = None,
) -> tuple[Any, reduction.Memory]:
    """A surrogate of outputs, whatever is known of the noise, with a coarse model where there is one."""
    if likelihood.noise_model is not None:
        return noisy_reduction.fit(z, outputs, likelihood, prior, kernel, memory, tuning, coarse)
    if coarse is not None:
        return levels.fit(z, outputs, coarse, likelihood, prior, kernel, memory, tuning)
    return reduction.fit(z, outputs, likelihood, prior, kernel, memory, tuning)


def coarse_of(runs: Runs) -> levels.Coarse | None:
    """What the coarse model returned; None where that is too little to learn from."""
    seen = [e for e in runs.coarse if e.outputs is not None and np.isfinite(e.outputs).any()]
    complete = sum(bool(np.isfinite(e.outputs).all()) for e in seen if e.outputs is not None)
    if complete < runs.settings.tuning.fewest_runs:
        return None
    z = runs.prior.simulated.to_working(np.array([e.theta for e in seen]))
    return levels.Coarse(z, np.array([e.outputs for e in seen]))


def fit_values(
    runs: Runs, gamma: float, inflation: float, memory: Memory, frame: Frame | None
) -> tuple[LogNormal, Memory]:
    """A surrogate of the log-likelihoods."""
    data, tuning = _data(runs, gamma, frame), runs.settings.tuning
    surrogate, values = selection.fit(data, runs.settings.kernel, memory.values)
    surrogate = replace(_guarded(runs, surrogate), cap=tuning.mean_cap, inflation=inflation)
    if is_far(runs):  # likely places before vague ones
        surrogate = replace(surrogate, clip=tuning.far_clip)
    return surrogate, replace(memory, values=values)


def _guarded(runs: Runs, surrogate: LogNormal) -> LogNormal:
    """With its guard only where the posterior is far: elsewhere that would deny modes that no run came near."""
    return surrogate if is_far(runs) else surrogate.unguarded


def is_far(runs: Runs) -> bool:
    """Whether half of the initial design is far below the best run, as the posterior is from most of the prior."""
    tuning = runs.settings.tuning
    y = np.array([e.log_likelihood for e in runs.evaluations if e.status is Status.OK])
    limit = tuning.far_depth * runs.prior.simulated.dim
    return bool(tuning.ceiling and len(y) and np.max(y) - np.median(y[: runs.settings.n_initial]) > limit)


def frame_of(population: Population, prior: Prior) -> Frame:
    """The coordinates of a population in the simulator's parameters, which come first."""
    return Frame.of(population.moved[:, : prior.simulated.dim])


def deflated(surrogate: Surrogate[Any], deflation: float) -> Surrogate[Any]:
    """With the mean of L that tested predictions support; that of outputs needs neither cap nor guess."""
    if isinstance(surrogate, Bounded):
        return replace(surrogate, inner=deflated(surrogate.inner, deflation))
    return replace(surrogate, deflation=deflation) if isinstance(surrogate, LogNormal) else surrogate


def rivals(runs: Runs, gamma: float, deflation: float, memory: Memory) -> list[tuple[Surrogate[Any], float]]:
    """Other surrogates of the log-likelihoods that the same runs make plausible, with the nats that they are behind."""
    if runs.settings.surrogate == "outputs":
        return []
    found = selection.rivals(_data(runs, gamma, memory.values.frame), memory.values)
    cap = runs.settings.tuning.mean_cap
    return [(replace(_guarded(runs, s), cap=cap, deflation=deflation), behind) for s, behind in found]


def _data(runs: Runs, gamma: float, frame: Frame | None) -> Data:
    """Points, log-likelihoods and what is known of their noise; where nothing is, it may have to be learned."""
    good = [e for e in runs.evaluations if e.status is Status.OK]
    y = np.array([e.log_likelihood for e in good])
    z = runs.prior.simulated.to_working(np.array([e.theta for e in good]))
    tuning = runs.settings.tuning
    known = np.array([noise_sd(e, runs.settings.log_likelihood_noise or 0.0) for e in good])
    where = {"far": is_far(runs), "found": runs.found}
    noise = tuning.noise_sd**2 + known**2
    return Data(z, y, noise, gamma, frame, tuning, learns_noise=not _noise_is_known(runs), **where)


def _noise_is_known(runs: Runs) -> bool:
    return runs.settings.log_likelihood_noise is not None or any(
        e.log_likelihood_sd is not None for e in runs.evaluations
    )


def further_noise(runs: Runs, memory: Memory) -> float:
    """Standard deviation in nats of the noise that a further run's log-likelihood has: given, returned or learned."""
    if runs.settings.surrogate == "outputs":
        return 0.0
    if not _noise_is_known(runs):
        return float(np.sqrt(memory.values.noise))
    given = runs.settings.log_likelihood_noise or 0.0
    return float(np.median([noise_sd(e, given) for e in runs.evaluations if e.status is Status.OK] or [given]))


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
    factor = inflation.inflation(otherwise.tuning, ())
    values, _ = fit_values(replace(runs, settings=otherwise), 1.0, factor, memory, frame_of(population, runs.prior))
    log_likelihood = np.array([e.log_likelihood for e in runs.evaluations])
    return output_checks.knows_better(
        values, surrogate, log_likelihood, population, runs.prior.simulated, runs.settings, rng
    )


def compare_with_values(
    runs: Runs, memory: Memory, surrogate: Surrogate[Any], population: Population, rng: np.random.Generator
) -> Memory:
    """Ask the log-likelihoods of the same runs for the evidence; an objection where they contradict."""
    if memory.objection or any(e.status is Status.INFEASIBLE for e in runs.evaluations):  # they do not know its border
        return memory
    tuning = runs.settings.tuning
    factor = inflation.inflation(tuning, ())
    values, _ = fit_values(runs, 1.0, factor, memory, frame_of(population, runs.prior))
    log_likelihood = np.array([e.log_likelihood for e in runs.evaluations if e.status is Status.OK])
    given = log_likelihood, population, runs.prior.simulated, tuning, rng
    return replace(memory, objection=output_checks.contradicted(surrogate, values, *given))
