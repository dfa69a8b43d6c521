"""Many processes as one object, against the same processes one by one."""

import numpy as np
import pytest

from tbq.common.errors import TbqError
from tbq.gp import batch_fitting, fitting
from tbq.gp import regression as gps
from tbq.gp.batch import build
from tbq.gp.kernels import ADDITIVE, MATERN52, SE
from tbq.gp.values import values_of

KERNELS = [MATERN52, SE, ADDITIVE]
LINEAR = np.array([True, False, True, True])
NOISE = 1e-6


def data(n=25, d=3):
    """Four functions of three parameters, some values of the third missing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    y = np.sin(x @ rng.normal(size=(d, 4))).T * np.array([1.0, 5.0, 0.1, 2.0])[:, None]
    y[2, [3, 7]] = np.nan
    return x, y, rng


def both(kernel):
    """The batch, and its processes one by one, at hyperparameters near the prior's centre."""
    x, y, rng = data()
    values = values_of(x, y, np.full(y.shape, NOISE), LINEAR)
    parameters = [kernel.hyperprior(3, s).mean for s in values.scale]
    parameters = np.array([p + 0.1 * rng.normal(size=len(p)) for p in parameters])
    each = []
    for k, seen in enumerate(np.isfinite(y)):
        basis = "linear" if LINEAR[k] else "constant"
        each.append(gps.build(x[seen], y[k, seen], NOISE, kernel, basis, parameters[k]))
    return build(values, kernel, parameters), each, rng


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("n", [40, 700])  # with what covariances need, and in blocks without
def test_means_variances_and_covariances_are_those_of_each_process(kernel, n):
    batch, each, rng = both(kernel)
    z = rng.normal(size=(n, 3))
    points, some, few = batch.project(z), np.arange(20), np.arange(9)
    covariance = batch.covariance(points, points.take(few))
    for k, gp in enumerate(each):
        alone = gp.project(z)
        unit = gp.scale
        np.testing.assert_allclose(points.mean[k], alone.mean, atol=1e-9 * unit)
        np.testing.assert_allclose(points.variance[k], alone.variance, atol=1e-9 * unit**2)
        expected = gp.covariance(alone, alone.take(few))
        np.testing.assert_allclose(covariance[k], expected, atol=1e-9 * unit**2)
        np.testing.assert_allclose(
            batch.covariance(points.take(some), points)[k], expected_rows(gp, alone, some), atol=1e-9 * unit**2
        )
        assert batch.score[k] == pytest.approx(gp.score, abs=1e-5)


def expected_rows(gp, points, some):
    return gp.covariance(points.take(some), points)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_a_process_can_be_taken_out(kernel):
    batch, each, rng = both(kernel)
    z = rng.normal(size=(5, 3))
    for k, gp in enumerate(each):
        alone = batch.process(k)
        assert len(alone.x) == len(gp.x)
        np.testing.assert_allclose(alone.predict(z), gp.predict(z), rtol=1e-7, atol=1e-9 * gp.scale)
        np.testing.assert_allclose(alone.score, gp.score, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_left_out_values_and_a_believed_run_are_those_of_each_process(kernel):
    batch, each, rng = both(kernel)
    z, elsewhere = rng.normal(size=3), rng.normal(size=(30, 3))
    mean, variance = batch.leave_one_out()
    sure = batch.condition_on_mean(z).condition_on_mean(z + 0.5)
    assert np.array_equal(np.isnan(mean), ~batch.values.seen)
    for k, gp in enumerate(each):
        seen = batch.values.seen[k]
        alone_mean, alone_variance = gp.leave_one_out()
        np.testing.assert_allclose(mean[k, seen], alone_mean, atol=1e-8 * gp.scale)
        np.testing.assert_allclose(variance[k, seen], alone_variance, rtol=1e-6)
        for point in (z, z + 0.5):
            gp = gp.condition(point, float(gp.predict(point[None, :])[0][0]), float(gp.noise.min()))  # noqa: PLW2901
        expected, points = gp.project(elsewhere), sure.project(elsewhere)
        np.testing.assert_allclose(points.mean[k], expected.mean, atol=1e-8 * gp.scale)
        np.testing.assert_allclose(points.variance[k], expected.variance, atol=1e-9 * gp.scale**2)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_scores_and_gradients_are_those_of_each_process(kernel):
    batch, each, _ = both(kernel)
    which = np.array([2, 0, 3, 1])
    scores, gradients = batch_fitting.Scores(batch.values, kernel).at(batch.parameters[which], which)
    for k, score, gradient in zip(which, scores, gradients, strict=True):
        gp = each[k]
        units = (gp.offset, gp.scale)
        expected = fitting.log_posterior(gp.x, gp.y, gp.noise, kernel, gp.basis, gp.parameters, units)
        assert score == pytest.approx(expected[0], abs=1e-5)
        np.testing.assert_allclose(gradient, expected[1], atol=1e-6 * np.abs(expected[1]).max())


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_hyperparameters_are_as_good_as_those_found_one_by_one(kernel):
    x, y, _ = data()
    values = values_of(x, y, np.full(y.shape, NOISE), LINEAR)
    batch, ends = batch_fitting.fit(values, kernel, [None] * 4)
    for k, seen in enumerate(np.isfinite(y)):
        alone = fitting.fit(x[seen], y[k, seen], NOISE, kernel, "linear" if LINEAR[k] else "constant")
        assert batch.score[k] > alone.score - 0.01
    again, _ = batch_fitting.fit(values, kernel, ends)
    assert np.all(again.score >= batch.score - 1e-9)


def test_a_search_goes_on_where_another_ended_and_new_processes_start_from_the_prior():
    x, y, _ = data()
    values = values_of(x, y, np.full(y.shape, NOISE), LINEAR)
    batch, ends = batch_fitting.fit(values, MATERN52, [None] * 4)
    mixed, _ = batch_fitting.fit(values, MATERN52, [ends[0], None, ends[2], None])
    np.testing.assert_allclose(mixed.score, batch.score, atol=0.01)


def test_draws_of_hyperparameters_are_as_wide_as_those_of_each_process():
    x, y, _ = data()
    values = values_of(x, y, np.full(y.shape, NOISE), LINEAR)
    batch, _ = batch_fitting.fit(values, MATERN52, [None] * 4)
    drawn = batch_fitting.hyperparameter_draws(batch, 60, np.random.default_rng(1))
    together = np.array([b.parameters for b in drawn])
    for k, seen in enumerate(np.isfinite(y)):
        basis = "linear" if LINEAR[k] else "constant"
        gp = gps.build(x[seen], y[k, seen], NOISE, MATERN52, basis, batch.parameters[k])
        alone = np.array([g.parameters for g in fitting.hyperparameter_draws(gp, 60, np.random.default_rng(2))])
        ratio = together[:, k].std(axis=0) / alone.std(axis=0)
        assert np.all((ratio > 0.6) & (ratio < 1.6))


def test_copies_of_a_point_get_jitter_and_what_has_no_factor_is_refused():
    x, y, _ = data()
    x[1] = x[0]
    values = values_of(x, y, np.zeros(y.shape), LINEAR)
    parameters = np.array([SE.hyperprior(3, s).mean for s in values.scale])
    assert np.all(np.isfinite(build(values, SE, parameters).score))
    with pytest.raises(TbqError, match="cannot be factorised"):
        build(values, SE, np.full_like(parameters, np.nan))
