"""Posterior predictive draws, derived quantities, and the check by true runs, against closed forms and quadrature."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

import tbq

# θ ~ N(0, 1), two measurements of θ with independent errors of 0.5 and 0.8: everything is normal
OBSERVED, SD = np.array([0.9, 0.3]), np.array([0.5, 0.8])
PRIOR = tbq.Prior({"x": stats.norm(0, 1)})
PRECISION = 1.0 + np.sum(1.0 / SD**2)
MEAN = np.sum(OBSERVED / SD**2) / PRECISION
EXACT = stats.multivariate_normal([0, 0], np.diag(SD**2) + 1.0).logpdf(OBSERVED)


def twice(theta):
    return np.array([theta[0], theta[0]])


def likelihood(**options):
    return tbq.GaussianLikelihood(twice, OBSERVED, SD, **options)


@pytest.fixture(scope="module")
def result():
    return tbq.infer(likelihood(), PRIOR, algorithm="bq", seed=0)


def test_the_predictive_distribution_is_the_exact_one(result):
    found = result.predict(twice, 6000, seed=1)
    np.testing.assert_allclose(found.mean, MEAN, atol=0.04)
    np.testing.assert_allclose(found.sd, np.sqrt(1.0 / PRECISION + SD**2), rtol=0.04)
    np.testing.assert_allclose(np.corrcoef(found.draws.T)[0, 1], 1 / PRECISION / np.prod(found.sd), atol=0.04)
    upper = stats.norm(MEAN, np.sqrt(1.0 / PRECISION + SD**2)).ppf(0.9)
    np.testing.assert_allclose(found.quantile(0.9), upper, atol=0.06)
    assert found.noise == "with the likelihood's noise"
    np.testing.assert_array_equal(found.outputs[:, 0], found.theta[:, 0])


def test_the_model_may_be_left_out(result):
    a, b = result.predict(n=30, seed=1), result.predict(twice, 30, seed=1)
    np.testing.assert_array_equal(a.draws, b.draws)
    with pytest.raises(tbq.TbqError, match="model is needed"):
        replace(result, likelihood=None).predict(n=30)


def test_noise_is_as_asked_for(result):
    without = result.predict(twice, 50, noise=None, seed=1)
    np.testing.assert_array_equal(without.draws, without.outputs)
    covariance = np.array([[0.09, 0.08], [0.08, 0.16]])
    given = result.predict(twice, 8000, noise=covariance, seed=1)
    np.testing.assert_allclose(np.cov((given.draws - given.outputs).T), covariance, rtol=0.06)
    one = result.predict(lambda theta: theta[0], 50, seed=1)
    assert one.noise == "without noise: the likelihood's is of 2 outputs"
    assert replace(result, likelihood=None).predict(twice, 50).noise == "without noise: none is known"
    with pytest.raises(tbq.TbqError, match="noise must be 'auto', None, standard deviations or a covariance; got 'no'"):
        result.predict(twice, 50, noise="no")
    with pytest.raises(tbq.TbqError, match="noise must have 1 or 2 standard deviations; got 3"):
        result.predict(twice, 50, noise=[1, 2, 3])


def test_noise_follows_its_scale_and_its_experiment():
    scaled = tbq.GaussianLikelihood(twice, OBSERVED, SD, scale=lambda theta: 1.0 + theta[0] ** 2)
    both = scaled + tbq.GaussianLikelihood(lambda theta: theta, [0.2], [[0.01]])
    theta = np.repeat([[0.0], [2.0]], 20_000, axis=0)
    noise = both.noise(theta, np.random.default_rng(0)).reshape(2, 20_000, 3)
    np.testing.assert_allclose(noise.std(axis=1), [[0.5, 0.8, 0.1], [2.5, 4.0, 0.1]], rtol=0.02)
    assert np.max(np.abs(np.corrcoef(noise[1].T) - np.eye(3))) < 0.03


def test_derived_quantities_have_names(result):
    found = result.predict(lambda theta: {"square": theta[0] ** 2, "positive": theta[0] > 0}, 5000, seed=2)
    assert found.names == ("square", "positive")
    assert found.noise == "without noise"
    assert found["square"].mean() == pytest.approx(MEAN**2 + 1.0 / PRECISION, abs=0.04)
    assert found["positive"].mean() == pytest.approx(stats.norm.cdf(MEAN * np.sqrt(PRECISION)), abs=0.02)
    assert "square" in str(found)
    assert "5000 posterior draws" in str(found)
    with pytest.raises(tbq.TbqError, match="there is no output 'cube'; there are square, positive"):
        found["cube"]


def test_an_executor_may_be_made_for_the_occasion_and_is_shut_down(result):
    made = []

    def make():
        made.append(ThreadPoolExecutor(2))
        return made[-1]

    here = result.predict(twice, 20, seed=3)
    np.testing.assert_array_equal(result.predict(twice, 20, executor=make, seed=3).draws, here.draws)
    assert result.verify(4, executor=make, seed=5).log_evidence == result.verify(4, seed=5).log_evidence
    assert len(made) == 2
    for pool in made:
        with pytest.raises(RuntimeError, match="after shutdown"):
            pool.submit(twice, np.zeros(2))
    with pytest.raises(tbq.TbqError, match=r"executor must return a concurrent\.futures\.Executor; got int"):
        result.predict(twice, executor=lambda: 3)
    with pytest.raises(tbq.TbqError, match=r"executor must be a concurrent\.futures\.Executor, .*; got int"):
        result.verify(4, executor=3)


def test_all_at_once_or_on_an_executor_is_the_same(result):
    rows = result.predict(twice, 20, seed=3)
    at_once = result.predict(lambda theta: np.repeat(theta, 2, axis=1), 20, vectorized=True, seed=3)
    np.testing.assert_array_equal(at_once.draws, rows.draws)
    named = result.predict(lambda theta: {"x": theta[:, 0], "y": theta[:, 0] + 1}, 20, vectorized=True, seed=3)
    np.testing.assert_array_equal(named["x"], rows.outputs[:, 0])
    with ThreadPoolExecutor(2) as pool:
        np.testing.assert_array_equal(result.predict(twice, 20, executor=pool, seed=3).draws, rows.draws)


def test_failed_runs_are_left_out_and_counted(result):
    def fragile(theta):
        if theta[0] > MEAN:
            raise ValueError("mesh tangled")
        return [np.nan if theta[0] < MEAN - 0.8 else theta[0], 1.0]

    found = result.predict(fragile, 400, seed=0)
    assert np.all(found.theta < MEAN)
    assert len(found.draws) + len(found.failures) == 400
    assert set(found.failures) == {"ValueError: mesh tangled", "the model returned nan or an infinity"}
    assert f"{len(found.failures)} more failed" in found.summary()
    uneven = result.predict(lambda theta: [1.0] * (1 if theta[0] > MEAN else 2), 40, noise=None, seed=0)
    assert 0 < len(uneven.failures) < 40
    with pytest.raises(tbq.TbqError, match=r"none of the 9 runs .* the last said: ZeroDivisionError"):
        result.predict(lambda theta: 1 / 0, 9)
    with pytest.raises(tbq.TbqError, match="numbers of shape"):
        result.predict(lambda theta: np.ones((3, 3)), 9, vectorized=True)


@pytest.mark.parametrize("n", [-1, 2.5, 0, "x", None])
def test_wrong_arguments_are_refused(result, n):
    with pytest.raises(tbq.TbqError, match="predict: n must be a whole number of at least 1"):
        result.predict(twice, n)
    with pytest.raises(tbq.TbqError, match="verify: n must be a whole number of at least 2"):
        result.verify(n)
    with pytest.raises(tbq.TbqError, match="predict: model must be a function of theta; got int"):
        result.predict(3)
    with pytest.raises(tbq.TbqError, match="verify: log_likelihood must be a function; got NoneType"):
        replace(result, likelihood=None).verify(20)


# --- true runs ----------------------------------------------------------------------------------------------


def test_true_runs_confirm_a_good_result(result):
    found = result.verify(40, seed=0)
    assert found.agrees
    assert found.log_evidence == pytest.approx(EXACT, abs=0.02)
    assert found.effective_sample_size > 38
    assert np.max(np.abs(found.residuals)) < 0.1
    assert found.weights.sum() == pytest.approx(1.0)
    assert str(found).startswith("40 true runs agree with the surrogate: log evidence")


def test_true_runs_correct_evidence_and_posterior(result):
    # the surrogate's posterior is N(MEAN, 1/PRECISION); the truth has one more measurement of 1.0 ± 0.9
    def log_likelihood(theta):
        return likelihood()(theta) + stats.norm(theta[0], 0.9).logpdf(1.0)

    exact = EXACT + stats.norm(MEAN, np.sqrt(1.0 / PRECISION + 0.81)).logpdf(1.0)
    mean = (MEAN * PRECISION + 1.0 / 0.81) / (PRECISION + 1.0 / 0.81)
    found = [result.verify(60, log_likelihood, seed=seed) for seed in range(25)]
    scores = np.array([(f.log_evidence - exact) / f.log_evidence_sd for f in found])
    assert abs(scores.mean()) < 3.5 / 5
    assert 0.6 < scores.std() < 1.5
    means = np.array([f.weights @ f.theta[:, 0] for f in found])
    assert means.mean() == pytest.approx(mean, abs=4 * means.std() / 5)
    assert abs(means.mean() - mean) < abs(MEAN - mean) / 2
    assert not found[0].agrees
    assert "60 true runs disagree with the surrogate: log evidence" in found[0].sentence


def test_a_poor_surrogate_is_found_out_and_corrected():
    prior = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.uniform(-2, 4)})
    wavy = lambda theta: -3.0 * (theta[0] ** 2 + theta[1] - 0.5) ** 2 - theta[1] ** 2 + np.sin(5.0 * theta[0])
    rough = tbq.infer(wavy, prior, algorithm="bq", seed=0, max_evaluations=12)
    exact = np.log(integrate.dblquad(lambda y, x: np.exp(wavy([x, y])) / 16, -2, 2, -2, 2)[0])
    found = rough.verify(2000, wavy, seed=1)
    assert abs(found.log_evidence - exact) < 4 * found.log_evidence_sd
    assert abs(found.log_evidence - exact) < 0.5 * abs(rough.log_evidence - exact)


def test_zero_likelihood_counts_and_failures_widen(result):
    # the truth is cut off above the surrogate's mean: half of the mass
    cut = lambda theta: -np.inf if theta[0] > MEAN else likelihood()(theta)
    found = result.verify(800, cut, seed=0)
    assert found.log_evidence == pytest.approx(EXACT - np.log(2.0), abs=0.15)
    assert np.all((found.weights == 0) == (found.theta[:, 0] > MEAN))

    def broken(theta):
        if theta[0] > MEAN:
            raise ValueError("mesh tangled")
        return likelihood()(theta)

    found = result.verify(100, broken, seed=0)
    assert found.log_evidence_sd > 0.4
    assert len(found.weights) < 80
    assert f"{100 - len(found.weights)} more runs failed" in found.sentence
    with pytest.raises(tbq.TbqError, match=r"of 5 runs 0 succeeded, which says nothing; .*mesh tangled"):
        result.verify(5, lambda theta: broken([9.0]), seed=0)
    with pytest.raises(tbq.TbqError, match="the likelihood is zero"):
        result.verify(5, lambda theta: -np.inf, seed=0)


def test_what_cannot_be_corrected_is_said(result):
    found = result.verify(30, lambda theta: 200.0 * theta[0], seed=0)
    assert found.effective_sample_size < 3
    assert "too much to be corrected" in found.sentence


def test_true_runs_on_a_process_pool(result):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        there = result.verify(4, executor=pool, seed=5)
    np.testing.assert_array_equal(there.residuals, result.verify(4, seed=5).residuals)
