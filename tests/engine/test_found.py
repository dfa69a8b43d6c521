"""Once a far posterior was found: models of the runs that matter alone, doubts on the way, climbs by all runs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq import engine
from tbq.engine import climb, learn, training
from tbq.problem.evaluation import Evaluation, Status, judge
from tbq.problem.settings import resolve
from tbq.problem.tuning import Tuning

WIDE = tbq.Prior({"a": stats.uniform(-50, 100), "b": stats.uniform(-50, 100)})


def valley(theta):
    """A bent one, a hundredth as wide as the prior."""
    a, b = theta
    return float(-0.5 * (a / 1.5) ** 2 - 0.5 * ((b - 0.3 * a**2) / 0.5) ** 2)


@pytest.fixture(scope="module")
def states():
    """After every update of a run."""
    settings = resolve(2, population=512, max_evaluations=70, tuning=Tuning(check_runs=False))
    state, found = engine.init(WIDE, settings, 0), []
    while state.stop is None:
        state, proposals = engine.ask(state, 12 if not state.evaluations else 1)
        state = engine.tell(state, [judge(p, valley(p.theta)) for p in proposals])
        found.append(state)
    return found


@pytest.fixture(scope="module")
def local(states):
    """The updates with a local model."""
    return [i for i, s in enumerate(states) if s.memory.values.is_local]


def test_a_local_model_is_used_once_the_posterior_was_found_and_no_sooner(states, local):
    assert local
    assert all(states[i - 1].far for i in local)
    assert not any(states[i].memory.values.is_local for i in range(local[0]))
    assert not states[local[0] - 1].found or states[local[0]].found


def test_z_scores_of_other_models_say_nothing_of_a_local_one(states, local):
    before, after = states[local[0] - 1], states[local[0]]
    assert len(before.squared_z) > 0
    assert after.squared_z == ()
    later = states[local[0] + 3]
    assert later.memory.values.is_local
    assert 0 < len(later.squared_z) <= 3


def test_a_run_that_climbs_asks_all_runs_too(states, local):
    for i in local:
        state = states[i]
        due = state.next_id % state.settings.tuning.climb_every == 0 and state.satisfied == 0
        assert (state.overall is not None) == due
    state = next(states[i] for i in local if states[i].overall is not None)
    assert not state.overall.local
    assert state.learned.surrogate.local
    runs, frame = state.runs, training.frame_of(state.population, state.prior)
    again, _ = training.fit_overall(runs, 1.0, state.inflation, training.Memory(), frame)
    assert len(again.gp.x) == len(runs.evaluations)
    assert len(state.learned.surrogate.gp.x) < len(runs.evaluations)


def test_what_may_hide_is_looked_for_on_the_way_instead_of_exploring(states):
    state = next(s for s in states if s.found and s.satisfied == 0 and s.doubts < 9)
    surrogate, every = state.learned.surrogate, state.settings.tuning.explore_every
    due = replace(state, doubt=None, evaluations=state.evaluations[: len(state.evaluations) // every * every])
    asked = climb._doubting_on_the_way(due, surrogate)
    share, where = climb.overlooked(due, surrogate)
    assert (asked.doubt is not None) == (share > due.settings.tuning.overlooked)
    if asked.doubt is not None:
        np.testing.assert_array_equal(asked.doubt, where)
        assert asked.doubts == due.doubts + 1
    assert asked.satisfied == due.satisfied
    not_due = replace(due, evaluations=due.evaluations[:-1])
    assert climb._doubting_on_the_way(not_due, surrogate) is not_due
    enough = replace(due, doubts=due.settings.tuning.most_far_doubts)
    assert climb._doubting_on_the_way(enough, surrogate) is enough


def test_a_check_of_a_far_posterior_allows_for_what_the_evidence_allows_for(states):
    state = replace(states[-1], check=None, stop=None, doubt=None)
    state = replace(state, assessment=learn.assess_evidence(state), squared_z=(9.0,) * 30)
    state = replace(state, settings=replace(state.settings, max_evaluations=200))
    assert state.inflation > 2.0
    believed = learn._plan_check(state, 8).check.believed
    plain = learn._plan_check(replace(state, squared_z=(0.0,) * 30), 8).check.believed
    np.testing.assert_allclose(believed / plain, (state.inflation / 1.2) ** 2)


def evaluations(values):
    status = [Status.OK if np.isfinite(v) else Status.INFEASIBLE for v in values]
    return tuple(
        Evaluation(i, np.zeros(2), 0, "initial", 0.0, s, v, "", 0.0, None)
        for i, (s, v) in enumerate(zip(status, values, strict=True))
    )


@pytest.mark.parametrize(
    ("design", "far"),
    [
        ([-500.0] * 7 + [0.0] * 5, True),
        ([-500.0] * 5 + [0.0] * 7, False),
        ([-np.inf] * 5 + [-500.0, -400.0] + [0.0] * 5, True),  # zero likelihood is no less deep than what has some
        ([-np.inf] * 7 + [-3.0] * 2 + [0.0] * 3, False),  # a prior that is cut off, and shallow where it is not
        ([-np.inf] * 12, False),
    ],
)
def test_a_posterior_is_far_by_its_design(states, design, far):
    assert states[0].settings.n_initial == 12
    assert replace(states[0], evaluations=evaluations(design)).far is far
