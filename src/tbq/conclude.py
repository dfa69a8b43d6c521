"""From an engine's state to a result: the final evidence with all of its errors, and posterior draws.

The ratios of the stages were taken with the surrogates of their time. Here everything is taken once more with the
last surrogate, at no extra run, in two ways: by importance sampling from a mixture fitted to the posterior draws, and
by MBAR over the populations of all stages. The one with the smaller Monte-Carlo error counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import spatial

from tbq import evidence, importance
from tbq.engine import State, stage_record
from tbq.evaluation import Status
from tbq.gp import hyperparameter_draws
from tbq.lognormal import LogNormal
from tbq.mbar import mbar
from tbq.particles import Moved
from tbq.population import Population, follow
from tbq.randomness import stream
from tbq.result import ErrorBudget, Result, Stop
from tbq.types import Array

_IMPORTANCE_POINTS = 2**13
_MBAR_POINTS = 2**14  # over all populations
_HYPERPARAMETER_DRAWS = 12


@dataclass(frozen=True)
class Quadrature:
    """Points and log-weights with Z = Σ e^{ω_k} E[L(z_k)], and the relative Monte-Carlo error of that."""

    z: Array
    log_weights: Array
    sd: float


def result(state: State) -> Result:
    """What is known now: complete after a stop, and honest about it before."""
    if state.learned is None:
        stop = Stop.NOTHING_LEARNED if state.stop else Stop.UNFINISHED
        return Result.empty(state.prior, state.evaluations, stop)
    surrogate = state.learned.surrogate
    posterior, moved = _posterior(state, surrogate)
    rules = [
        _importance_rule(state, posterior.z, surrogate),
        _mbar_rule((*state.past, state.population, posterior), surrogate),
    ]
    rule = min(rules, key=lambda r: r.sd)
    points = surrogate.at(rule.z)
    log_evidence, weights = evidence.normalise(surrogate.log_mean(points, 1.0) + rule.log_weights)
    others = [evidence.normalise(surrogate.log_mean(surrogate.at(r.z), 1.0) + r.log_weights)[0] for r in rules]
    gap = abs(others[0] - others[1]) - 2.0 * float(np.hypot(rules[0].sd, rules[1].sd))  # beyond what chance explains
    index, node_weights = evidence.place_nodes(
        surrogate, points, weights, 1.0, state.settings.nodes, stream(state.seed, "final nodes")
    )
    cov = evidence.evidence_cov(surrogate, points.take(index), node_weights)
    errors = ErrorBudget(
        surrogate=float(np.sqrt(np.log1p(cov**2))),
        hyperparameters=_hyperparameter_error(state, surrogate, rule),
        monte_carlo=float(np.hypot(rule.sd, max(gap, 0.0))),
        check=state.check_error,
        failures=_failure_error(state, rule.z, weights),
    )
    return Result(
        prior=state.prior,
        surrogate=surrogate,
        log_evidence=log_evidence,
        errors=errors,
        samples=state.prior.from_working(posterior.z),
        evaluations=state.evaluations,
        stages=(*state.stages, stage_record(state, posterior, moved)),
        history=state.history,
        stop=state.stop or Stop.UNFINISHED,
        seed=state.seed,
    )


def _posterior(state: State, surrogate: LogNormal) -> tuple[Population, Moved]:
    """Draws of the posterior itself: γ = 1 even where the budget ran out before, no optimism, none of the prior."""
    return follow(
        state.population,
        surrogate,
        1.0,
        state.prior,
        size=state.settings.population,
        steps=state.settings.chain_length,
        optimism=0.0,
        share=0.0,
        rng=stream(state.seed, "posterior"),
    )


def _importance_rule(state: State, posterior: Array, surrogate: LogNormal) -> Quadrature:
    """Points of a mixture fitted to the posterior draws, and of the prior."""
    prior, rng = state.prior, stream(state.seed, "importance")
    mixture = importance.fit_mixture(posterior, *prior.working_bounds, rng)
    of_prior = prior.to_working(prior.sample(int(importance.PRIOR_SHARE * _IMPORTANCE_POINTS), rng, "sobol"))
    draws = importance.sample(mixture, of_prior, prior.log_density_working, _IMPORTANCE_POINTS, rng)
    log_terms = surrogate.log_mean(surrogate.at(draws.z), 1.0) + draws.log_weights
    size = evidence.effective_sample_size(evidence.normalise(log_terms)[1])
    variance = max(1.0 / size - 1.0 / draws.total, 0.0) + prior.constraint_mass_error**2
    return Quadrature(draws.z, draws.log_weights, float(np.sqrt(variance)))


def _mbar_rule(populations: tuple[Population, ...], surrogate: LogNormal) -> Quadrature:
    """The points of all stages, each weighted by the mixture of the densities that they came from."""
    each = max(_MBAR_POINTS // len(populations), 1)
    parts = [p.z[:: max(len(p.z) // each, 1)] for p in populations]
    z = np.concatenate(parts)
    log_densities = np.array([p.log_density_at(z) for p in populations])
    log_target = surrogate.log_mean(surrogate.at(z), 1.0)
    estimate = mbar(log_densities, np.array([float(len(p)) for p in parts]), log_target)
    return Quadrature(z, estimate.log_weights, estimate.sd)


def _hyperparameter_error(state: State, surrogate: LogNormal, rule: Quadrature) -> float:
    """Spread of the log-evidence over plausible hyperparameters."""
    keep = slice(None, None, max(len(rule.z) // 2**13, 1))
    values = []
    for gp in hyperparameter_draws(surrogate.gp, _HYPERPARAMETER_DRAWS, stream(state.seed, "hyperparameters")):
        other = replace(surrogate, gp=gp)
        log_mean = other.log_mean(other.at(rule.z[keep]), 1.0)
        values.append(evidence.normalise(log_mean + rule.log_weights[keep])[0])
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _failure_error(state: State, z: Array, weights: Array) -> float:
    """−log of the posterior mass that is left without the part whose nearest run gave no number."""
    failed = np.array([e.status is not Status.OK for e in state.evaluations])
    if not failed.any():
        return 0.0
    tree = spatial.cKDTree(state.prior.to_working(np.array([e.theta for e in state.evaluations])))
    share = float(weights @ failed[tree.query(z)[1]])
    return float(-np.log(max(1.0 - share, 1e-6)))
