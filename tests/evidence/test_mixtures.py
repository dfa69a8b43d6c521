"""Gaussian mixtures by expectation maximisation against scikit-learn's and SciPy's densities."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats
from sklearn.mixture import GaussianMixture

from tbq.evidence import importance


def three_clusters(d, seed=0):
    rng = np.random.default_rng(seed)
    centers = 2.0 * rng.normal(size=(3, d))
    y = np.concatenate([rng.normal(m, rng.uniform(0.2, 1.0, d), (700, d)) for m in centers])
    y = y[rng.permutation(len(y))]
    return (y - y.mean(axis=0)) / y.std(axis=0)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("k", [1, 3, 8])
def test_new_points_are_as_likely_as_under_scikit_learns_fit(d, k):
    y = three_clusters(d)
    ours = importance.fit_gaussians(y[:1000], k, 1e-3)
    theirs = GaussianMixture(k, reg_covar=1e-3, max_iter=60, random_state=0).fit(y[:1000])
    assert ours.log_density(y[1000:]).mean() == pytest.approx(theirs.score(y[1000:]), abs=1e-8 if k == 1 else 0.05)


def test_the_density_is_that_of_its_parts():
    y = three_clusters(3)
    m = importance.fit_gaussians(y, 4, 1e-6)
    parts = [
        w * stats.multivariate_normal(mean, cov).pdf(y)
        for w, mean, cov in zip(m.weights, m.means, m.covariances, strict=True)
    ]
    np.testing.assert_allclose(m.log_density(y), np.log(np.sum(parts, axis=0)), rtol=1e-9, atol=1e-9)


def test_tight_clusters_far_apart_are_not_lost_to_cancellation():
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(-30, 1e-2, (500, 2)), rng.normal(30, 1e-2, (500, 2))])
    m = importance.fit_gaussians(y, 2, 1e-6)
    np.testing.assert_allclose(np.sort(m.means[:, 0]), [-30, 30], atol=2e-3)
    np.testing.assert_allclose(m.covariances, [1e-4 * np.eye(2)] * 2, atol=2e-5)


def test_more_components_than_distinct_points_are_survived():
    m = importance.fit_gaussians(np.zeros((40, 2)), 4, 1e-3)
    assert np.all(np.isfinite(m.log_density(np.zeros((3, 2)))))


@pytest.mark.parametrize("at_once", [1, 30, 2**20])
def test_noise_takes_the_shape_of_its_component(monkeypatch, at_once):
    """A row at a time, some, and all of them."""
    monkeypatch.setattr(importance, "_AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    factors, component = np.tril(rng.standard_normal((4, 3, 3))), rng.integers(0, 4, 50)
    noise = rng.standard_normal((50, 3))
    expected = [factors[k] @ row for k, row in zip(component, noise, strict=True)]
    np.testing.assert_allclose(importance._stretched(factors, component, noise), expected, rtol=1e-12)


def test_draws_of_many_parameters_and_components_take_little_memory():
    """A copy of its component's factor for each of 16,384 draws would take 472 MB."""
    d, n = 60, 2**14
    mixture = importance.StudentMixture(np.full(3, 1 / 3), np.zeros((3, d)), np.tile(np.eye(d), (3, 1, 1)), 120.0)
    tracemalloc.start()
    mixture.sample(n, np.random.default_rng(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * n * d * 8
