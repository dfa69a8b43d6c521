"""From a run's state to its posterior and evidence, and to the error of the evidence that is stated."""

from __future__ import annotations

import numpy as np

from tbq.common.types import Array
from tbq.engine import training
from tbq.engine.climb import fails, hidden
from tbq.engine.coarse import cost_ratio
from tbq.engine.records import Conclusion, ErrorBudget, Stop
from tbq.engine.stages import stage_record, still_moving
from tbq.engine.state import State
from tbq.evidence.estimate import Assessment, assess
from tbq.problem.evaluation import Status
from tbq.surrogate import inflation

_FEW_DRAWS = 500  # of the posterior, which tell how high it is believed to be


def conclude(state: State) -> Conclusion:
    """What is known now: complete after a stop, and honest about it before."""
    if state.learned is None:
        stop = Stop.NOTHING_LEARNED if state.stop else Stop.UNFINISHED
        return _nothing(state, stop)
    known = state.assessment if state.assessment and state.stop is Stop.CONVERGED else assess_evidence(state)
    errors = ErrorBudget(
        surrogate=_surrogate_error(state, known.of_surrogate),
        hyperparameters=known.of_hyperparameters,
        monte_carlo=known.of_quadrature,
        check=state.check_error,
        failures=_failure_error(state, known.z, known.weights),
        unsettled=0.0 if state.stop is Stop.CONVERGED else _unsettled(state, known),
    )
    return Conclusion(
        prior=state.prior,
        surrogate=known.surrogate,
        log_evidence=known.log_evidence,
        errors=errors,
        samples=state.prior.from_working(known.draws),
        evaluations=state.evaluations,
        stages=(*state.stages, stage_record(state, known.posterior, known.moved)),
        history=state.history,
        stop=state.stop or Stop.UNFINISHED,
        seed=state.seed,
        notes=(state.memory.objection,) if state.memory.objection else (),
        weights=known.weights,
        squared_z=state.squared_z,
        coarse=state.coarse,
        coarse_cost=_coarse_cost(state),
    )


def _coarse_cost(state: State) -> float:
    """Of a coarse run, in fine ones; none where there is no coarse model."""
    if state.likelihood is None or not state.likelihood.has_coarse:
        return 0.0
    return cost_ratio(state.likelihood, state.evaluations, state.coarse)


def _surrogate_error(state: State, now: float) -> float:
    """Of the error that stops a run, what tested predictions support; more of outputs, which a kink can fool."""
    if state.settings.surrogate == "outputs":
        tuning = state.settings.tuning
        many = state.prior.simulated.dim >= tuning.common_from
        return max((tuning.common_margin if many else tuning.output_margin) * now, _last_seen(state))
    support = inflation.supported(state.settings.tuning, state.squared_z, state.least_inflation)
    return support * max(now, _last_seen(state))


def _last_seen(state: State) -> float:
    """The larger error of the last two updates: one that is small for once proves little."""
    last = [r.cov for r in state.history[-2:] if r.gamma == 1.0]
    return float(np.sqrt(np.log1p(max(last, default=0.0) ** 2)))


def _unsettled(state: State, known: Assessment) -> float:
    """What a run that has not converged may still find: as much as lately, what it believes in, and what may hide."""
    moved = still_moving(state.history, state.evaluations, known.log_evidence, state.noise, far=state.far)
    seen = max(e.log_likelihood for e in state.evaluations if e.status is Status.OK)
    believed, _ = known.surrogate.log_likelihood(known.surrogate.at(known.draws[:_FEW_DRAWS]))
    parts = [moved, max(float(np.mean(believed)) - seen, 0.0)]
    if state.learned is not None and state.settings.surrogate == "log_likelihood":
        parts.append(hidden(state, state.learned.surrogate))
    return float(np.linalg.norm(parts))


def _failure_error(state: State, z: Array, weights: Array) -> float:
    """−log of the posterior mass that is left without the part where runs are expected to fail."""
    if state.reach is None:
        return 0.0
    left = float(weights @ np.exp(state.reach.log_probability(z)))
    return float(-np.log(max(left, 1e-6)))


def _nothing(state: State, stop: Stop) -> Conclusion:
    """Of a run from which nothing could be learned: no number is made up."""
    errors = ErrorBudget(np.inf, np.inf, np.inf)
    none = np.empty((0, state.prior.dim))
    below = {"coarse": state.coarse, "coarse_cost": _coarse_cost(state)}
    return Conclusion(state.prior, None, np.nan, errors, none, state.evaluations, (), (), stop, **below)  # type: ignore[arg-type]


def assess_evidence(state: State, *, coarse: bool = False) -> Assessment:
    """The evidence by the last surrogate, by fresh quadrature and beside its rivals; coarsely before a check."""
    assert state.learned is not None
    deflation = inflation.deflation(state.settings.tuning, state.squared_z)
    surrogate = training.deflated(state.learned.surrogate, deflation)
    rivals = training.rivals(state.runs, state.learned.gamma, deflation, state.memory)
    rivals = [(state.informed(rival), behind) for rival, behind in rivals]
    populations = (*state.past, state.population)
    return assess(populations, surrogate, rivals, state.prior, state.settings, state.seed, coarse=coarse)


def certain(state: State) -> bool:
    """Whether the assessment found nothing that the stage did not know. The paper's runs do not ask."""
    tuning = state.settings.tuning
    if not tuning.assess_before_end:
        return True
    found, limit = state.assessment, tuning.part_limit * state.settings.tolerance[1]
    assert found is not None
    differ = 0.0 if fails(state, found.suspect[None, :])[0] else found.of_hyperparameters  # or no run can tell
    return max(found.of_surrogate, differ) <= limit and found.of_quadrature <= tuning.poor_quadrature
