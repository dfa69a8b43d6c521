"""Learning outputs step by step, and now and then as if nothing had been learned before."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.engine import climb, learn, propose, stages
from tbq.engine.climb import ascend
from tbq.engine.conclusion import assess_evidence
from tbq.evidence import moments
from tbq.surrogate import inflation
from tbq.surrogate.protocol import SPREAD_CLIP

PRIOR = tbq.Prior({"a": stats.norm(), "b": stats.norm()})
TRUTH = np.array([0.7, -0.4])


def model(theta):
    return np.array([theta[0] + 0.3 * theta[1] ** 2, np.exp(0.5 * theta[1]), theta[0] * theta[1]])


def states(runs, noise=0.05, **options):
    """The state after each update of a run."""
    likelihood = tbq.GaussianLikelihood(model, model(TRUTH), noise)
    session = tbq.Session(
        PRIOR, likelihood=likelihood, seed=2, population=1024, tolerance=1e-4, max_evaluations=runs, **options
    )
    found = {}
    while not session.done:
        for p in session.ask():
            outputs = model(p.theta)
            session.tell(p.id, log_likelihood=likelihood.from_outputs(p.theta, outputs), outputs=outputs)
        if session.state.learned is not None:
            found[len(session.state.evaluations)] = session.state
    return found


@pytest.fixture(scope="module")
def run():
    return states(28)


@pytest.fixture(scope="module")
def unknown():
    """The same with a noise that is not known."""
    return states(18, noise=stats.loguniform(0.005, 0.5))


def test_outputs_are_learned_anew_every_eighth_run(run):
    assert sorted({s.anew_at for s in run.values()}) == [10, 18, 26]
    assert all(n - s.anew_at < 8 for n, s in run.items())


def test_populations_on_the_way_are_small_and_the_last_is_whole(run):
    for state in run.values():
        sizes = [len(p.z) for p in state.past]
        assert len(state.population.z) == 1024
        assert all(size == 512 for size in sizes[1:])
        assert len(state.stages) == len(state.past)


def test_a_population_that_leads_on_is_gone_on_from(run):
    """The surrogate of the next run follows from the last population, without a move."""
    assert run[16].population is run[15].population
    again = ascend(run[16], run[16].learned.surrogate, anew=False)
    assert again.population is run[16].population
    fresh = ascend(run[16], run[16].learned.surrogate, anew=True)
    assert fresh.population is not run[16].population
    assert fresh.learned.log_evidence == pytest.approx(again.learned.log_evidence, abs=0.3)


def test_learning_anew_follows_from_the_runs_alone(run):
    """Whatever was learned before: as a state that has the runs and a few numbers, and learned nothing."""
    last = run[18]
    empty = replace(run[10], memory=learn.training.Memory(), learned=None, past=(), stages=(), anew_at=0)
    empty = replace(empty, population=(*run[10].past, run[10].population)[0], evaluations=last.evaluations)
    again = learn.go_on(empty, last.waypoint)
    assert again.learned.log_evidence == last.learned.log_evidence
    assert np.array_equal(again.population.z, last.population.z)
    assert (again.history, again.squared_z, again.satisfied) == (last.history, last.squared_z, last.satisfied)


def test_runs_go_to_the_most_probable_point_only_while_lost_and_only_with_many_parameters(run):
    state = run[12]
    lost = replace(state.learned, cov=2.0)
    many = replace(state, settings=replace(state.settings, tuning=replace(state.settings.tuning, lost_from=2)))
    even, odd = replace(many, next_id=12), replace(many, next_id=13)
    assert propose._is_lost(even, lost)
    assert not propose._is_lost(odd, lost)
    assert not propose._is_lost(even, replace(state.learned, cov=0.5))
    assert not propose._is_lost(replace(state, next_id=12), lost)
    theta = propose.chosen_points(even, lost, 1)[0].theta
    likelihood = state.likelihood
    assert likelihood(theta) - 0.5 * theta @ theta > likelihood(TRUTH) - 0.5 * TRUTH @ TRUTH - 3.0


def test_where_noise_is_unknown_the_predictions_of_early_runs_soon_do_not_count(run, unknown):
    early = (9.0,) * 10
    for states, counted in ((run, early + (0.5,) * 5), (unknown, (0.5,) * 5)):
        state = replace(states[16], squared_z=early + (0.5,) * 5)
        surrogate, _ = learn._fit(state)
        assert surrogate.inflation == inflation.inflation(state.settings.tuning, counted)
    assert unknown[16].settings.tuning.inflation_clip == 9.0


def test_a_posterior_that_the_surrogate_has_left_is_not_gone_on_from(unknown):
    """No step of γ shows it: there is none beyond one."""
    state = unknown[16]
    last = replace(state.population, gamma=1.0)
    surrogate = state.learned.surrogate
    assert climb._leading_on(state, surrogate, (*state.past, last))[0] == len(state.past)
    left = np.where(np.arange(len(last.z)) < 3, -12.0, 0.0)  # a few members have nearly all of the weight
    gone = replace(last, log_density=surrogate.log_mean(surrogate.at(last.z), 1.0) + left)
    assert climb._leading_on(state, surrogate, (*state.past, gone))[0] < len(state.past)


def test_with_unknown_noise_no_event_that_nobody_will_see_rules_the_error(run, unknown, monkeypatch):
    caps = []
    exact = moments.evidence_cov
    taken = lambda s, nodes, w, gamma, cap, own: caps.append(cap) or exact(s, nodes, w, gamma, cap, own)
    monkeypatch.setattr(moments, "evidence_cov", taken)
    for states in (run, unknown):
        stages.measure(states[16], states[16].learned.surrogate)
    assert caps == [np.inf, SPREAD_CLIP]


def test_populations_of_an_unknown_noise_have_the_evidence_that_fresh_quadrature_finds(unknown):
    """Short chains and few steps alone are off by up to three nats."""
    for n in (12, 14, 16):
        found = assess_evidence(unknown[n])
        assert unknown[n].learned.log_evidence == pytest.approx(found.log_evidence, abs=0.3)
