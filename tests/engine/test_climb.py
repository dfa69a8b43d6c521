"""Stages that cost no runs: they lead to the posterior at once, are taken back, and are verified before the end."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq import engine
from tbq.acquisition import exploration, trust_region
from tbq.engine import climb, learn, stages
from tbq.engine.records import Record
from tbq.evidence.population import Population
from tbq.problem.evaluation import Evaluation, Status, judge
from tbq.problem.settings import resolve
from tbq.problem.tuning import Tuning

WIDE = tbq.Prior({"offset": stats.uniform(-1000, 2000), "scale": stats.loguniform(0.01, 100)})


def series(theta):
    """Forty values of mean 3 and spread 0.5: a posterior a thousandth as wide as the prior."""
    offset, scale = theta
    return float(-40 * np.log(scale) - 0.5 * 40 * (0.25 + (offset - 3.0) ** 2) / scale**2)


def drive(prior, f, runs, seed=0, **options):
    state = engine.init(prior, resolve(prior.dim, population=512, max_evaluations=runs, **options), seed)
    while state.stop is None:
        state, proposals = engine.ask(state, 12 if not state.evaluations else 1)
        state = engine.tell(state, [judge(p, f(p.theta)) for p in proposals])
    return state


@pytest.fixture(scope="module")
def state():
    return drive(WIDE, series, 30, tuning=Tuning(check_runs=False))  # which are made without an update


def test_the_last_stage_is_reached_with_the_first_surrogate(state):
    assert [r.n_evaluations for r in state.history] == list(range(12, len(state.evaluations) + 1))  # one an update
    assert all(r.gamma == 1.0 for r in state.history)
    assert len(state.past) > 3


def test_a_population_that_lost_its_support_is_taken_back(state):
    assert state.learned is not None
    lost = replace(state.population, z=state.population.z + 0.3, log_density=state.population.log_density)
    back = climb._retreat(replace(state, population=lost), state.learned.surrogate)
    assert len(back.past) < len(state.past)
    assert back.satisfied == 0
    first = replace(state, past=(), population=Population(lost.z, lost.log_density))
    assert climb._retreat(first, state.learned.surrogate).past == ()  # there is nothing before the prior


def two_modes(theta):
    """A wide mode, and one three times narrower with most of the mass."""
    wide, narrow = ((theta - c) / w for c, w in ((-1.0, 0.3), (1.2, 0.1)))
    return float(np.logaddexp(-0.5 * wide @ wide, 6.0 - 0.5 * narrow @ narrow))


def test_a_mode_that_all_populations_lost_is_asked_for():
    prior = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.uniform(-2, 4)})
    left = lambda theta: two_modes(theta) if theta[0] < 0.3 else float(-0.5 * np.sum((theta + 1.0) ** 2) / 0.09)
    state = drive(prior, left, 26)  # as if the narrow one were not there
    assert state.learned is not None
    share, where = climb.overlooked(state, state.learned.surrogate)
    runs = np.array([e.theta for e in state.evaluations])
    gap = np.min(np.linalg.norm(prior.from_working(where[None, :]) - runs, axis=1))
    assert share == 0.0 or gap > 0.1  # nothing may hide, or it is asked for where no run is
    honest = tbq.infer(two_modes, prior, seed=1, population=512)
    exact = np.log((0.3**2 + np.exp(6.0) * 0.1**2) * 2 * np.pi / 16)
    assert honest.log_evidence == pytest.approx(exact, abs=max(3 * honest.log_evidence_sd, 0.1))


def test_what_may_hide_is_the_largest_sum_over_all_populations(state):
    surrogate = state.learned.surrogate
    by_hand = []
    for p in (*state.past, state.population):
        points, unit = surrogate.at(p.z), p.log_weights - state.learned.log_evidence
        expected, high = (np.exp(np.minimum(unit + surrogate.log_upper(points, k), 50.0)) for k in (0.0, 1.0))
        extra = high - expected
        by_hand.append(np.log1p(extra.sum()))
    assert climb.hidden(state, surrogate) == pytest.approx(max(by_hand))


def test_what_may_hide_where_runs_fail_is_not_looked_for(state):
    class Fails:
        def log_probability(self, z):
            return np.where(z[:, 0] > 0.0, -5.0, 0.0)

    _, where = climb._more(replace(state, reach=Fails()), state.learned.surrogate, 1.0, 0.0)
    assert where[0] <= 0.0


def test_two_of_three_runs_go_up_while_the_posterior_is_far(state):
    assert state.far
    lost = replace(state, satisfied=0, stop=None, assessment=None, doubt=None, next_id=33)
    lost = replace(lost, settings=replace(lost.settings, max_evaluations=60), evaluations=lost.evaluations[:16])
    z = WIDE.to_working(np.array([e.theta for e in lost.evaluations]))
    y = np.array([e.log_likelihood for e in lost.evaluations])

    def asked(state, number):
        return WIDE.to_working(engine.ask(replace(state, next_id=number))[1][0].theta[None, :])

    best = exploration.most_promising(state.learned.surrogate, state.population.z, z, WIDE, 1.0)
    step, gain = trust_region.step_up(z, y, lost.settings.n_initial, WIDE)
    assert len(best) == 1
    assert gain > 1.0
    np.testing.assert_allclose(asked(lost, 33), best, atol=1e-9)
    np.testing.assert_allclose(asked(lost, 34), step[None, :], atol=1e-9)
    others = [asked(lost, 32), *(asked(replace(lost, satisfied=1), n) for n in (33, 34))]
    np.testing.assert_allclose(others[1], others[0], atol=1e-9)
    np.testing.assert_allclose(others[2], others[0], atol=1e-9)
    assert min(np.abs(others[0] - up).max() for up in (best, step)) > 1e-3


def record(n, log_evidence):
    return Record(n, 1, 1.0, log_evidence, 0.1, 0.1, "", 0.1)


def runs(values):
    return [Evaluation(i, np.zeros(1), 0, "initial", 0.0, Status.OK, v, "", 0.0, None) for i, v in enumerate(values)]


def test_what_moved_lately_may_move_again():
    history = [record(n, v) for n, v in ((9, -50.0), (11, -30.0), (18, -26.0), (20, -25.0))]
    still = runs([-60.0] * 5 + [-20.0] * 15)
    assert stages.still_moving(history, still, -25.0) == pytest.approx(5.0)  # since the tenth run
    gaining = runs([-60.0] * 18 + [-48.0] * 2)
    assert stages.still_moving(history, gaining, -25.0) == pytest.approx(13.0)  # hypot(5, 12)
    assert stages.still_moving(history, still, -25.0, far=True) == pytest.approx(
        np.hypot(25.0, 40.0)
    )  # since the fifth
    assert stages.still_moving((), runs([-1.0]), -1.0) == 0.0


def test_an_unconverged_run_states_an_error_that_covers():
    exact = exact_evidence()
    for budget in (13, 16):
        result = tbq.infer(series, WIDE, seed=2, population=512, max_evaluations=budget)
        assert not result.converged
        assert abs(result.log_evidence - exact) < 3.0 * result.log_evidence_sd  # `tbq bench real` counts the 90 %
        assert result.errors.unsettled > 0.0
        assert result.history[-1].error >= np.sqrt(np.log1p(result.history[-1].cov ** 2))


def exact_evidence():
    """By dense quadrature in the logarithm of the scale; the offset's integral is a Gaussian one."""
    log_scale = np.linspace(np.log(0.01), np.log(100.0), 20_001)
    scale = np.exp(log_scale)
    log_terms = -40 * log_scale - 0.5 * 40 * 0.25 / scale**2 + np.log(scale * np.sqrt(2 * np.pi / 40) / 2000.0)
    top = log_terms.max()
    return top + np.log(np.trapezoid(np.exp(log_terms - top), log_scale) / np.log(1e4))


def test_the_middle_of_a_prior_is_run_once_after_the_design_where_the_posterior_is_far():
    middle = WIDE.from_uniform(np.full((1, 2), 0.5))[0]
    far = drive(WIDE, series, 14)
    (first, second) = far.evaluations[12:14]
    np.testing.assert_allclose(first.theta, middle, rtol=1e-9, atol=1e-9)
    assert not np.allclose(second.theta, middle, rtol=1e-3, atol=1e-3)
    near = drive(WIDE, lambda theta: float(-0.5 * (theta[0] / 500.0) ** 2), 13)
    assert not near.far
    assert not np.allclose(near.evaluations[12].theta, middle, rtol=1e-3, atol=1e-3)


def test_a_far_posterior_gets_twice_the_check_runs_and_some_in_the_plane():
    far = drive(WIDE, series, 14)
    assert far.settings.check_runs == 0
    assert learn._check_runs(far) == 8
    tuning = replace(far.settings.tuning, check_runs=False)
    assert learn._check_runs(replace(far, settings=replace(far.settings, tuning=tuning))) == 0
    assert learn._check_runs(drive(WIDE, lambda theta: float(-0.5 * (theta[0] / 500.0) ** 2), 13)) == 0


def test_a_posterior_is_found_once_its_evidence_was_known_near_the_best_run(state):
    values = runs([-90.0] * 8 + [-60.0] * 8 + [-20.0] * 8)

    def found(history):
        return replace(state, evaluations=tuple(values), history=tuple(history)).found

    vague, known = replace(record(20, 0.0), cov=30.0), record(20, 0.0)
    assert not found([])
    assert not found([vague])
    assert found([vague, known])
    assert found([known, vague])  # whatever another model believes since
    assert not found([replace(known, n_evaluations=14)])  # of a plateau
    assert not found([replace(known, gamma=0.5)])


def test_the_end_of_the_budget_gets_the_check_that_is_left(state):
    assessed = replace(state, assessment=learn.assess_evidence(state), check=None, stop=None)
    d3 = replace(assessed.settings, check_runs=4)  # as with three parameters, where a far posterior gets eight

    def planned(left):
        settings = replace(d3, max_evaluations=len(state.evaluations) + left)
        return learn._plan_check(replace(assessed, settings=settings), 8).check

    assert len(planned(20).theta) == 8
    assert len(planned(6).theta) == 6
    assert planned(3) is None


def test_a_check_that_was_passed_lately_is_not_made_again(state):
    count, tuning = len(state.evaluations), replace(state.settings.tuning, check_runs=True)
    state = replace(state, settings=replace(state.settings, tuning=tuning))
    assert learn._check_runs(replace(state, checked_at=0)) == 8
    assert learn._check_runs(replace(state, checked_at=count - 7)) == 0
    assert learn._check_runs(replace(state, checked_at=count - 8)) == 8
