"""The Gaussian likelihood against scipy's densities."""

import pickle

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.problem.evaluation import Proposal, Status
from tbq.simulate.pool import evaluate


def line(theta):
    """Three outputs of two parameters; works on rows too."""
    theta = np.asarray(theta)
    return theta[..., :1] + theta[..., 1:2] * np.array([0.0, 1.0, 2.0])


DATA = np.array([0.9, 2.2, 2.8])
THETA = np.array([1.0, 0.7])


def test_one_standard_deviation_one_each_and_a_covariance_against_scipy():
    sds = np.array([0.1, 0.3, 0.2])
    covariance = np.diag(sds**2) + 0.01
    for noise, full in ((0.2, 0.04 * np.eye(3)), (sds, np.diag(sds**2)), (covariance, covariance)):
        exact = stats.multivariate_normal(line(THETA), full).logpdf(DATA)
        value = tbq.GaussianLikelihood(line, DATA, noise)(THETA)
        assert isinstance(value, float)
        assert value == pytest.approx(exact, rel=1e-12)
        plain = tbq.GaussianLikelihood(line, DATA, noise, normalized=False)(THETA)
        residual = DATA - line(THETA)
        assert plain == pytest.approx(-0.5 * residual @ np.linalg.solve(full, residual), rel=1e-12)


def test_rows_and_grids_where_the_model_takes_them():
    likelihood = tbq.GaussianLikelihood(line, DATA, np.diag([0.1, 0.2, 0.3]) + 0.01)
    theta = np.random.default_rng(0).normal(size=(4, 5, 2))
    values = likelihood(theta)
    assert values.shape == (4, 5)
    assert values[2, 3] == pytest.approx(likelihood(theta[2, 3]), rel=1e-12)


def test_a_single_output_may_be_a_plain_number():
    likelihood = tbq.GaussianLikelihood(lambda theta: theta[0] ** 2, 1.2, 0.5)
    assert likelihood([1.0]) == pytest.approx(stats.norm(1.0, 0.5).logpdf(1.2))


def test_unknown_noise_and_two_experiments_add_up():
    first = tbq.GaussianLikelihood(line, DATA, [1.0, 2.0, 3.0], scale=lambda theta: theta[2])
    second = tbq.GaussianLikelihood(lambda theta: theta[0] * theta[1], 0.8, 0.1)
    both = first + second
    theta = np.array([1.0, 0.7, 0.3])
    expected = stats.norm(line(theta), 0.3 * np.array([1.0, 2.0, 3.0])).logpdf(DATA).sum()
    assert first(theta) == pytest.approx(expected, rel=1e-12)
    assert both(theta) == pytest.approx(expected + stats.norm(0.7, 0.1).logpdf(0.8), rel=1e-12)
    value, outputs = both.evaluate(theta)
    np.testing.assert_allclose(outputs, [*line(theta), 0.7])
    assert both.from_outputs(theta, outputs) == value


def test_stored_outputs_serve_other_data_and_another_noise():
    theta = np.random.default_rng(1).normal(size=(6, 2))
    outputs = line(theta)
    other = tbq.GaussianLikelihood(line, DATA + 0.3, np.diag([0.5, 0.4, 0.3]))
    np.testing.assert_allclose(other.from_outputs(theta, outputs), other(theta), rtol=1e-14)
    with pytest.raises(tbq.TbqError, match=r"outputs must have shape \(6, 3\); got \(6, 2\)"):
        other.from_outputs(theta, outputs[:, :2])


def test_it_can_be_pickled():
    likelihood = tbq.GaussianLikelihood(line, DATA, 0.2) + tbq.GaussianLikelihood(line, DATA, np.eye(3))
    assert pickle.loads(pickle.dumps(likelihood))(THETA) == likelihood(THETA)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3.0, DATA, 0.1), "model must be a function of theta; got float"),
        ((line, [1.0, np.inf, 2.0], 0.1), "observed must be finite, or nan where nothing was measured; got inf"),
        (
            (line, [[[1.0]], [[2.0]]], 0.1),
            r"observed must be a number, a 1-D array or replicates \(r, m\); got shape \(2, 1, 1\)",
        ),
        ((line, "abc", 0.1), "observed must be numbers; got str"),
        ((line, DATA, 0.0), "noise must be positive; got 0.0"),
        ((line, DATA, np.nan), "noise must be finite; got nan"),
        ((line, DATA, [0.1, 0.2]), "noise must have 1 or 3 standard deviations; got 2"),
        ((line, DATA, np.ones((3, 2))), r"symmetric, of shape \(3, 3\); got shape \(3, 2\)"),
        ((line, DATA, np.ones((3, 3))), "positive definite"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(tbq.TbqError, match=message):
        tbq.GaussianLikelihood(*arguments)


def test_unknown_noise_needs_the_normalised_likelihood():
    with pytest.raises(tbq.TbqError, match="normalized must be True where scale is given"):
        tbq.GaussianLikelihood(line, DATA, 1.0, scale=lambda theta: theta[0], normalized=False)
    with pytest.raises(tbq.TbqError, match="scale must be a function of theta; got float"):
        tbq.GaussianLikelihood(line, DATA, 1.0, scale=0.5)


def proposals(rows):
    return [Proposal(i, np.asarray(row, dtype=float), 0, "initial", np.nan) for i, row in enumerate(rows)]


def test_runs_carry_their_outputs_one_by_one_and_together():
    likelihood = tbq.GaussianLikelihood(line, DATA, 0.2)
    rows = [THETA, 2 * THETA]
    for vectorized in (False, True):
        done = evaluate(likelihood, proposals(rows), vectorized=vectorized)
        for e, row in zip(done, rows, strict=True):
            assert e.status is Status.OK
            assert e.log_likelihood == pytest.approx(likelihood(row))
            np.testing.assert_allclose(e.outputs, line(row))
    plain = evaluate(lambda theta: -1.0, proposals(rows))
    assert all(e.outputs is None for e in plain)


def test_missing_outputs_are_no_likelihood_but_the_others_are_kept():
    def lame(theta):
        return np.array([1.0, np.nan if theta[0] > 0 else 2.0, np.inf])

    likelihood = tbq.GaussianLikelihood(lame, DATA, 0.2)
    (done,) = evaluate(likelihood, proposals([THETA]))
    assert done.status is Status.FAILED
    assert done.message == "2 of 3 outputs are missing"
    np.testing.assert_array_equal(done.outputs, [1.0, np.nan, np.nan])


def test_a_model_of_the_wrong_shape_or_one_that_raises_is_a_failed_run():
    wrong = tbq.GaussianLikelihood(lambda theta: np.zeros(5), DATA, 0.2)
    (done,) = evaluate(wrong, proposals([THETA]))
    assert done.status is Status.FAILED
    assert "shape (5,), not (3,)" in done.message
    broken = tbq.GaussianLikelihood(lambda theta: 1 / 0, DATA, 0.2)
    (done,) = evaluate(broken, proposals([THETA]))
    assert done.status is Status.FAILED
    assert "ZeroDivisionError" in done.message
    assert done.outputs is None
    negative = tbq.GaussianLikelihood(line, DATA, 1.0, scale=lambda theta: -1.0)
    (done,) = evaluate(negative, proposals([THETA]))
    assert "scale must be positive; got -1.0" in done.message


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (lambda theta: theta[1], r"scale must be a positive number everywhere in the prior; got -\d.* at theta = \["),
        (lambda theta: np.nan if theta[0] > 0.9 else 1.0, "scale must be a positive number .*; got nan at theta"),
        (lambda theta: 0.0, "scale must be a positive number .*; got 0.0 at theta"),
        (lambda theta: theta[5], "scale failed with IndexError: .* at theta"),
        (lambda theta: "x", "scale failed with ValueError: .* at theta"),
    ],
)
def test_noise_without_a_scale_somewhere_in_the_prior_is_refused_before_anything_is_run(scale, message, tmp_path):
    calls = []

    def model(theta):
        calls.append(theta)
        return line(theta)

    prior = tbq.Prior({"a": stats.uniform(0, 1), "b": stats.norm()})
    likelihood = tbq.GaussianLikelihood(line, DATA, 0.2) + tbq.GaussianLikelihood(model, DATA, 1.0, scale=scale)
    with pytest.raises(tbq.TbqError, match=message):
        tbq.infer(likelihood, prior, seed=0, journal=tmp_path / "run")
    with pytest.raises(tbq.TbqError, match=message):
        tbq.Session(prior, likelihood=likelihood)
    assert calls == []
    assert not (tmp_path / "run").exists()


def test_a_scale_that_is_missing_is_a_failed_run_where_the_log_likelihood_is_learned():
    prior = tbq.Prior({"a": stats.uniform(0, 1), "b": stats.norm()})
    likelihood = tbq.GaussianLikelihood(line, DATA, 1.0, scale=lambda theta: theta[1])
    result = tbq.infer(likelihood, prior, seed=0, surrogate="log_likelihood", population=128, max_evaluations=14)
    assert {e.status for e in result.evaluations if e.theta[1] <= 0.0} == {Status.FAILED}
