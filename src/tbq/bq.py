"""Algorithm 1, Bayesian Quadrature, as an engine: ``init``, ``ask``, ``tell``, ``result``. Pure and deterministic.

The evidence is an integral over the prior, taken on a fixed population of prior points. Each update fits the
surrogate, measures the evidence's coefficient of variation and decides whether to stop; each ``ask`` maximises the
acquisition function over the surrogate, given the runs that are still out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tbq import evidence, models, particles, search
from tbq.acquisition import Target, puq
from tbq.evaluation import Evaluation, Proposal, Status
from tbq.gp import hyperparameter_draws
from tbq.lognormal import LogNormal
from tbq.prior import Prior
from tbq.randomness import stream
from tbq.result import ErrorBudget, Record, Result, Stage, Stop
from tbq.settings import Settings
from tbq.types import Array

_IN_A_ROW = 2  # times the stopping condition must hold
_FINAL_SETS = 8  # independent Sobol sets that give the final evidence and its Monte-Carlo error
_FINAL_SET_SIZE = 2**13
_HYPERPARAMETER_DRAWS = 12
_POSTERIOR_DRAWS = 2000
_POSTERIOR_STEPS = 20
_LEAST_RUNS = 3  # successful runs without which there is no surrogate


@dataclass(frozen=True)
class Learned:
    """What the finished runs say: the surrogate and the evidence under it."""

    surrogate: LogNormal
    target: Target
    candidates: Array  # points worth ranking, chosen from the population
    log_evidence: float
    cov: float
    bound: float


@dataclass(frozen=True)
class State:
    """All that a run is, between two calls."""

    prior: Prior
    settings: Settings
    seed: int
    population: Array  # working coordinates of the prior's quadrature points
    log_prior: Array  # log-density there
    evaluations: tuple[Evaluation, ...] = ()
    pending: tuple[Proposal, ...] = ()
    next_id: int = 0
    memory: models.Memory = field(default_factory=models.Memory)
    learned: Learned | None = None
    satisfied: int = 0
    history: tuple[Record, ...] = ()
    stop: Stop | None = None


def init(prior: Prior, settings: Settings, seed: int) -> State:
    """A run that has seen nothing yet."""
    theta = prior.sample(settings.population, stream(seed, "population"), settings.design)
    population = prior.to_working(theta)
    return State(prior, settings, seed, population, prior.log_density_working(population))


def ask(state: State, n: int = 1) -> tuple[State, list[Proposal]]:
    """Up to ``n`` points to run next (fewer at the end of the budget), remembered as pending."""
    n = min(n, state.settings.max_evaluations - len(state.evaluations) - len(state.pending))
    if state.stop is not None or n <= 0:
        return state, []
    from_design = min(n, max(state.settings.n_initial - state.next_id, 0))
    if from_design or state.learned is None:
        proposals = _design_points(state, from_design or n)
    else:
        proposals = _chosen_points(state, state.learned, n)
    return replace(
        state, pending=state.pending + tuple(proposals), next_id=state.next_id + len(proposals)
    ), proposals


def tell(state: State, evaluations: Sequence[Evaluation]) -> State:
    """Take in finished runs, learn from all runs so far, and decide whether to stop."""
    told = {e.id for e in evaluations}
    # sorted, so that nothing depends on the order in which runs return
    done = tuple(sorted(state.evaluations + tuple(evaluations), key=lambda e: e.id))
    state = replace(state, evaluations=done, pending=tuple(p for p in state.pending if p.id not in told))
    if len(done) >= state.settings.n_initial and _successes(state) >= _LEAST_RUNS:
        state = _learn(state)
    if state.satisfied >= _IN_A_ROW:
        return replace(state, stop=Stop.CONVERGED)
    if len(done) >= state.settings.max_evaluations:
        return replace(state, stop=Stop.BUDGET if state.learned else Stop.NOTHING_LEARNED)
    return state


# --- proposing ----------------------------------------------------------------------------------------------


def _design_points(state: State, n: int) -> list[Proposal]:
    """The next points of the initial design; a second design follows where the first gave too few successes."""
    size = state.settings.n_initial
    round_, position = divmod(state.next_id, size)
    n = min(n, size - position)
    theta = state.prior.sample(size, stream(state.seed, "design", round_), "lhs")[position : position + n]
    return [Proposal(state.next_id + i, row, 0, "initial", np.nan) for i, row in enumerate(theta)]


def _chosen_points(state: State, learned: Learned, n: int) -> list[Proposal]:
    prior = state.prior
    out = prior.to_working(np.array([p.theta for p in state.pending]).reshape(-1, prior.dim))
    target = learned.target
    for z in out:
        target = target.believing(z)
    known = np.vstack([prior.to_working(np.array([e.theta for e in state.evaluations])), out])
    choices = search.choose(
        state.settings.named_acquisitions(n),
        target,
        learned.candidates,
        known,
        search.domain_of(prior),
        climb=state.settings.climb,
    )
    theta = prior.from_working(np.array([c.z for c in choices]))
    return [
        Proposal(state.next_id + i, row, 1, c.acquisition, c.value)
        for i, (row, c) in enumerate(zip(theta, choices, strict=True))
    ]


# --- learning -----------------------------------------------------------------------------------------------


def _successes(state: State) -> int:
    return sum(e.status is Status.OK for e in state.evaluations)


def _learn(state: State) -> State:
    settings, count = state.settings, len(state.evaluations)
    surrogate, memory = _fit(state)
    points = surrogate.at(state.population)
    log_evidence, weights = evidence.normalise(surrogate.log_mean(points, 1.0) - np.log(len(state.population)))
    index, node_weights = evidence.place_nodes(
        surrogate, points, weights, 1.0, settings.nodes, stream(state.seed, "nodes", count)
    )
    nodes = points.take(index)
    cov = evidence.evidence_cov(surrogate, nodes, node_weights)
    bound = evidence.evidence_cov_bound(surrogate, points, weights)
    target = Target(
        surrogate,
        1.0,
        log_evidence,
        nodes,
        state.population[index],
        node_weights,
        state.prior.log_density_working,
    )
    candidates = _screen(state, surrogate, target)
    met = _condition_met(settings, cov, bound)
    return replace(
        state,
        memory=memory,
        learned=Learned(surrogate, target, candidates, log_evidence, cov, bound),
        satisfied=state.satisfied + 1 if met else 0,
        history=(*state.history, Record(count, log_evidence, cov, bound, surrogate.description)),
    )


def _fit(state: State) -> tuple[LogNormal, models.Memory]:
    good = [e for e in state.evaluations if e.status is Status.OK]
    z = state.prior.to_working(np.array([e.theta for e in good]))
    y = np.array([e.log_likelihood for e in good])
    noise = np.full(len(y), state.settings.noise_sd**2)
    surrogate, memory = models.fit(z, y, noise, state.settings.kernel, state.settings.mean_cap, state.memory)
    for e in state.evaluations:  # nothing more is to be had where a run failed: believe the surrogate there
        if e.status is not Status.OK:
            surrogate = surrogate.believe(state.prior.to_working(e.theta[None, :])[0])
    return surrogate, memory


def _condition_met(settings: Settings, cov: float, bound: float) -> bool:
    """eq:StopCond: the cheap upper bound first, then the exact coefficient of variation; PEUR uses only that."""
    if settings.acquisition != "peur" and bound > settings.bound_factor * settings.tolerance:
        return False
    return cov <= settings.tolerance


def _screen(state: State, surrogate: LogNormal, target: Target) -> Array:
    """Points of the population worth ranking: the most uncertain ones, and a third at random."""
    n = min(state.settings.candidates, len(state.population))
    rng = stream(state.seed, "candidates", len(state.evaluations))
    uncertain = np.argsort(-puq(target, state.population))[: 2 * n // 3]
    anywhere = rng.choice(len(state.population), n - len(uncertain), replace=False)
    return state.population[np.unique(np.concatenate([uncertain, anywhere]))]


# --- the result ---------------------------------------------------------------------------------------------


def result(state: State) -> Result:
    """What is known now: complete after a stop, and honest about it before."""
    stop = state.stop or Stop.UNFINISHED
    if state.learned is None:
        return Result.empty(state.prior, state.evaluations, stop if state.stop else Stop.NOTHING_LEARNED)
    surrogate = state.learned.surrogate
    sets = [
        state.prior.to_working(state.prior.sample(_FINAL_SET_SIZE, stream(state.seed, "final", i), "sobol"))
        for i in range(_FINAL_SETS)
    ]
    log_means = [surrogate.log_mean(surrogate.at(z), 1.0) for z in sets]
    partial = np.array([evidence.normalise(v)[0] for v in log_means]) - np.log(_FINAL_SET_SIZE)
    log_evidence = evidence.normalise(partial)[0] - np.log(_FINAL_SETS)
    relative = np.exp(partial - log_evidence)
    _, weights = evidence.normalise(np.concatenate(log_means))
    errors = ErrorBudget(
        surrogate=float(np.sqrt(np.log1p(state.learned.cov**2))),
        hyperparameters=_hyperparameter_error(state, surrogate),
        monte_carlo=float(np.std(relative, ddof=1) / np.sqrt(_FINAL_SETS)),
    )
    size = evidence.effective_sample_size(weights)
    runs = sum(p.stage == 1 for p in state.evaluations)
    return Result(
        prior=state.prior,
        surrogate=surrogate,
        log_evidence=log_evidence,
        errors=errors,
        samples=_posterior_draws(state, surrogate, np.concatenate(sets), weights),
        evaluations=state.evaluations,
        stages=(Stage(1.0, runs, log_evidence, errors.total, size),),
        history=state.history,
        stop=stop,
        seed=state.seed,
    )


def _hyperparameter_error(state: State, surrogate: LogNormal) -> float:
    """Spread of the log-evidence over plausible hyperparameters."""
    rng = stream(state.seed, "hyperparameters", len(state.evaluations))
    values = []
    for gp in hyperparameter_draws(surrogate.gp, _HYPERPARAMETER_DRAWS, rng):
        other = replace(surrogate, gp=gp)
        values.append(evidence.normalise(other.log_mean(other.at(state.population), 1.0))[0])
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _posterior_draws(state: State, surrogate: LogNormal, z: Array, weights: Array) -> Array:
    """Importance resampling of prior points, then chains on the surrogate's posterior, which part the copies."""
    rng = stream(state.seed, "posterior", len(state.evaluations))
    start = z[evidence.systematic_resample(weights, _POSTERIOR_DRAWS, rng)]
    log_target = lambda z: surrogate.log_mean(surrogate.at(z), 1.0) + state.prior.log_density_working(z)
    moved, _, _ = particles.move(start, log_target, _POSTERIOR_STEPS, rng)
    return state.prior.from_working(moved)
