"""What a returned number is taken for."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tbq.problem.evaluation import Proposal, Status, judge, noise_sd, without_penalties
from tbq.problem.records import evaluation_of, evaluation_record


def run(value, number=0, outputs=None):
    return judge(Proposal(number, np.full(2, float(number)), 0, "initial", np.nan), value, outputs=outputs)


@pytest.mark.parametrize(
    ("value", "status"),
    [
        (-3.5, Status.OK),
        ([[2.0]], Status.OK),
        (-1e99, Status.OK),
        (-np.inf, Status.INFEASIBLE),
        (-1e200, Status.INFEASIBLE),
        (1e200, Status.FAILED),
        (np.inf, Status.FAILED),
        (np.nan, Status.FAILED),
        ([1.0, 2.0], Status.FAILED),
        ("abc", Status.FAILED),
        (None, Status.FAILED),
    ],
)
def test_every_value_has_its_outcome(value, status):
    found = run(value)
    assert found.status is status
    assert np.isnan(found.log_likelihood) == (status is Status.FAILED)
    assert bool(found.message) == (status is Status.FAILED or value == -1e200)


def test_a_function_without_a_return_is_told_so():
    assert run(None).message == "the log-likelihood returned NoneType, not a number"


def test_a_low_value_that_repeats_is_a_penalty():
    values = [-1.0, -1000.0, -1000.0, -900.0, np.nan, -np.inf]
    found = without_penalties(run(v, i) for i, v in enumerate(values))
    expected = ["ok", "infeasible", "infeasible", "ok", "failed", "infeasible"]
    assert [e.status.value for e in found] == expected
    assert [e.log_likelihood for e in found[1:3]] == [-1000.0, -1000.0]  # what was returned stays on record
    later = without_penalties([*found, run(-1000.0, 6)])
    assert later[-1].status is Status.INFEASIBLE  # the value is known as one


@pytest.mark.parametrize(
    "values",
    [
        [-1.0, -1000.0, -1000.5],  # low, but not the same
        [-1.0, -150.0, -150.0],  # the same, but not hopeless
        [-1000.0, -1000.0, -1000.0],  # a constant is not below the best
    ],
)
def test_what_is_no_penalty(values):
    runs = tuple(run(v, i) for i, v in enumerate(values))
    assert without_penalties(runs) == runs


def test_one_point_that_was_run_twice_shows_no_penalty():
    again = replace(run(-1000.0, 2), theta=run(-1000.0, 1).theta)
    runs = (run(-1.0, 0), run(-1000.0, 1), again)
    assert without_penalties(runs) == runs


def test_runs_with_outputs_keep_them():
    runs = tuple(run(v, i, np.ones(3)) for i, v in enumerate([-1.0, -1000.0, -1000.0]))
    assert all(e.status is Status.OK for e in without_penalties(runs))


def test_a_run_may_tell_the_noise_of_its_log_likelihood():
    proposal = Proposal(0, np.zeros(1), 0, "initial", np.nan)
    run = judge(proposal, (-3.0, np.float32(0.5)))
    assert (run.status, run.log_likelihood, run.log_likelihood_sd) == (Status.OK, -3.0, 0.5)
    assert noise_sd(run, 9.0) == 0.5
    assert noise_sd(judge(proposal, -3.0), 9.0) == 9.0
    zero = judge(proposal, (-np.inf, 0.5))
    assert (zero.status, zero.log_likelihood_sd) == (Status.INFEASIBLE, None)
    for sd in (-1.0, np.nan, np.inf, "x"):
        wrong = judge(proposal, (-3.0, sd))
        assert wrong.status is Status.FAILED
        assert "standard deviation" in wrong.message
    assert judge(proposal, [-3.0, 0.5]).status is Status.FAILED  # two numbers that are no tuple may be a mistake


def test_the_noise_of_a_run_is_kept_in_records_and_old_records_have_none():
    run = judge(Proposal(3, np.array([1.0]), 0, "initial", 0.0), (-3.0, 0.25))
    record = json.loads(json.dumps(evaluation_record(run)))
    assert evaluation_of(record).log_likelihood_sd == 0.25
    del record["log_likelihood_sd"]
    assert evaluation_of(record).log_likelihood_sd is None
    assert "log_likelihood_sd" not in evaluation_record(replace(run, log_likelihood_sd=None))
