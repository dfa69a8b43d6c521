"""Moments of the log-normal surrogate against sampling the Gaussian process."""

from dataclasses import replace

import numpy as np
import pytest

from tbq.evidence import moments
from tbq.gp import regression as gps
from tbq.gp.kernels import SE
from tbq.surrogate import lognormal
from tbq.surrogate.warp import Frame, Warp


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.5, 1.5, (9, 2))
    y = -1.5 * np.sum(x**2, axis=1)
    gp = gps.build(x, y, 1e-6, SE, "constant", np.log([1.0, 1.2, 1.0]))
    z = rng.uniform(-1.5, 1.5, (300, 2))
    surrogate = lognormal.LogNormal(gp, cap=np.inf)
    points = surrogate.at(z)
    factor = np.linalg.cholesky(surrogate.covariance(points, points) + 1e-9 * np.eye(300))
    paths = points.mean + rng.standard_normal((40_000, 300)) @ factor.T
    return surrogate, points, paths


def within(estimates, value, sigmas=5.0):
    """Monte-Carlo mean of the rows of estimates against the closed form, in its own standard errors."""
    error = estimates.std(axis=0) / np.sqrt(len(estimates))
    return np.all(np.abs(estimates.mean(axis=0) - value) < sigmas * error)


@pytest.mark.parametrize("gamma", [0.3, 1.0])
def test_mean_variance_and_covariance_of_the_likelihood(model, gamma):
    surrogate, points, paths = model
    likelihood = np.exp(gamma * paths)
    mean = np.exp(surrogate.log_mean(points, gamma))
    assert within(likelihood, mean)
    variance = mean**2 * np.expm1(surrogate.log_ratio_diagonal(points, gamma))
    assert within((likelihood - mean) ** 2, variance)
    a, b = points.take(np.arange(20)), points.take(np.arange(20, 60))
    covariance = np.outer(mean[:20], mean[20:60]) * np.expm1(surrogate.log_ratio(a, b, gamma))
    for i in range(0, 20, 5):
        assert within((likelihood[:, [i]] - mean[i]) * (likelihood[:, 20:60] - mean[20:60]), covariance[i])


@pytest.mark.parametrize("gamma", [0.3, 1.0])
def test_mean_and_variance_of_the_evidence_and_its_bound(model, gamma):
    surrogate, points, paths = model
    log_weights = np.full(300, -np.log(300.0))
    log_z, weights = moments.normalise(surrogate.log_mean(points, gamma) + log_weights)
    samples = np.exp(gamma * paths).mean(axis=1)
    assert within(samples[:, None], np.exp(log_z))
    cov = moments.evidence_cov(surrogate, points, weights, gamma)
    assert within(((samples - np.exp(log_z)) ** 2)[:, None], (cov * np.exp(log_z)) ** 2)
    bound = moments.evidence_cov_bound(surrogate, points, weights, gamma)
    assert bound >= cov
    sd = np.exp(gamma * paths).std(axis=0)  # the bound is the mean of the pointwise standard deviations
    assert bound * np.exp(log_z) == pytest.approx(sd.mean(), rel=0.05)


def test_a_few_placed_nodes_give_the_variance_of_all(model):
    surrogate, points, _ = model
    _, weights = moments.normalise(surrogate.log_mean(points, 1.0))
    exact = moments.evidence_cov(surrogate, points, weights)
    thinned = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        index, w, own = moments.place_nodes(surrogate, points, weights, 1.0, 150, rng)
        assert len(index) <= 150
        assert w.sum() == pytest.approx(1.0)
        thinned.append(moments.evidence_cov(surrogate, points.take(index), w, own=own) ** 2)
    assert np.mean(thinned) == pytest.approx(exact**2, rel=0.03)
    assert np.std(thinned) < 0.25 * exact**2  # a tenth of the coefficient of variation


def test_very_few_nodes_do_too_but_for_the_pairs_that_they_do_not_have(model):
    surrogate, points, _ = model
    _, weights = moments.normalise(surrogate.log_mean(points, 1.0))
    exact = moments.evidence_cov(surrogate, points, weights) ** 2
    right, plain = [], []
    for seed in range(400):
        index, w, own = moments.place_nodes(surrogate, points, weights, 1.0, 20, np.random.default_rng(seed))
        assert np.all((own > 0.0) & (own <= 1.0))
        right.append(moments.evidence_cov(surrogate, points.take(index), w, own=own) ** 2)
        plain.append(moments.evidence_cov(surrogate, points.take(index), w) ** 2)
    error = np.std(right) / 20.0
    assert abs(np.mean(right) - exact) < 3.0 * error
    assert np.mean(plain) > exact + 5.0 * error  # each node errs as one with itself, more than points like it do


def test_a_single_point_that_has_all_the_weight_counts_as_it_is(model):
    surrogate, points, _ = model
    weights = np.eye(300)[7]
    index, w, own = moments.place_nodes(surrogate, points, weights, 1.0, 20, np.random.default_rng(0))
    assert (list(index), list(w), list(own)) == ([7], [1.0], [1.0])
    one = points.take(index)
    assert moments.evidence_cov(surrogate, one, w, own=own) == moments.evidence_cov(surrogate, one, w)


def test_the_cap_limits_the_mean_and_nothing_else(model):
    surrogate, points, _ = model
    for cap in (0.0, 0.5):
        capped = lognormal.LogNormal(surrogate.gp, cap=cap)
        spread = np.minimum(np.sqrt(points.variance), cap)
        np.testing.assert_allclose(capped.log_mean(points, 1.0), points.mean + 0.5 * spread**2)
        np.testing.assert_array_equal(capped.log_ratio_diagonal(points, 1.0), points.variance)


def test_the_series_is_the_double_sum(model):
    surrogate, points, _ = model
    rng = np.random.default_rng(1)
    nodes, new = points.take(np.arange(100)), points.take(np.arange(100, 160))
    weights = rng.dirichlet(np.ones(100))
    for gamma in (0.05, 1.0, 3.0, 30.0):  # from tiny to wild
        a = surrogate._shift(new, nodes, gamma)
        direct = [weights @ np.expm1(np.outer(row, row)) @ weights for row in a]
        np.testing.assert_allclose(surrogate.revealed_variance(new, nodes, weights, gamma), direct, rtol=1e-9)


def test_effective_sample_size_of_equal_and_one_hot_weights():
    assert moments.effective_sample_size(np.full(50, 0.1)) == pytest.approx(50.0)
    assert moments.effective_sample_size(np.eye(7)[2]) == pytest.approx(1.0)


def test_systematic_resampling_keeps_each_count_within_one():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(40))
    counts = np.bincount(moments.systematic_resample(weights, 500, rng), minlength=40)
    assert np.all(np.abs(counts - 500 * weights) <= 1.0)
    one_hot = np.eye(5)[4]
    assert np.all(moments.systematic_resample(one_hot, 10, rng) == 4)


def test_deflation_narrows_the_mean_alone(model):
    surrogate, points, _ = model
    narrow = replace(surrogate, deflation=0.5, cap=0.2)
    mean, variance = surrogate.log_likelihood(points)
    expected = mean + 0.5 * np.minimum(0.5 * np.sqrt(variance), 0.2) ** 2
    assert narrow.log_mean(points, 1.0) == pytest.approx(expected)
    assert np.array_equal(narrow.log_ratio(points, points, 1.0), surrogate.log_ratio(points, points, 1.0))


@pytest.mark.parametrize("warp", [None, Warp(0.0, 8.0)])
@pytest.mark.parametrize("frame", [None, Frame(np.array([0.1, -0.2]), np.array([[2.0, 0.5], [0.0, 1.5]]))])
def test_no_more_is_expected_than_runs_allow(warp, frame):
    rng = np.random.default_rng(1)
    z = rng.uniform(-1.5, 0.5, (15, 2))
    y = 6.0 * z.sum(axis=1) - 3.0
    values = y if warp is None else warp.forward(y, z)
    x = z if frame is None else frame(z)
    gp = gps.build(x, values, np.full(15, 1e-6), SE, "linear", np.log([1.0, 1.2, 1.0]))
    surrogate = lognormal.LogNormal(gp, warp=warp, frame=frame)
    far = rng.uniform(0.5, 1.2, (6, 2))  # where the line goes on upwards
    expected = surrogate.log_likelihood(surrogate.at(far))[0]
    ceilings = expected + np.array([-3.0, 5.0, -2.0, 5.0, -4.0, 5.0])
    lowered = surrogate.at_most(far, ceilings)
    now = lowered.log_likelihood(lowered.at(far))[0]
    assert np.all(now <= ceilings + 0.05)
    assert np.all(now < expected)  # neighbours of lowered points are lower too
    np.testing.assert_allclose(lowered.log_likelihood(lowered.at(z))[0], y, atol=0.05)  # runs are what they were
    assert surrogate.at_most(far, expected + 1.0) is surrogate


def test_a_local_surrogate_predicts_only_the_runs_that_it_learned_and_keeps_its_guard(model):
    surrogate = model[0]
    of_all, local = surrogate.left_out(surrogate.gp.x), replace(surrogate, local=True)
    deep = np.array([[7.0, 7.0], [-8.0, 3.0]])
    runs = np.vstack([deep[:1], surrogate.gp.x, deep[1:]])
    assert surrogate.left_out(runs) is None
    mean, variance = local.left_out(runs)
    np.testing.assert_array_equal(np.isnan(mean), [True, *[False] * 9, True])
    np.testing.assert_array_equal(mean[1:-1], of_all[0])
    np.testing.assert_array_equal(variance[1:-1], of_all[1])
    assert local.unguarded is local
    assert local.description == f"{surrogate.description}, local"
