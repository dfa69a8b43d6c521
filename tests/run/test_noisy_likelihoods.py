"""Log-likelihoods with noise: learned, given or told by the runs, kept in journals and files, named in the summary."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.problem.evaluation import judge
from tbq.report import diagnostics

PRIOR = tbq.Prior({"a": stats.norm(0, 1), "b": stats.norm(0, 1)})
PEAK, SD, NOISE = np.array([0.4, -0.3]), 0.5, 0.5
# a normal likelihood under a normal prior: the evidence is a normal density of its centre, times its own volume
EXACT = float(np.sum(stats.norm(0, np.hypot(1.0, SD)).logpdf(PEAK)) + np.log(2 * np.pi * SD**2))
SMALL = {"population": 512, "chain_length": 8, "progress": False, "batch_size": 12, "max_evaluations": 48}


def quiet(theta):
    return -0.5 * np.sum(((np.atleast_2d(theta) - PEAK) / SD) ** 2, axis=1)


def noisy(sd, seed=0):
    rng = np.random.default_rng(seed)
    return lambda theta: float(quiet(theta)[0]) + sd * rng.standard_normal()


def finding(result):
    return {f.name: f for f in diagnostics.findings(result)}.get("noisy runs")


@pytest.mark.parametrize("how", ["learned", "given", "told"])
def test_noise_ends_with_an_honest_error_and_is_named(how, tmp_path):
    log_likelihood, options = noisy(NOISE, seed=4), {}
    if how == "given":
        options["log_likelihood_noise"] = NOISE
    if how == "told":
        plain, log_likelihood = log_likelihood, lambda theta: (plain(theta), NOISE)
    result = tbq.infer(log_likelihood, PRIOR, seed=4, journal=tmp_path / "run", **options, **SMALL)
    assert not result.converged  # four dozen runs with this noise cannot know the evidence to 4 %
    assert abs(result.log_evidence - EXACT) < 2.0 * result.log_evidence_sd < 1.5
    found = finding(result)
    assert found.ok
    assert found.value == pytest.approx(NOISE, rel=0.3 if how == "learned" else 1e-4)
    words = {"learned": "learned from the runs", "given": "was given", "told": "the runs told"}[how]
    assert words in found.sentence
    assert "Log-likelihoods are noisy" in result.summary()
    result.save(tmp_path / "result.tbq")
    loaded = tbq.load(tmp_path / "result.tbq")
    assert finding(loaded) == found
    assert [e.log_likelihood_sd for e in loaded.evaluations] == [e.log_likelihood_sd for e in result.evaluations]
    assert ("log_likelihood_sd" in loaded.evaluations_table()) == (how == "told")
    again = tbq.infer(log_likelihood, PRIOR, seed=4, journal=tmp_path / "run", **options, **SMALL)
    assert (again.log_evidence, again.log_evidence_sd) == (result.log_evidence, result.log_evidence_sd)


def test_without_noise_there_is_nothing_to_say():
    result = tbq.infer(noisy(0.0), PRIOR, seed=1, **SMALL)
    assert result.converged
    assert finding(result) is None
    assert "noisy" not in result.summary()


def test_a_journal_of_other_noise_is_of_another_run(tmp_path):
    run = {"journal": tmp_path, "seed": 0, **SMALL, "max_evaluations": 12}
    tbq.infer(noisy(NOISE), PRIOR, log_likelihood_noise=NOISE, **run)
    with pytest.raises(tbq.TbqError, match=r"log_likelihood_noise was 0\.5, is None"):
        tbq.infer(noisy(NOISE), PRIOR, **run)


def test_many_points_at_once_may_tell_their_noise():
    def both(theta):
        return quiet(theta), np.full(len(theta), 0.1)

    result = tbq.infer(both, PRIOR, seed=0, vectorized=True, **{**SMALL, "max_evaluations": 13})
    assert {e.log_likelihood_sd for e in result.evaluations} == {0.1}
    np.testing.assert_allclose(
        [e.log_likelihood for e in result.evaluations], quiet([e.theta for e in result.evaluations])
    )
    two = tbq.infer(
        lambda theta: tuple(quiet(theta)), PRIOR, seed=0, vectorized=True, **{**SMALL, "max_evaluations": 2}
    )
    assert [e.log_likelihood_sd for e in two.evaluations] == [None, None]  # two numbers for two points


def test_a_session_is_told_noise_and_its_journal_keeps_it(tmp_path):
    run = {"seed": 0, "n_initial": 12, "population": 512, "journal": tmp_path}
    with tbq.Session(PRIOR, **run) as session:
        for p in session.ask(12):
            told = session.tell(p.id, log_likelihood=float(quiet(p.theta)[0]), log_likelihood_sd=0.3)
            assert told.log_likelihood_sd == 0.3
        (p,) = session.ask()
        for wrong in (-1.0, np.nan, "x"):
            with pytest.raises(tbq.TbqError, match="log_likelihood_sd must be a standard deviation"):
                session.tell(p.id, log_likelihood=0.0, log_likelihood_sd=wrong)
    with tbq.Session(PRIOR, **run) as again:
        assert [e.log_likelihood_sd for e in again.evaluations] == [0.3] * 12
        assert again.state.noise == pytest.approx(0.3)


def test_runs_that_were_made_twice_at_one_point_are_averaged():
    """Twelve points, each run twice with noise of opposite sign: what is learned is their means."""
    session = tbq.Session(PRIOR, seed=0, population=512)
    runs = session.ask(12)
    first = [judge(p, float(quiet(p.theta)[0]) + 0.4 * (-1) ** i) for i, p in enumerate(runs)]
    second = [replace(e, id=e.id + 12, log_likelihood=e.log_likelihood - 0.8 * (-1) ** i) for i, e in enumerate(first)]
    options = {"warm_start": [*first, *second], "seed": 0, "population": 512, "log_likelihood_noise": 0.4}
    surrogate = tbq.Session(PRIOR, **options, kernel="se").result().surrogate
    z = PRIOR.to_working(np.array([e.theta for e in first]))
    mean, variance = surrogate.log_likelihood(surrogate.at(z))
    near = quiet([e.theta for e in first]) > -8.0
    assert np.all(np.abs(mean - quiet([e.theta for e in first]))[near] < 0.2)
    assert np.all(variance < 1.05 * 0.4**2 / 2)  # of two readings, whatever the neighbours tell


@pytest.mark.parametrize("sd", [0.0, 0.3])
def test_a_point_is_proposed_again_only_where_runs_are_noisy(sd):
    known = []
    prefers_the_first = lambda target, z: -np.sum((z - PRIOR.to_working(known[0][None, :])) ** 2, axis=1)
    session = tbq.Session(
        PRIOR, seed=0, population=512, acquisition=prefers_the_first, search="continuous", log_likelihood_noise=sd
    )
    for p in session.ask(12):
        known.append(p.theta)
        session.tell(p.id, log_likelihood=float(quiet(p.theta)[0]))
    (p,) = session.ask()
    assert np.allclose(p.theta, known[0], atol=1e-6) == (sd > 0.0)


@pytest.mark.parametrize("wrong", [-0.1, np.nan, np.inf, "x"])
def test_noise_that_is_none_is_refused(wrong):
    with pytest.raises(tbq.TbqError, match="log_likelihood_noise must be a standard deviation in nats"):
        tbq.infer(noisy(0.0), PRIOR, log_likelihood_noise=wrong)


def test_noise_of_log_likelihoods_is_not_of_outputs():
    data = tbq.GaussianLikelihood(lambda theta: theta, [0.4, -0.3], 0.5)
    with pytest.raises(tbq.TbqError, match="log_likelihood_noise is not used where outputs are learned"):
        tbq.infer(data, PRIOR, log_likelihood_noise=0.1)
