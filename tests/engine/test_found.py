"""Once a far posterior was found: models of the runs that matter alone, doubts on the way, climbs by all runs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq import engine
from tbq.engine import climb, learn
from tbq.problem.evaluation import Evaluation, Proposal, Status, judge
from tbq.problem.settings import resolve

SQUARE = tbq.Prior({"a": stats.uniform(-1.5, 3.0), "b": stats.uniform(-1.5, 3.0)})


def ridge(theta):
    """A bent one under walls that are thousands of nats high: what they vary by is not what it does."""
    bent = theta[1] - 0.5 * theta[0] ** 2
    return float(-8.0 * theta[0] ** 2 - 200.0 * bent**2 - 1000.0 * np.expm1(max(abs(bent) - 0.4, 0.0) * 6.0))


@pytest.fixture(scope="module")
def found():
    """Seventy runs, a design of sixty with the best one among them; nothing was learned yet."""
    rng = np.random.default_rng(5)
    on = rng.normal(0.0, [0.3, 0.06], (30, 2))
    on[:, 1] += 0.5 * on[:, 0] ** 2
    on[0] = 0.0
    points = np.vstack([rng.uniform(-1.5, 1.5, (40, 2)), on])
    proposals = [Proposal(i, theta, 0, "initial", np.nan) for i, theta in enumerate(points)]
    settings = resolve(2, population=512, n_initial=60, max_evaluations=200)
    state = replace(engine.init(SQUARE, settings, 0), next_id=72)
    return learn.collect(state, [judge(p, ridge(p.theta)) for p in proposals])


@pytest.fixture(scope="module")
def learned(found):
    """By a model of all runs, which every run begins with, as if it were not sure of the evidence; then came four."""
    state = learn._learned_values(replace(found, evaluations=found.evaluations[:66]))
    vague = (replace(state.history[-1], cov=1.0),)
    return replace(state, evaluations=found.evaluations, squared_z=(4.0,) * 5, history=vague)


@pytest.fixture(scope="module")
def local(learned):
    return learn._learned_values(learned)


def test_a_local_model_is_used_once_the_best_run_hardly_rises(learned, local):
    assert learned.far
    assert learned.found
    assert not learned.memory.values.is_local
    assert local.memory.values.is_local
    assert local.learned.surrogate.local
    few = replace(learned, evaluations=learned.evaluations[:66])  # of so few after the design nothing is concluded
    assert not few.found
    assert not learn._learned_values(few).memory.values.is_local


def test_a_model_of_all_runs_that_knows_the_evidence_stays(learned, local):
    sure = replace(learned, history=(replace(learned.history[-1], cov=0.079), *learned.history[-1:] * 7))
    assert sure.sure  # to two tolerances of 0.04 within the last eight updates
    assert not learn._learned_values(sure).memory.values.is_local
    assert not replace(sure, history=(*sure.history, *learned.history[-1:])).sure
    assert not replace(sure, history=(replace(learned.history[-1], cov=0.081),)).sure
    assert not replace(sure, memory=local.memory).sure


def test_z_scores_of_other_models_say_nothing_of_a_local_one(local):
    assert local.squared_z == ()
    kept = learn._learned_values(replace(local, squared_z=(4.0,) * 5))
    assert kept.memory.values.is_local
    assert kept.squared_z == (4.0,) * 5


def test_a_run_that_climbs_asks_all_runs_too(local):
    lost = replace(local, satisfied=0, overall=None)
    assert lost.next_id % lost.settings.tuning.climb_every == 0
    overall = learn._with_overall(lost).overall
    assert not overall.local
    assert len(overall.gp.x) == 70
    assert len(lost.learned.surrogate.gp.x) < 70
    assert learn._with_overall(replace(lost, next_id=73)).overall is None  # which does not climb
    assert learn._with_overall(replace(lost, satisfied=1)).overall is None


def test_what_may_hide_is_looked_for_on_the_way_instead_of_exploring(local):
    surrogate, tuning = local.learned.surrogate, replace(local.settings.tuning, overlooked=0.0)
    due = replace(local, doubt=None, doubts=0, settings=replace(local.settings, tuning=tuning))
    share, where = climb.overlooked(due, surrogate)
    assert share > 0.0
    asked = climb._doubting_on_the_way(due, surrogate)
    np.testing.assert_array_equal(asked.doubt, where)
    assert (asked.doubts, asked.satisfied) == (1, due.satisfied)
    enough = replace(due, settings=replace(due.settings, tuning=replace(tuning, overlooked=share)))
    assert climb._doubting_on_the_way(enough, surrogate).doubt is None
    not_due = replace(due, evaluations=due.evaluations[:-1])
    assert climb._doubting_on_the_way(not_due, surrogate) is not_due
    enough = replace(due, doubts=due.settings.tuning.most_far_doubts)
    assert climb._doubting_on_the_way(enough, surrogate) is enough


def test_a_check_of_a_far_posterior_allows_for_what_the_evidence_allows_for(local):
    state = replace(local, assessment=learn.assess_evidence(local), squared_z=(9.0,) * 30)
    assert state.inflation > 2.0
    believed = learn._plan_check(state, 8).check.believed
    plain = learn._plan_check(replace(state, squared_z=(0.0,) * 30), 8).check.believed
    np.testing.assert_allclose(believed, (state.inflation / 1.2) ** 2 * plain)


def evaluations(values):
    status = [Status.OK if np.isfinite(v) else Status.INFEASIBLE for v in values]
    return tuple(
        Evaluation(i, np.zeros(2), 0, "initial", 0.0, s, v, "", 0.0, None)
        for i, (s, v) in enumerate(zip(status, values, strict=True))
    )


NONE = -np.inf


@pytest.mark.parametrize(
    ("values", "far"),
    [
        ([-500.0] * 7 + [0.0] * 5, True),
        ([-500.0] * 5 + [0.0] * 7, False),
        ([NONE] * 5 + [-500.0, -400.0] + [0.0] * 5, True),  # zero likelihood is no less deep than what has some
        ([NONE] * 7 + [-3.0] * 2 + [0.0] * 3, False),  # a prior that is cut off, and shallow where it is not
        ([NONE] * 12, False),
    ],
)
def test_a_posterior_is_far_by_its_design(values, far):
    state = engine.init(SQUARE, resolve(2, n_initial=12), 0)
    assert replace(state, evaluations=evaluations(values)).far is far
