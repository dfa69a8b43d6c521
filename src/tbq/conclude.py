"""From an engine's state to a result."""

from __future__ import annotations

import numpy as np

from tbq import surprise
from tbq.engine import State, look_again, stage_record
from tbq.result import ErrorBudget, Result, Stop
from tbq.types import Array


def result(state: State) -> Result:
    """What is known now: complete after a stop, and honest about it before."""
    if state.learned is None:
        stop = Stop.NOTHING_LEARNED if state.stop else Stop.UNFINISHED
        return Result.empty(state.prior, state.evaluations, stop)
    known = state.assessment if state.assessment and state.stop is Stop.CONVERGED else look_again(state)
    errors = ErrorBudget(
        surrogate=_surrogate_error(state, known.of_surrogate),
        hyperparameters=known.of_hyperparameters,
        monte_carlo=known.of_quadrature,
        check=state.check_error,
        failures=_failure_error(state, known.z, known.weights),
    )
    return Result(
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
        notes=(state.memory.doubt,) if state.memory.doubt else (),
        weights=known.weights,
        surprises=state.surprises,
    )


def _surrogate_error(state: State, now: float) -> float:
    """Of the error that stops a run, what surprises support; more where outputs are learned, which a kink can fool."""
    if state.likelihood is not None:
        return max(state.settings.caution * now, _last_seen(state))
    return surprise.supported(state.settings.inflation, state.surprises) * max(now, _last_seen(state))


def _last_seen(state: State) -> float:
    """The larger error of the last two updates: one that is small for once proves little."""
    last = [r.cov for r in state.history[-2:] if r.gamma == 1.0]
    return float(np.sqrt(np.log1p(max(last, default=0.0) ** 2)))


def _failure_error(state: State, z: Array, weights: Array) -> float:
    """−log of the posterior mass that is left without the part where runs are expected to fail."""
    if state.reach is None:
        return 0.0
    left = float(weights @ np.exp(state.reach.log_probability(z)))
    return float(-np.log(max(left, 1e-6)))
