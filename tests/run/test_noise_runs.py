"""Whole runs whose noise has parameters of its own: the simulator's runs know nothing of them, all else has them."""

from functools import cache

import numpy as np
import pytest
from scipy import special, stats

import tbq
from tbq.bench.noise import references
from tbq.bench.noise_models import CASES
from tbq.problem.evaluation import Status
from tbq.run import journal

T = np.linspace(0.25, 5.0, 12)
PRIOR = tbq.Prior({"A": stats.uniform(0.2, 2.8), "k": stats.uniform(0.1, 2.9)})
LEVEL = stats.loguniform(0.005, 0.5)
SMALL = {"population": 512, "progress": False}


def curve(theta):
    return theta[..., 0, None] * np.exp(-theta[..., 1, None] * T)


DATA = curve(np.array([1.3, 0.8])) + 0.05 * np.random.default_rng(1).standard_normal(12)


def unknown(**arguments):
    return tbq.GaussianLikelihood(curve, DATA, LEVEL, **arguments)


@cache
def found():
    return tbq.infer(unknown(), PRIOR, seed=1, **SMALL)


@cache
def lacking():
    """Data with a bump that the model does not have."""
    bump = 0.4 * np.exp(-0.5 * ((T - 2.5) / 0.6) ** 2)
    lik = tbq.GaussianLikelihood(
        curve,
        DATA + bump,
        stats.loguniform(0.01, 0.3),
        coordinates=T,
        discrepancy=tbq.Discrepancy(stats.halfnorm(scale=0.2), 0.7),
    )
    return tbq.infer(lik, PRIOR, seed=3, max_evaluations=30, **SMALL)


def brute_force():
    """log Z and posterior means: over the parameters by a grid, over the noise by another, with the true model."""
    a, k = np.linspace(0.9, 1.8, 181), np.linspace(0.4, 1.3, 181)
    theta = np.stack(np.meshgrid(a, k, indexing="ij"), axis=-1).reshape(-1, 2)
    squares = np.sum((DATA - curve(theta)) ** 2, axis=1)
    s = np.exp(np.linspace(np.log(0.005), np.log(0.5), 201))
    terms = -0.5 * squares[:, None] / s**2 - 12 * (np.log(s) + 0.5 * np.log(2.0 * np.pi))
    log_z = special.logsumexp(terms) + np.log((a[1] - a[0]) * (k[1] - k[0]) / (2.8 * 2.9) / 200)
    weights = special.softmax(terms)
    return log_z, [*(weights.sum(axis=1) @ theta), weights.sum(axis=0) @ s]


def test_evidence_and_posterior_are_those_of_brute_force_with_the_true_model():
    result = found()
    log_z, means = brute_force()
    assert result.converged
    assert result.n_evaluations <= 20
    assert abs(result.log_evidence - log_z) < 0.03
    assert abs(result.log_evidence - log_z) < 3.0 * result.log_evidence_sd
    np.testing.assert_allclose(result.samples.mean(axis=0), means, rtol=0.05)


def test_runs_have_the_simulators_parameters_and_draws_all_of_them():
    result = found()
    assert result.prior.names == ("A", "k", "noise")
    assert result.samples.shape[1] == 3
    assert all(e.theta.shape == (2,) for e in result.evaluations)
    assert all(e.outputs.shape == (12,) for e in result.evaluations)
    table = result.evaluations_table()
    assert "A" in table
    assert "noise" not in table
    lik = unknown()
    for e in result.evaluations[:3]:
        assert e.log_likelihood == lik.from_outputs(e.theta, curve(e.theta))
    assert np.isfinite(result.log_density(result.samples[:5])).all()
    assert np.isfinite(result.density_sd(result.samples[:5])).all()


def test_summary_report_arviz_and_csv_show_the_noise_by_name(tmp_path):
    result = found()
    assert "noise" in result.summary()
    result.report(tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text()
    assert "noise" in text
    tree = tbq.export.to_datatree(result)
    assert {"A", "k", "noise"} <= set(tree["posterior"].data_vars)
    assert {"A", "k", "noise"} <= set(tree["prior"].data_vars)
    tbq.export.to_csv(result, tmp_path / "draws.csv")
    assert (tmp_path / "draws.csv").read_text().startswith("A,k,noise,log_density")
    tbq.export.runs_to_csv(result, tmp_path / "runs.csv")
    assert "noise" not in (tmp_path / "runs.csv").read_text().splitlines()[0].split(",")


def test_findings_are_about_the_integrated_likelihood():
    result = found()
    left_out = tbq.diagnostics.left_out(result)
    assert left_out is not None
    assert np.sqrt(np.mean(left_out.scores[left_out.relevant] ** 2)) < 3.0
    findings = {f.name: f for f in tbq.diagnostics.noise(result)}
    assert findings["noise"].ok


def test_noise_that_escapes_or_vanishes_is_spoken_of():
    wrong = tbq.infer(
        tbq.GaussianLikelihood(curve, DATA + 0.3 * np.sin(7.0 * T), stats.lognorm(0.3, scale=0.05)),
        PRIOR, seed=1, max_evaluations=14, **SMALL,
    )  # fmt: skip
    (finding,) = tbq.diagnostics.noise(wrong)
    assert not finding.ok
    assert "noise is so large that its prior has only" in finding.sentence
    assert "noise is so large" in wrong.summary()
    exact = tbq.infer(
        tbq.GaussianLikelihood(curve, curve(np.array([1.3, 0.8])), stats.lognorm(0.3, scale=0.5)),
        PRIOR, seed=1, max_evaluations=14, **SMALL,
    )  # fmt: skip
    (finding,) = tbq.diagnostics.noise(exact)
    assert not finding.ok
    assert "so small" in finding.sentence
    ends = tbq.infer(
        tbq.GaussianLikelihood(curve, curve(np.array([1.3, 0.8])), stats.uniform(0.05, 0.5)),
        PRIOR, seed=1, max_evaluations=14, **SMALL,
    )  # fmt: skip
    assert any("lower end of the prior of noise" in f.sentence for f in tbq.diagnostics.bounds(ends))


def test_sensitivity_and_modes_know_which_parameters_the_outputs_depend_on():
    result = found()
    assert len(result.modes) == 1
    assert result.modes[0].best_run is not None
    indices = result.sensitivity()
    outputs, log_likelihood = indices.prior.total[:-1], indices.prior.total[-1]
    noise = result.prior.names.index("noise")
    assert np.all(np.abs(outputs[:, noise]) < 0.02)
    assert log_likelihood[noise] > 0.1


def test_a_run_goes_on_from_its_journal_where_it_was(tmp_path):
    whole = tbq.infer(unknown(), PRIOR, seed=4, max_evaluations=13, journal=tmp_path / "a", **SMALL)
    header = journal.read(tmp_path / "a").header
    assert header["prior"]["names"] == ["A", "k"]
    assert header["noise"]["names"] == ["noise"]
    tbq.infer(unknown(), PRIOR, seed=4, max_evaluations=11, journal=tmp_path / "b", **SMALL)
    resumed = tbq.infer(unknown(), PRIOR, seed=4, max_evaluations=13, journal=tmp_path / "b", **SMALL)
    np.testing.assert_allclose(resumed.samples, whole.samples, rtol=1e-6)
    assert resumed.log_evidence == pytest.approx(whole.log_evidence, rel=1e-9)
    other = tbq.GaussianLikelihood(curve, DATA, stats.loguniform(0.01, 0.5))
    with pytest.raises(tbq.TbqError, match="the prior of noise was"):
        tbq.infer(other, PRIOR, seed=4, max_evaluations=13, journal=tmp_path / "b", **SMALL)
    plain = tbq.GaussianLikelihood(curve, DATA, 0.05)
    with pytest.raises(tbq.TbqError, match="the noise had parameters: noise"):
        tbq.infer(plain, PRIOR, seed=4, max_evaluations=13, journal=tmp_path / "b", **SMALL)


def test_runs_serve_another_noise():
    lik = tbq.GaussianLikelihood(
        curve, DATA, LEVEL, coordinates=T, correlation=tbq.Exponential(stats.loguniform(0.05, 5))
    )
    again = tbq.infer(lik, PRIOR, seed=1, warm_start=found(), max_evaluations=3, **SMALL)
    assert again.prior.names == ("A", "k", "noise", "correlation.length")
    assert sum(e.origin == "earlier" for e in again.evaluations) == found().n_evaluations


def test_it_is_stored_and_read_again(tmp_path):
    for result, lik in ((found(), unknown()), (lacking(), None)):
        result.save(tmp_path / "r.tbq")
        again = tbq.load(tmp_path / "r.tbq")
        assert again.prior.names == result.prior.names
        assert again.prior.simulated.names == ("A", "k")
        np.testing.assert_allclose(
            again.log_density(result.samples[:20]), result.log_density(result.samples[:20]), rtol=1e-6
        )
        with pytest.raises(tbq.TbqError, match="was not stored"):
            again.likelihood(np.array([1.0, 1.0]))
        if lik is not None:
            given = tbq.load(tmp_path / "r.tbq", likelihood=lik)
            assert given.likelihood is lik
            with pytest.raises(tbq.TbqError, match="its data, noise or normalisation are others"):
                tbq.load(
                    tmp_path / "r.tbq", likelihood=tbq.GaussianLikelihood(curve, DATA, stats.loguniform(0.01, 0.5))
                )


def test_predictions_have_the_noise_of_their_draws():
    prediction = found().predict(n=400, seed=0)
    assert prediction.theta.shape == (400, 3)
    np.testing.assert_allclose(prediction.outputs, curve(prediction.theta[:, :2]))
    off = (prediction.draws - prediction.outputs) / prediction.theta[:, 2:]
    assert off.std() == pytest.approx(1.0, abs=0.05)
    np.testing.assert_array_equal(found().predict(n=5, noise=None, seed=0).draws, found().predict(n=5, seed=0).outputs)


def test_true_runs_agree_with_the_surrogate():
    verification = found().verify(40, seed=0)
    assert verification.agrees
    assert verification.theta.shape[1] == 3
    with pytest.raises(tbq.TbqError, match=r"must be the tbq\.GaussianLikelihood of the result"):
        found().verify(4, lambda theta: 0.0)


def test_a_posterior_with_noise_is_the_prior_of_more_data():
    first = found()
    prior = first.as_prior()
    assert prior.names == ("A", "k", "noise")
    assert prior.simulated.names == ("A", "k")
    theta = prior.simulated.sample(2000, 0)
    np.testing.assert_allclose(theta.mean(axis=0), first.samples[:, :2].mean(axis=0), rtol=0.02)
    grid = np.stack(np.meshgrid(np.linspace(1.0, 1.65, 200), np.linspace(0.5, 1.1, 200)), axis=-1).reshape(-1, 2)
    mass = np.exp(prior.simulated.log_density(grid)).sum() * (0.65 / 199) * (0.6 / 199)
    assert mass == pytest.approx(1.0, abs=0.1)
    more = curve(np.array([1.3, 0.8])) + 0.05 * np.random.default_rng(5).standard_normal(12)
    again = tbq.infer(tbq.GaussianLikelihood(curve, more, LEVEL), prior, seed=2, max_evaluations=20, **SMALL)
    assert again.prior.names == ("A", "k", "noise")
    assert np.all(again.samples[:, :2].std(axis=0) < first.samples[:, :2].std(axis=0))
    both = tbq.infer(tbq.GaussianLikelihood(curve, [DATA, more], LEVEL), PRIOR, seed=2, **SMALL)
    assert first.log_evidence + again.log_evidence == pytest.approx(both.log_evidence, abs=0.1)
    known = tbq.infer(tbq.GaussianLikelihood(curve, more, 0.05), prior, seed=2, max_evaluations=12, **SMALL)
    assert known.prior.names == ("A", "k")


def test_the_data_ask_for_a_discrepancy_where_there_is_one():
    result = lacking()
    plain = tbq.GaussianLikelihood(curve, result.likelihood.data, stats.loguniform(0.01, 0.3))
    without = tbq.infer(plain, PRIOR, seed=3, max_evaluations=30, **SMALL)
    comparison = tbq.compare({"with": result, "without": without})
    assert comparison.names[0] == "with"
    assert comparison.log_bayes_factor("with", "without")[0] > 3.0
    assert result.prior.names == ("A", "k", "noise", "discrepancy.amplitude")


def test_predictions_with_and_without_the_discrepancy():
    result = lacking()
    with_it, alone = (result.predict(n=300, noise=None, discrepancy=d, seed=0) for d in (True, False))
    np.testing.assert_array_equal(alone.draws, alone.outputs)
    data = result.likelihood.observed
    assert np.sqrt(np.mean((with_it.mean - data) ** 2)) < 0.5 * np.sqrt(np.mean((alone.mean - data) ** 2))
    assert alone.noise == "without noise, without the discrepancy"
    assert with_it.noise == "without noise, with the discrepancy"


def test_log_likelihoods_are_learned_integrated_over_the_noise():
    result = tbq.infer(unknown(), PRIOR, seed=1, surrogate="log_likelihood", max_evaluations=40, **SMALL)
    assert result.prior.names == ("A", "k")
    assert abs(result.log_evidence - brute_force()[0]) < 3.0 * result.log_evidence_sd


def test_failures_and_missing_outputs_are_no_obstacle():
    def moody(theta):
        if theta[1] > 2.6:
            raise ValueError("no mesh")
        return np.where((theta[0] > 2.4) & (T > 4.0), np.nan, curve(theta))

    lik = tbq.GaussianLikelihood(moody, DATA, LEVEL)
    result = tbq.infer(lik, PRIOR, seed=6, max_evaluations=24, **SMALL)
    assert any(e.status is Status.FAILED for e in result.evaluations)
    assert result.log_evidence == pytest.approx(found().log_evidence, abs=0.15)


def test_zero_likelihood_has_a_border_in_the_simulators_parameters():
    class Bounded(tbq.GaussianLikelihood):
        def evaluate(self, theta, noise=None):
            value, outputs = super().evaluate(theta, noise)
            return (-np.inf if theta[0] > 1.4 else value), outputs

    result = tbq.infer(Bounded(curve, DATA, LEVEL), PRIOR, seed=6, max_evaluations=18, **SMALL)
    assert np.mean(result.samples[:, 0] > 1.42) < 0.1


def test_gaps_and_replicates_are_learned_from():
    rng = np.random.default_rng(8)
    data = curve(np.array([1.3, 0.8])) + 0.05 * rng.standard_normal((3, 12))
    data[0, :2] = data[1, 5:8] = np.nan
    result = tbq.infer(tbq.GaussianLikelihood(curve, data, LEVEL), PRIOR, seed=1, **SMALL)
    s = np.exp(np.linspace(np.log(0.005), np.log(0.5), 201))
    a, k = np.linspace(1.0, 1.6, 121), np.linspace(0.5, 1.1, 121)
    theta = np.stack(np.meshgrid(a, k, indexing="ij"), axis=-1).reshape(-1, 2)
    seen = np.isfinite(data)
    squares = np.nansum((data - curve(theta)[:, None, :]) ** 2, axis=(1, 2))
    terms = -0.5 * squares[:, None] / s**2 - seen.sum() * (np.log(s) + 0.5 * np.log(2.0 * np.pi))
    log_z = special.logsumexp(terms) + np.log((a[1] - a[0]) * (k[1] - k[0]) / (2.8 * 2.9) / 200)
    assert abs(result.log_evidence - log_z) < 0.03


def test_a_session_with_noise_parameters_is_told_outputs():
    lik = unknown()
    session = tbq.Session(PRIOR, likelihood=lik, seed=1, population=512, max_evaluations=12)
    while not session.done:
        for p in session.ask(2):
            assert p.theta.shape == (2,)
            y = curve(p.theta)
            session.tell(p.id, log_likelihood=lik.from_outputs(p.theta, y), outputs=y)
    assert session.result().prior.names == ("A", "k", "noise")


def test_batches_and_other_acquisition_functions_work_with_noise_parameters():
    result = tbq.infer(unknown(), PRIOR, seed=1, acquisition="ensemble", batch_size=4, max_evaluations=14, **SMALL)
    assert {e.origin for e in result.evaluations} == {"initial", "puq", "pvc", "plur", "peur"}
    assert result.log_evidence == pytest.approx(found().log_evidence, abs=0.5)


def test_both_explanations_of_modes_without_shapes_are_found():
    case = CASES["two_explanations"]()
    result = tbq.infer(case.likelihood, case.prior, seed=2, progress=False)
    assert result.converged
    assert abs(result.log_evidence - references()["two_explanations"].log_evidence) < 0.03
    first, second = result.modes  # stiffer in x, or in y
    assert first.mass == pytest.approx(0.5, abs=0.05)
    np.testing.assert_allclose(first.centre, second.centre[::-1], rtol=0.02)
