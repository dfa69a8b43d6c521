"""The way through the stages to the posterior: it costs no runs, is taken back where it was wrong, and is verified.

Every update climbs with the surrogate there is, from the last population that this would have led to. Before the end
the climb is repeated from the prior, and a run is made wherever a part of the evidence may hide that no run has seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tbq.common.randomness import stream
from tbq.common.types import Array, BoolArray
from tbq.engine.ascent import surprised
from tbq.engine.stages import advance, choose_gamma, enlarged, log_terms_of, measure, stage_record
from tbq.engine.state import State
from tbq.evidence import tempering
from tbq.evidence.moves import Moved
from tbq.evidence.population import Population, found_at, recounted
from tbq.problem.evaluation import Status
from tbq.problem.settings import Settings
from tbq.surrogate.protocol import Surrogate

_HUGE = 50.0  # nats beyond which a share of the evidence is huge, whatever it is
_DEVIATIONS = 3.0  # by which the likelihood may be higher than expected
_KNOWN = 3.0  # nats of that: where it is less, a run is not asked for
_LOST = 1.0  # nats per parameter by which the best run's posterior density may exceed that of all its population


def at_top(state: State) -> bool:
    """Whether the stage is the last: γ = 1."""
    return state.learned is not None and state.learned.gamma == 1.0


def climb(state: State, surrogate: Surrogate[Any]) -> State:
    """From where the run stands through as many stages as the surrogate of the log-likelihoods allows.

    Stages that cost no runs only lead on. A population that the surrogate would not have moved there is taken back
    first, and once the last stage is satisfied the whole way is verified.
    """
    if np.isfinite(state.settings.tolerance[0]):
        return _climb_by_tolerance(state, surrogate)
    if np.isinf(state.settings.temper_cov):
        return measure(state, surrogate)
    history, settings, eventful = state.history, state.settings, _doubt_was_right(state)
    if _due_anew(state):
        before = state.satisfied
        state = replace(ascend(state, surrogate, anew=True), anew_at=len(state.evaluations))
    else:
        state = replace(_retreat(state, surrogate), settings=_hasty(settings))
        before = state.satisfied
        state = replace(_to_the_top(state, surrogate), settings=settings)
    satisfied = before + 1 if at_top(state) and (state.satisfied or _nearly(state)) else 0
    doubts = state.doubts if not eventful and (satisfied or state.far) else 0
    last = state.history[-1]
    last = replace(last, error=float(np.hypot(last.error, hidden(state, surrogate))))
    state = replace(state, satisfied=satisfied, doubt=None, doubts=doubts, history=(*history, last))
    if state.ascent is None and satisfied < state.settings.tuning.in_a_row:
        return state
    state = surprised(state, surrogate)
    if state.doubt is not None:
        return replace(state, satisfied=min(satisfied, settings.tuning.in_a_row - 1))
    return _verify(state, surrogate) if satisfied >= state.settings.tuning.in_a_row else state


def _due_anew(state: State) -> bool:
    """Whether to climb from the prior: every few runs once a far posterior was found.

    Members of the last populations do not get to where new runs let the posterior reach: no run would be made there.
    """
    return state.far and state.found and len(state.evaluations) >= state.anew_at + state.settings.tuning.anew_every


def _nearly(state: State) -> bool:
    """Whether the error is small enough to go on with doubts; runs far from the posterior hardly make it smaller."""
    tuning, cov = state.settings.tuning, state.history[-1].cov
    return state.far and state.doubts > 0 and cov <= tuning.doubting_factor * state.settings.tolerance[1]


def _climb_by_tolerance(state: State, surrogate: Surrogate[Any]) -> State:
    """As in the paper: a stage gets runs until it meets its own tolerance."""
    state = measure(state, surrogate)
    while state.satisfied >= state.settings.tuning.in_a_row and not at_top(state):
        state = measure(advance(state), surrogate)
    return state


def ascend(state: State, surrogate: Surrogate[Any], *, anew: bool) -> State:
    """All stages at once, from the population of the last climb that leads on.

    ``anew`` from the prior's: a mode that the last surrogate hid is found again.
    """
    satisfied, history = state.satisfied, state.history
    chain = (*state.past, state.population)
    first, points = _leading_on(state, surrogate, chain[:1] if anew else chain)
    state = replace(state, population=chain[first], past=chain[:first], stages=state.stages[:first])
    state = _to_the_top(state, surrogate, points)
    satisfied = satisfied + 1 if state.satisfied and at_top(state) else 0
    return replace(state, satisfied=satisfied, history=(*history, state.history[-1]))


def _to_the_top(state: State, surrogate: Surrogate[Any], points: Any = None) -> State:
    """Stages up to γ = 1 by small populations, the last one at full size."""
    tuning = state.settings.tuning
    state = measure(state, surrogate, points, on_the_way=True)
    while not at_top(state) and len(state.past) < tuning.most_stages:
        state = measure(advance(state, tuning.small_population), surrogate, on_the_way=True)
        if at_top(state):
            state = measure(enlarged(state), surrogate, on_the_way=True)
    state = state if at_top(state) else measure(state, surrogate)
    if state.settings.surrogate == "log_likelihood":
        return _with_best_run(state, surrogate)
    if not (state.settings.thinned and at_top(state)):
        return state
    # few steps of short chains, while the posterior of an unknown noise changes with γ: off by up to three nats, which
    # is how much too much or too little the prior's own points weigh in the error
    rng = stream(state.seed, "recount", 1000 * len(state.evaluations) + len(state.past))
    found = recounted(state.population, surrogate, state.prior, state.settings, rng)
    return state if found is None else _followed_by(state, surrogate, *found)


def _followed_by(state: State, surrogate: Surrogate[Any], population: Population, moved: Moved) -> State:
    """With one more population of the last stage."""
    stages = (*state.stages, stage_record(state, population, moved))
    return measure(
        replace(state, population=population, past=(*state.past, state.population), stages=stages), surrogate
    )


def _with_best_run(state: State, surrogate: Surrogate[Any]) -> State:
    """The last population, with the part around the best run where no member is nearly as probable as that.

    Tempering loses a narrow peak on a broad plateau: at every γ < 1 nearly all of the mass is the plateau's. Where
    members have leapt to it, its evidence is counted anew.
    """

    def log_posterior(z: Array) -> Array:
        return surrogate.log_mean(surrogate.at(z), 1.0) + state.prior.log_density_working(z)

    if not at_top(state):
        return state
    good = np.array([e.theta for e in state.evaluations if e.status is Status.OK])
    runs, population = state.prior.simulated.to_working(good), state.population
    values = log_posterior(runs)
    best, common = int(np.argmax(values)), (population, surrogate, state.prior, state.settings)
    rng = stream(state.seed, "best run", 1000 * len(state.evaluations) + len(state.past))
    lost = values[best] > np.max(log_posterior(population.z)) + _LOST * state.prior.dim  # for a mode exceeds its draws
    found = found_at(runs[best], *common, rng) if lost else recounted(*common, rng)
    return state if found is None else _followed_by(state, surrogate, *found)


def _leading_on(state: State, surrogate: Surrogate[Any], chain: tuple[Population, ...]) -> tuple[int, Any]:
    """Which population a new surrogate can go on from, and its points, prepared.

    That is the last whose weights allow a step, by the rule of all steps; the prior's allows any. One at γ = 1 has no
    step before it: there the surrogate must not have moved away.
    """
    tuning = state.settings.tuning
    for j in reversed(range(len(chain))):
        points = surrogate.at(chain[j].z)
        log_terms = log_terms_of(surrogate, points, chain[j])
        gamma = choose_gamma(replace(state, population=chain[j]), log_terms)
        leads = gamma >= min(tuning.warm_progress * chain[j].gamma, 1.0)
        if chain[j].gamma == 1.0:
            leads = tempering.weight_cov(log_terms(1.0)) <= tuning.retreat_cov
        if j == 0 or leads:
            return j, points
    raise AssertionError("there is no population")


def _hasty(settings: Settings) -> Settings:
    """Larger steps and shorter chains, where a later climb, or the one before the end, makes up for what they miss."""
    tuning = settings.tuning
    chain_length = max(round(tuning.hasty_chains * settings.chain_length), 1)
    return replace(settings, temper_cov=tuning.hasty_steps * settings.temper_cov, chain_length=chain_length)


def _retreat(state: State, surrogate: Surrogate[Any]) -> State:
    """Take stages back whose populations the surrogate would not have moved there."""
    while state.past:
        p = state.population
        terms = surrogate.log_mean(surrogate.at(p.z), p.gamma) + p.log_weights
        if tempering.weight_cov(terms) <= state.settings.tuning.retreat_cov:
            break
        state = replace(state, population=state.past[-1], past=state.past[:-1], stages=state.stages[:-1], satisfied=0)
    return state


def _verify(state: State, surrogate: Surrogate[Any]) -> State:
    """Climb anew from the prior, and ask for a run where more of the evidence may hide than is known.

    While such runs are made, the populations of the last such climb tell where the next one belongs.
    """
    tuning = state.settings.tuning
    enough = state.doubts >= (tuning.most_far_doubts if state.far else tuning.most_doubts)
    if state.doubts and not enough:
        share, where = overlooked(state, surrogate)
        if share > tuning.overlooked:
            return _doubted(state, where)
    again = ascend(replace(state, history=state.history[:-1]), surrogate, anew=True)
    if again.satisfied == 0 and not _nearly(again):
        return again
    share, where = overlooked(again, surrogate)
    return replace(again, satisfied=state.satisfied) if enough or share <= tuning.overlooked else _doubted(again, where)


def _doubted(state: State, where: Array) -> State:
    """With a run to be made there; one that has not returned yet is not counted again."""
    theta = state.prior.from_working(where[None, :])[0]
    new = not any(np.array_equal(p.theta, theta) for p in state.out)
    return replace(state, satisfied=state.settings.tuning.in_a_row - 1, doubt=where, doubts=state.doubts + new)


def _doubt_was_right(state: State) -> bool:
    """Whether the run that was made in doubt found more than a standard deviation more than expected.

    Where the posterior is far, that is not rare among deep runs, and only those near the best run matter.
    """
    if state.doubt is None or state.learned is None:
        return False
    mean, variance = state.learned.surrogate.log_likelihood(state.learned.surrogate.at(state.doubt[None, :]))
    theta = state.prior.from_working(state.doubt[None, :])[0]
    good = [e for e in state.evaluations if e.status is Status.OK]
    found = [e.log_likelihood for e in good if np.array_equal(e.theta, theta)]
    expected = float(mean[0] + np.hypot(np.sqrt(variance[0]), state.noise))
    matters = max(e.log_likelihood for e in good) - state.settings.tuning.guard_depth if state.far else -np.inf
    return bool(found) and found[-1] > max(expected, matters)


def overlooked(state: State, surrogate: Surrogate[Any]) -> tuple[float, Array]:
    """How much more evidence there may be, relative to what is known, and the point that has most of it.

    At every point of every population where the likelihood is not known to a factor of e³, it is believed to be three
    standard deviations higher than expected: what remains small then is small. A mode that all populations lost stands
    out by many orders of magnitude.
    """
    caution = max(state.settings.tuning.inflation_start / state.inflation, 1.0)  # what was tested is near the best run
    return _more(state, surrogate, caution * _DEVIATIONS, _KNOWN)


def fails(state: State, z: Array) -> BoolArray:
    """Where a run more probably fails than not: it would tell nothing, and `errors.failures` speaks of that mass."""
    if state.reach is None:
        return np.zeros(len(z), dtype=bool)
    return np.asarray(state.reach.log_probability(z[:, : state.prior.simulated.dim]) < np.log(0.5))


def hidden(state: State, surrogate: Surrogate[Any]) -> float:
    """By how many nats the evidence is higher if the likelihood is a standard deviation higher than expected."""
    return float(np.log1p(_more(state, surrogate, 1.0, 0.0)[0]))


def _more(state: State, surrogate: Surrogate[Any], deviations: float, known: float) -> tuple[float, Array]:
    """How much more evidence, relative to what is known, the population with most of it has, and its largest point.

    The likelihood is so many deviations higher than expected, but where that is less than ``known`` nats.
    """
    found: list[tuple[float, Array]] = []
    for population in (*state.past, state.population):
        expected, high = _believed(state, surrogate, population, deviations)
        more = np.exp(high) - np.exp(expected)
        more[(high - expected < known) | fails(state, population.z)] = 0.0
        found.append((float(more.sum()), population.z[int(np.argmax(more))]))
    return max(found, key=lambda pair: pair[0])


def _believed(
    state: State, surrogate: Surrogate[Any], population: Population, deviations: float
) -> tuple[Array, Array]:
    """Shares of the evidence at the population's points, as logarithms: as expected, and that much higher."""
    assert state.learned is not None
    points, unit = surrogate.at(population.z), population.log_weights - state.learned.log_evidence
    expected, high = (np.minimum(unit + surrogate.log_upper(points, k), _HUGE) for k in (0.0, deviations))
    return expected, high
