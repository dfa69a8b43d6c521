"""Algorithm 1 as an engine: ask, tell, stop, and whole runs against exact evidences."""

import itertools

import numpy as np
import pytest
from conclusions import result_of
from scipy import stats

import tbq
from tbq import engine
from tbq.engine import stages
from tbq.problem.evaluation import Status, judge
from tbq.problem.settings import resolve
from tbq.problem.tuning import Tuning

SMALL = {"algorithm": "bq", "population": 1024, "tuning": Tuning(nodes=100, candidates=200)}


def gaussian(theta):
    """Log-density of N([0.5, −0.3], diag(0.4², 0.6²)) up to its constant."""
    return -0.5 * np.sum(((theta - np.array([0.5, -0.3])) / np.array([0.4, 0.6])) ** 2, axis=-1)


BOX = tbq.Prior({"a": stats.uniform(-3, 6), "b": stats.uniform(-3, 6)})
EXACT = np.log(2 * np.pi * 0.4 * 0.6 / 36.0)


def drive(state, f=gaussian, batch=1):
    while state.stop is None:
        state, proposals = engine.ask(state, batch)
        state = engine.tell(state, [judge(p, f(p.theta)) for p in proposals])
    return state


def start(seed=0, **options):
    return engine.init(BOX, resolve(2, **{**SMALL, **options}), seed)


@pytest.mark.parametrize("acquisition", ["puq", "pvc", "abs_pvc", "plur", "peur", "ensemble"])
def test_a_gaussian_is_found_by_every_acquisition_function(acquisition):
    state = drive(start(acquisition=acquisition, max_evaluations=60), batch=4 if acquisition == "ensemble" else 1)
    result = result_of(state)
    assert result.stop is tbq.Stop.CONVERGED
    assert result.log_evidence == pytest.approx(EXACT, abs=0.03)
    origins = [e.origin for e in result.evaluations[12:]]
    if acquisition == "ensemble":
        assert origins[:4] == ["puq", "pvc", "plur", "peur"]
    else:
        assert set(origins) == {acquisition}


def test_the_same_seed_gives_the_same_run_and_another_a_different_one():
    a, b, c = drive(start(seed=3)), drive(start(seed=3)), drive(start(seed=4))
    np.testing.assert_array_equal([e.theta for e in a.evaluations], [e.theta for e in b.evaluations])
    assert result_of(a).log_evidence == result_of(b).log_evidence
    assert not np.array_equal(a.evaluations[0].theta, c.evaluations[0].theta)


def test_states_are_values_and_asking_changes_only_what_is_returned():
    state = start()
    after, proposals = engine.ask(state, 12)
    assert state.pending == ()
    assert len(after.pending) == len(proposals) == 12
    again, same = engine.ask(state, 12)
    np.testing.assert_array_equal([p.theta for p in proposals], [p.theta for p in same])
    assert again.next_id == after.next_id


def test_the_order_in_which_runs_return_does_not_matter():
    state, proposals = engine.ask(start(), 12)
    told = [judge(p, gaussian(p.theta)) for p in proposals]
    forward, backward = engine.tell(state, told), engine.tell(state, told[::-1])
    for state in (forward, backward):
        assert state.pending == ()
    _, a = engine.ask(forward, 3)
    _, b = engine.ask(backward, 3)
    np.testing.assert_array_equal([p.theta for p in a], [p.theta for p in b])


def test_pending_points_are_respected():
    state, proposals = engine.ask(start(kernel="se"), 12)
    state = engine.tell(state, [judge(p, tbq.problems.get("u3").log_likelihood(p.theta)) for p in proposals])
    waiting, batch = engine.ask(state, 3)  # three at once, and one by one while the others are out: the same points
    for expected in batch:
        state, proposals = engine.ask(state, 1)
        np.testing.assert_allclose(proposals[0].theta, expected.theta, atol=1e-6)
    assert [p.id for p in waiting.pending] == [p.id for p in state.pending] == [12, 13, 14]
    theta = np.array([p.theta for p in batch])
    assert np.linalg.norm(theta[:, None] - theta[None, :], axis=-1)[np.triu_indices(3, 1)].min() > 0.2


def test_nothing_is_evaluated_twice():
    state = drive(start(tolerance=0.001, max_evaluations=40))
    theta = np.array([e.theta for e in state.evaluations])
    gaps = np.linalg.norm(theta[:, None] - theta[None, :], axis=-1)[np.triu_indices(len(theta), 1)]
    assert gaps.min() > 1e-6
    assert np.all(np.abs(theta) <= 3.0)


def test_a_budget_that_ends_early_ends_with_what_is_known():
    for budget in (12, 15):
        result = result_of(drive(start(max_evaluations=budget), tbq.problems.get("u4").log_likelihood))
        assert result.n_evaluations == budget
        assert result.stop is tbq.Stop.BUDGET
        assert not result.converged
        assert np.isfinite(result.log_evidence)
        assert "budget" in result.summary()


def test_stopping_needs_the_condition_twice_in_a_row():
    state = drive(start())
    met = [r.cov <= 0.04 for r in state.history]
    assert met[-2:] == [True, True]
    assert not any(a and b for a, b in itertools.pairwise(met[:-1]))
    assert len(state.evaluations) >= 13


def test_the_upper_bound_holds_the_others_back_but_not_peur():
    settings = resolve(2, acquisition="puq")
    limit = settings.tuning.bound_factor * 0.04
    assert stages._within(settings, 0.03, limit, 0.04)
    assert not stages._within(settings, 0.03, limit + 1e-9, 0.04)
    assert not stages._within(settings, 0.05, 0.06, 0.04)
    assert stages._within(resolve(2, acquisition="peur"), 0.03, 9.0, 0.04)


@pytest.mark.parametrize("shift", [-1e6, 1e6])
def test_a_constant_shifts_the_log_evidence_and_nothing_else(shift):
    plain = result_of(drive(start()))
    moved = result_of(drive(start(), lambda theta: gaussian(theta) + shift))
    assert f"e{np.floor(moved.log_evidence / np.log(10.0)):+03.0f}, coefficient" in moved.summary()
    assert moved.log_evidence - shift == pytest.approx(plain.log_evidence, abs=1e-3)
    assert moved.n_evaluations == plain.n_evaluations
    np.testing.assert_allclose([e.theta for e in moved.evaluations], [e.theta for e in plain.evaluations], atol=1e-2)


def test_failures_are_outcomes():
    def fragile(theta):
        if theta[0] > 1.5:
            return np.nan
        return gaussian(theta)

    result = result_of(drive(start(max_evaluations=40), fragile))
    assert result.log_evidence == pytest.approx(EXACT, abs=0.05)
    assert {e.status for e in result.evaluations} == {Status.OK, Status.FAILED}
    assert "failed" in result.summary()


def test_if_everything_fails_the_user_is_told():
    result = result_of(drive(start(max_evaluations=20), lambda theta: np.nan))
    assert result.stop is tbq.Stop.NOTHING_LEARNED
    assert np.isnan(result.log_evidence)
    assert result.n_evaluations == 20
    assert "Too few evaluations succeeded" in result.summary()
    with pytest.raises(tbq.TbqError, match="no posterior"):
        result.log_density([0.0, 0.0])


def test_runs_that_all_fail_are_not_made_without_end():
    result = result_of(drive(start(max_evaluations=200), lambda theta: np.nan))
    assert (result.stop, result.n_evaluations) == (tbq.Stop.NOTHING_LEARNED, 50)
    half = result_of(drive(start(max_evaluations=60), lambda theta: -np.inf))
    assert half.n_evaluations == 60  # zero likelihood is an answer


@pytest.mark.parametrize("penalty", [-1e3, -1e10, -1e200])
def test_a_penalty_is_as_good_as_zero_likelihood(penalty):
    def cut(value):
        return result_of(drive(start(), lambda theta: gaussian(theta) if theta[0] < 1.0 else value))

    zero, low = cut(-np.inf), cut(penalty)
    assert low.log_evidence == zero.log_evidence
    assert low.n_evaluations == zero.n_evaluations


def test_an_unfinished_run_has_a_result_too():
    state, proposals = engine.ask(start(), 12)
    state = engine.tell(state, [judge(p, gaussian(p.theta)) for p in proposals])
    assert result_of(state).stop is tbq.Stop.UNFINISHED
