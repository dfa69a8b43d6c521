"""A run may go on with another budget or tolerance, and is then what its journal says to the last bit."""

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.engine.records import Stop
from tbq.run import journal

PRIOR = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.norm(0, 1)})
OPTIONS = {"seed": 3, "population": 256, "progress": False}


def log_likelihood(theta):
    return -0.5 * float(np.sum(((theta - [0.3, -0.2]) / [0.3, 0.4]) ** 2))


def evidence(result):
    return result.log_evidence, result.n_evaluations, result.stop


def test_a_larger_budget_goes_on_and_is_what_a_replay_finds(tmp_path):
    short = tbq.infer(log_likelihood, PRIOR, journal=tmp_path, max_evaluations=12, **OPTIONS)
    assert (short.stop, short.n_evaluations) == (Stop.BUDGET, 12)
    whole = tbq.infer(log_likelihood, PRIOR, journal=tmp_path, max_evaluations=60, **OPTIONS)
    assert whole.n_evaluations > 12
    assert whole.converged
    contents = journal.read(tmp_path)
    assert [r["kind"] for r in contents.records].count("steer") == 1
    assert contents.settings.max_evaluations == 60
    again = tbq.infer(_never, PRIOR, journal=tmp_path, max_evaluations=60, **OPTIONS)
    assert evidence(again) == evidence(whole)
    assert len(journal.read(tmp_path).records) == len(contents.records)


def test_a_smaller_tolerance_goes_on_where_the_old_one_was_met(tmp_path):
    first = tbq.infer(log_likelihood, PRIOR, journal=tmp_path, tolerance=0.3, max_evaluations=80, **OPTIONS)
    assert first.converged
    second = tbq.infer(log_likelihood, PRIOR, journal=tmp_path, tolerance=0.02, max_evaluations=80, **OPTIONS)
    assert second.converged
    assert second.n_evaluations > first.n_evaluations
    assert second.history[-1].cov <= 0.02
    looser = tbq.infer(_never, PRIOR, journal=tmp_path, tolerance=0.3, max_evaluations=80, **OPTIONS)
    assert evidence(looser) == evidence(second)
    assert journal.read(tmp_path).stop is Stop.CONVERGED


def test_a_budget_below_what_was_made_ends_the_run(tmp_path):
    with tbq.Session(PRIOR, journal=tmp_path, **_without_progress()) as session:
        for p in session.ask(13):
            session.tell(p.id, log_likelihood=log_likelihood(p.theta))
        session.ask(1)
    result = tbq.infer(_never, PRIOR, journal=tmp_path, max_evaluations=12, **OPTIONS)
    assert result.stop is Stop.BUDGET
    assert journal.read(tmp_path).stop is Stop.BUDGET


@pytest.mark.parametrize("cut", [0, 1])
def test_a_run_killed_while_it_was_steered_goes_on(tmp_path, cut):
    tbq.infer(log_likelihood, PRIOR, journal=tmp_path, max_evaluations=12, **OPTIONS)
    with tbq.Session(PRIOR, journal=tmp_path, max_evaluations=10, **_without_progress()) as session:
        assert session.done
    lines = (tmp_path / journal.FILE).read_bytes().splitlines(keepends=True)
    assert b'"end"' in lines[-1]
    (tmp_path / journal.FILE).write_bytes(b"".join(lines[: len(lines) - cut]))
    with tbq.Session(PRIOR, journal=tmp_path, max_evaluations=10, **_without_progress()) as session:
        assert session.done
    assert journal.read(tmp_path).stop is Stop.BUDGET


def test_outputs_are_steered_too_also_where_they_were_given_up(tmp_path):
    def model(theta):  # a jump, which no process on outputs follows
        return np.array([np.sign(np.sin(7.0 * theta[0])) + theta[1], theta[0]])

    likelihood = tbq.GaussianLikelihood(model, [0.5, 0.2], 0.3)
    first = tbq.infer(likelihood, PRIOR, journal=tmp_path, max_evaluations=24, **OPTIONS)
    assert first.stop is Stop.BUDGET
    second = tbq.infer(likelihood, PRIOR, journal=tmp_path, max_evaluations=30, tolerance=0.1, **OPTIONS)
    assert second.n_evaluations > 24
    settings = journal.read(tmp_path).settings
    assert settings.asked_tolerance[1] == pytest.approx(0.1)
    assert settings.tolerance[1] == pytest.approx(0.025)


def _without_progress():
    return {name: value for name, value in OPTIONS.items() if name != "progress"}


def _never(theta):
    raise AssertionError("no run was to be made")


@pytest.mark.parametrize(
    ("observed", "noise", "said"),
    [
        ([1.0, 2.1, 2.9], 0.2, "the outputs of run 0 had the log-likelihood"),
        ([1.0, 2.1, 2.8], 0.1, "the outputs of run 0 had the log-likelihood"),
        ([1.0, 2.1], 0.1, "its runs have 3 outputs, these data 2"),
    ],
)
def test_other_data_are_refused(tmp_path, observed, noise, said):
    prior = tbq.Prior({"k": stats.norm(1, 0.3)})
    before = tbq.GaussianLikelihood(lambda theta: theta[0] * np.arange(1, 4), [1.0, 2.1, 2.9], 0.1)
    found = tbq.infer(before, prior, journal=tmp_path, max_evaluations=8, **OPTIONS)
    assert evidence(tbq.load(tmp_path, likelihood=before)) == evidence(found)
    after = tbq.GaussianLikelihood(lambda theta: theta[0] * np.arange(1, len(observed) + 1), observed, noise)
    for go_on in (
        lambda: tbq.infer(after, prior, journal=tmp_path, max_evaluations=8, **OPTIONS),
        lambda: tbq.load(tmp_path, likelihood=after),
    ):
        with pytest.raises(tbq.TbqError, match="was made with other data or another noise") as caught:
            go_on()
        assert said in str(caught.value)
        assert f"warm_start={str(tmp_path)!r}" in str(caught.value)
