"""Which level the next run is of: by what it is expected to reveal of the evidence, per cost."""

from dataclasses import replace

import numpy as np
import pytest
from decays import OPTIONS, PRIOR, likelihood, one, plain_coarse

import tbq
from tbq.engine import coarse
from tbq.problem.evaluation import Proposal, failure, judge

SESSION = {name: value for name, value in OPTIONS.items() if name != "progress"}


def far_off(theta):
    """A coarse model that needs many runs: it waves where the fine one does not."""
    return plain_coarse(theta) * (1.0 + 0.3 * np.sin(4.0 * theta[0]) * np.sin(5.0 * theta[1]))


@pytest.fixture(scope="module")
def state():
    """Where the evidence is known to a tenth, and the coarse model is not known well."""
    model = lambda theta: one(theta) * (1.0 + 0.3 * np.sin(4.0 * theta[0]) * np.sin(5.0 * theta[1]))
    both = likelihood(far_off, model=model)
    session = tbq.Session(PRIOR, likelihood=both, n_initial=8, **SESSION)
    while session.state.learned is None or session.state.learned.gamma < 1.0 or session.state.learned.cov > 0.1:
        for p in session.ask(4):
            value, outputs = both.at(p.level).evaluate(p.theta)
            session.tell(p.id, log_likelihood=value, outputs=outputs)
    return replace(session.state, plan=session.state.plan[:0])


def left(state, points):
    """Of the evidence's coefficient of variation that is due to the coarse model, after runs of it at points."""
    surrogate, target = coarse._levels_of(state), state.learned.target
    for z in points:
        surrogate = replace(surrogate, batch=surrogate.batch.condition_on_coarse_mean(z))
    return coarse._due_to_coarse(surrogate, surrogate.at(target.node_z), target.weights, state.learned.gamma)


def test_the_runs_decided_on_tell_more_than_others(state):
    chosen = coarse._worth_more(state, coarse._levels_of(state), 0.02, 4)
    assert len(chosen) == 4
    before, after = left(state, []), left(state, chosen)
    rng, candidates = np.random.default_rng(0), state.learned.candidates
    others = [left(state, rng.permutation(candidates)[:4]) for _ in range(20)]
    assert after < 0.5 * before
    assert after < min(others)


def test_what_they_cost_decides(state):
    of_level = coarse._levels_of(state)
    fine, cheap = (coarse._worth_more(state, of_level, cost, 4) for cost in (1e6, 1e-3))
    assert len(fine) == 0
    assert len(cheap) == 4


def test_no_more_is_asked_for_than_is_known_well_enough(state):
    tolerance = state.settings.tolerance
    lax = replace(state, settings=replace(state.settings, tolerance=(tolerance[0], 100.0)))
    assert len(coarse._worth_more(lax, coarse._levels_of(lax), 0.02, 4)) == 0
    full = replace(state, settings=replace(state.settings, tuning=replace(state.settings.tuning, most_coarse=1)))
    assert len(coarse.planned(full).plan) == 0


def test_costs_are_timed_where_nobody_gave_them():
    ran = lambda i, seconds, level: judge(Proposal(i, np.ones(2), 0, "initial", np.nan, level), 0.0, seconds)
    fine = [ran(i, seconds, "fine") for i, seconds in enumerate((2.0, 4.0, 90.0))]
    below = [ran(i, seconds, "coarse") for i, seconds in enumerate((0.1, 0.2, 0.3))]
    below.append(failure(Proposal(9, np.ones(2), 0, "initial", np.nan, "coarse"), "no mesh", 50.0))
    timed, given = likelihood(cost=None), likelihood(cost=0.3)
    assert coarse.cost_ratio(timed, fine, below) == pytest.approx(0.2 / 4.0)  # medians of those that succeeded
    assert coarse.cost_ratio(timed, fine, []) == 0.1  # nobody knows
    assert coarse.cost_ratio(given, fine, below) == 0.3


@pytest.mark.parametrize(("cost", "size"), [(None, 16), (0.02, 16), (0.5, 10), (1.0, 5)])
def test_the_design_is_smaller_where_coarse_runs_are_dear(cost, size):
    session = tbq.Session(PRIOR, likelihood=likelihood(cost=cost), **SESSION)
    points = session.ask(100)
    assert [p.level for p in points] == ["coarse"] * size


def test_a_coarse_run_is_made_beside_each_fine_one(state):
    last = [e.theta for e in state.evaluations[-3:]]
    without = tuple(e for e in state.coarse if not any(np.array_equal(e.theta, theta) for theta in last))
    missing = coarse.with_partners(replace(state, coarse=without)).plan
    np.testing.assert_array_equal(missing, last)
