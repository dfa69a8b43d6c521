"""Whole runs with a coarse model: found, journalled, gone on with, told by hand, stored, warm-started."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from decays import DATA, OPTIONS, PRIOR, TIMES, coarse, exact, fine, ids, likelihood, one, plain_coarse
from scipy import stats

import tbq
from tbq.problem.evaluation import Status
from tbq.run import journal


@pytest.fixture(scope="module")
def result():
    return tbq.infer(likelihood(), PRIOR, **OPTIONS)


def test_a_coarse_model_saves_fine_runs_and_the_evidence_is_right(result):
    without = tbq.infer(tbq.GaussianLikelihood(one, DATA, 0.05), PRIOR, **OPTIONS)
    assert result.converged
    assert 5 <= result.n_evaluations < without.n_evaluations
    assert result.n_coarse >= 16 + result.n_evaluations
    assert result.cost == pytest.approx(result.n_evaluations + 0.02 * result.n_coarse)
    assert abs(result.log_evidence - exact()) < 3.0 * result.log_evidence_sd
    uses = [u for u in result.coarse_use.values() if u != "not used"]
    assert uses
    assert all(abs(rho - 1.0) < 0.5 for rho, _ in uses)
    assert (without.n_coarse, without.coarse_use, without.cost) == (0, {}, without.n_evaluations)


def test_every_fine_run_has_a_coarse_one_and_levels_are_said(result):
    there = {tuple(e.theta) for e in result.coarse}
    assert all(tuple(e.theta) in there for e in result.evaluations)
    assert {e.level for e in result.evaluations} == {"fine"}
    assert {e.level for e in result.coarse} == {"coarse"}
    text = " ".join(result.summary().split())
    assert f"{result.n_evaluations} fine runs and {result.n_coarse} coarse ones, which cost 0.02 each" in text
    assert "ρ = " in text


def test_a_useless_coarse_model_costs_few_runs_and_no_honesty():
    def useless(theta):
        return np.cos(7.0 * theta[0] * theta[1] * TIMES)

    found = tbq.infer(likelihood(useless), PRIOR, **OPTIONS)
    without = tbq.infer(tbq.GaussianLikelihood(one, DATA, 0.05), PRIOR, **OPTIONS)
    assert found.converged
    assert found.n_evaluations <= 1.2 * without.n_evaluations
    assert abs(found.log_evidence - exact()) < 3.0 * found.log_evidence_sd


def test_a_coarse_model_that_always_fails_stops_nothing():
    def broken(theta):
        raise ValueError("no mesh")

    found = tbq.infer(likelihood(broken), PRIOR, **OPTIONS)
    assert found.converged
    assert abs(found.log_evidence - exact()) < 3.0 * found.log_evidence_sd
    assert set(found.coarse_use.values()) == {"not used"}
    assert found.n_coarse == 16  # the design, which was on its way, and no more
    assert all(e.status is Status.FAILED for e in found.coarse)


def test_a_coarse_model_that_fails_here_and_there_still_helps(result):
    def half(theta):
        if theta[1] > 0.9:
            raise ValueError("no convergence")
        return plain_coarse(theta)

    found = tbq.infer(likelihood(half), PRIOR, **OPTIONS)
    assert found.converged
    assert abs(found.log_evidence - exact()) < 3.0 * found.log_evidence_sd
    assert "failed" in " ".join(found.summary().split("levels")[1].split()[:20])


def test_unknown_noise_goes_with_levels():
    found = tbq.infer(likelihood(noise=stats.loguniform(0.01, 0.3)), PRIOR, **OPTIONS)
    without = tbq.infer(tbq.GaussianLikelihood(one, DATA, stats.loguniform(0.01, 0.3)), PRIOR, **OPTIONS)
    assert found.converged
    assert found.n_evaluations < without.n_evaluations
    assert abs(found.log_evidence - without.log_evidence) < 3.0 * np.hypot(
        found.log_evidence_sd, without.log_evidence_sd
    )


def test_the_cost_is_timed_where_it_is_not_given():
    def slow(theta):
        sum(i * i for i in range(400_000))  # some 20 ms
        return one(theta)

    found = tbq.infer(likelihood(cost=None, model=slow), PRIOR, **OPTIONS)
    assert 0.0 < found.coarse_cost < 0.5
    assert found.cost == pytest.approx(found.n_evaluations + found.coarse_cost * found.n_coarse)


def test_runs_in_batches_vectorised_and_on_executors_are_those_of_their_level():
    many = likelihood(coarse, model=fine)
    found = tbq.infer(many, PRIOR, vectorized=True, batch_size=3, **OPTIONS)
    assert found.converged
    assert abs(found.log_evidence - exact()) < 3.0 * found.log_evidence_sd
    with ThreadPoolExecutor(3) as pool:
        found = tbq.infer(likelihood(), PRIOR, executor=pool, batch_size=3, **OPTIONS)
    assert found.converged
    for e in (*found.evaluations, *found.coarse):
        expected = one(e.theta) if e.level == "fine" else plain_coarse(e.theta)
        np.testing.assert_allclose(e.outputs, expected)


# --- journals -----------------------------------------------------------------------------------------------


class Killed(BaseException):
    """As if the process had been ended."""


@pytest.mark.parametrize("after", [3, 18, 24, 29])  # in either design, and later at either level
def test_a_run_that_was_killed_goes_on_as_if_it_had_not_been(tmp_path, result, after):
    calls = itertools.count()

    def dying(model):
        def run(theta):
            if next(calls) == after:
                raise Killed
            return model(theta)

        return run

    with pytest.raises(Killed):
        tbq.infer(likelihood(dying(plain_coarse), model=dying(one)), PRIOR, journal=tmp_path, **OPTIONS)
    found = tbq.infer(likelihood(), PRIOR, journal=tmp_path, **OPTIONS)
    assert ids(found) == ids(result)
    assert found.log_evidence == pytest.approx(result.log_evidence, abs=1e-9)


def test_a_finished_journal_replays_and_says_levels(tmp_path, result):
    tbq.infer(likelihood(), PRIOR, journal=tmp_path, **OPTIONS)
    contents = journal.read(tmp_path)
    assert len(contents.fine) == result.n_evaluations
    assert len(contents.evaluations) == result.n_evaluations + result.n_coarse
    again = tbq.infer(likelihood(), PRIOR, journal=tmp_path, **OPTIONS)
    assert ids(again) == ids(result)
    assert again.log_evidence == pytest.approx(result.log_evidence, abs=1e-9)
    with pytest.raises(tbq.TbqError, match="there was a coarse model"):
        tbq.infer(tbq.GaussianLikelihood(one, DATA, 0.05), PRIOR, journal=tmp_path, **OPTIONS)


def test_a_journal_without_levels_is_one_of_fine_runs(tmp_path):
    tbq.infer(tbq.GaussianLikelihood(one, DATA, 0.05), PRIOR, journal=tmp_path, max_evaluations=12, **OPTIONS)
    assert "level" not in (tmp_path / journal.FILE).read_text().replace("log_level", "")
    assert {e.level for e in journal.read(tmp_path).evaluations} == {"fine"}


def test_a_study_of_the_coarse_model_alone_is_worth_something(tmp_path, result):
    tbq.infer(tbq.GaussianLikelihood(plain_coarse, DATA, 0.05), PRIOR, journal=tmp_path / "old", **OPTIONS)
    old = journal.read(tmp_path / "old").evaluations
    found = tbq.infer(likelihood(), PRIOR, warm_start={"coarse": tmp_path / "old"}, **OPTIONS)
    assert found.converged
    assert found.n_coarse >= len(old)
    made = [e for e in found.coarse if e.origin != "earlier"]
    assert len(made) == found.n_coarse - len(old)
    assert found.cost == pytest.approx(found.n_evaluations + 0.02 * len(made))
    assert abs(found.log_evidence - exact()) < 3.0 * found.log_evidence_sd
    with pytest.raises(tbq.TbqError, match="'coarse' needs a likelihood that has a coarse model"):
        tbq.infer(tbq.GaussianLikelihood(one, DATA, 0.05), PRIOR, warm_start={"coarse": tmp_path / "old"}, **OPTIONS)


def test_an_old_study_that_was_cut_short_is_worth_something_too(tmp_path):
    def failing(theta):
        if theta[1] > 2.0:
            raise ValueError("no mesh")
        return plain_coarse(theta)

    other = tbq.GaussianLikelihood(failing, DATA + 0.1, 0.3)  # of other data
    tbq.infer(other, PRIOR, journal=tmp_path, max_evaluations=14, **OPTIONS)
    text = (tmp_path / journal.FILE).read_text().splitlines(keepends=True)
    (tmp_path / journal.FILE).write_text("".join(text[:-4])[:-9])  # within a record
    old = journal.read(tmp_path).evaluations
    assert 5 < len(old) < 14
    for retry in (False, True):
        found = tbq.infer(likelihood(), PRIOR, warm_start={"coarse": tmp_path}, retry_failed=retry, **OPTIONS)
        failed = sum(e.status.is_failure for e in old)
        assert failed
        assert sum(e.origin == "earlier" for e in found.coarse) == len(old) - retry * failed
        assert found.converged
        assert abs(found.log_evidence - exact()) < 3.0 * found.log_evidence_sd


def test_coarse_runs_that_failed_are_made_again(tmp_path, result):
    def half(theta):
        if theta[1] > 0.9:
            raise ValueError("no licence")
        return plain_coarse(theta)

    before = tbq.infer(likelihood(half), PRIOR, journal=tmp_path, max_evaluations=5, **OPTIONS)
    failed = {tuple(e.theta) for e in before.coarse if e.status.is_failure}
    made = []

    def noted(theta):
        made.append(tuple(theta))
        return plain_coarse(theta)

    found = tbq.infer(likelihood(noted), PRIOR, journal=tmp_path, max_evaluations=40, retry_failed=True, **OPTIONS)
    assert failed
    assert failed <= set(made)
    assert len(made) == len(set(made)) == found.n_coarse - (before.n_coarse - len(failed))
    assert not any(e.status.is_failure for e in found.coarse)
    assert found.converged


def test_models_are_compared_by_evidences_of_their_fine_levels(result):
    def line(theta):
        return theta[0] * (1.0 - 0.1 * theta[1] * TIMES)

    other = tbq.infer(likelihood(lambda theta: 0.9 * line(theta), model=line), PRIOR, **OPTIONS)
    without = tbq.infer(tbq.GaussianLikelihood(one, DATA, 0.05), PRIOR, **OPTIONS)
    found = tbq.compare({"decay": result, "line": other, "decay, one level": without})
    factor, sd = found.log_bayes_factor("decay", "decay, one level")
    assert abs(factor) < 3.0 * sd
    assert found.names[2] == "line"
    drawn = found.predict(n=6, noise=None, seed=0)
    curves = [np.exp(np.polyval(np.polyfit(TIMES, np.log(o), 1), TIMES)) for o in drawn.outputs]
    np.testing.assert_allclose(drawn.outputs, curves, rtol=1e-6)  # of the fine decay, which Euler's is not


def test_runs_of_both_levels_start_another_run(result):
    found = tbq.infer(likelihood(), PRIOR, warm_start=result, **OPTIONS)
    assert found.converged
    assert found.n_evaluations <= result.n_evaluations + 2
    without = tbq.infer(tbq.GaussianLikelihood(one, DATA, 0.05), PRIOR, warm_start=result, max_evaluations=1, **OPTIONS)
    assert without.n_coarse == 0


# --- by hand, and afterwards --------------------------------------------------------------------------------


def test_a_session_gives_points_with_their_level(result):
    options = {name: value for name, value in OPTIONS.items() if name != "progress"}
    session, levels = tbq.Session(PRIOR, likelihood=likelihood(), **options), set()
    while not session.done:
        for p in session.ask():
            model = likelihood().at(p.level)
            value, outputs = model.evaluate(p.theta)
            session.tell(p.id, log_likelihood=value, outputs=outputs)
            levels.add(p.level)
    assert levels == {"fine", "coarse"}
    found = session.result()
    assert found.converged
    assert abs(found.log_evidence - result.log_evidence) < 3.0 * np.hypot(found.log_evidence_sd, result.log_evidence_sd)


def test_results_are_stored_with_their_levels(tmp_path, result):
    result.save(tmp_path / "r.tbq")
    found = tbq.load(tmp_path / "r.tbq")
    assert ids(found) == ids(result)
    assert (found.n_coarse, found.cost) == (result.n_coarse, pytest.approx(result.cost))
    assert found.coarse_use.keys() == result.coarse_use.keys()
    np.testing.assert_allclose(
        found.log_density(result.samples[:50]), result.log_density(result.samples[:50]), rtol=1e-6
    )


def test_predictions_checks_and_sensitivities_are_of_the_fine_model(result):
    checked = result.verify(6, seed=0)
    assert abs(checked.log_evidence - exact()) < 0.1
    predicted = result.predict(n=5, noise=None, seed=0)
    assert np.all([np.allclose(o, one(t)) for o, t in zip(predicted.outputs, predicted.theta, strict=True)])
    assert np.isfinite(result.sensitivity().prior.first).all()


def test_wrong_arguments_are_refused():
    with pytest.raises(tbq.TbqError, match="coarse must be a function of theta; got int"):
        likelihood(3)
    with pytest.raises(tbq.TbqError, match="cost must be that of a coarse run in fine ones"):
        likelihood(cost=2.0)
    with pytest.raises(tbq.TbqError, match="coarse must be a function of theta; got NoneType"):
        tbq.GaussianLikelihood(one, DATA, 0.05, cost=0.1)
    with pytest.raises(tbq.TbqError, match="for all experiments of a sum, or for none"):
        likelihood() + tbq.GaussianLikelihood(one, DATA, 0.05)
    with pytest.raises(tbq.TbqError, match="n_initial must be at least 5 with a coarse model"):
        tbq.infer(likelihood(), PRIOR, n_initial=3, **OPTIONS)
