"""Markov chain moves of a whole population against known densities."""

import numpy as np
import pytest
from scipy import stats

from tbq.evidence import moves


def flat(z):
    return np.where(np.all(np.abs(z) < 6, axis=1), 0.0, -np.inf)


def test_a_population_reaches_a_correlated_gaussian():
    covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
    target = stats.multivariate_normal([1.0, -1.0], covariance)
    start = np.random.default_rng(0).uniform(-3, 3, (3000, 2))
    moved = moves.move(start, target.logpdf, flat, 60, np.random.default_rng(1))
    np.testing.assert_allclose(moved.z.mean(axis=0), [1.0, -1.0], atol=0.08)
    np.testing.assert_allclose(np.cov(moved.z.T), covariance, atol=0.1)
    np.testing.assert_allclose(moved.log_likelihood, target.logpdf(moved.z))
    assert 0.15 < moved.acceptance < 0.5
    assert moved.unique > 0.99


def test_an_exact_sample_stays_one_with_its_two_modes():
    rng = np.random.default_rng(2)
    n = 4000
    centers = np.where(rng.random(n) < 0.3, -3.0, 3.0)
    start = np.column_stack([rng.normal(centers, 0.3), rng.normal(0, 1, n)])

    def log_target(z):
        modes = np.logaddexp(
            np.log(0.3) - 0.5 * ((z[:, 0] + 3) / 0.3) ** 2, np.log(0.7) - 0.5 * ((z[:, 0] - 3) / 0.3) ** 2
        )
        return modes - 0.5 * z[:, 1] ** 2

    moved = moves.move(start, log_target, flat, 30, rng)
    assert np.mean(moved.z[:, 0] < 0) == pytest.approx(0.3, abs=0.03)
    right = moved.z[moved.z[:, 0] > 0]
    assert right[:, 0].std() == pytest.approx(0.3, abs=0.02)
    assert stats.kstest(moved.z[:, 1], "norm").pvalue > 1e-4


def test_the_prior_bounds_the_chains():
    start = np.random.default_rng(0).uniform(-1, 1, (1000, 1))
    inside = lambda z: np.where(np.abs(z[:, 0]) < 1, 0.0, -np.inf)

    def uphill(z):
        assert np.all(np.abs(z) < 1)  # the likelihood is never asked outside the prior
        return 2.0 * z[:, 0]

    z = moves.move(start, uphill, inside, 40, np.random.default_rng(1)).z[:, 0]
    assert np.all(np.abs(z) < 1)
    # density ∝ e^{2z} on (−1, 1): mean coth(2) − 1/2
    assert z.mean() == pytest.approx(1 / np.tanh(2.0) - 0.5, abs=0.05)


def test_a_degenerate_population_is_given_more_steps():
    rng = np.random.default_rng(0)
    start = np.repeat(rng.normal(0, 1, (20, 2)), 100, axis=0)  # copies, far wider than the target
    narrow = lambda z: -0.5 * np.sum((z / 0.01) ** 2, axis=1)
    short = moves.move(start, narrow, flat, 3, np.random.default_rng(1))
    assert short.unique > 0.3  # more than three steps of acceptance this low would have given
    mended = moves.move(start, narrow, flat, 20, np.random.default_rng(1))
    assert mended.unique > 0.95


def test_no_steps_change_nothing():
    z = np.random.default_rng(0).normal(size=(10, 2))
    moved = moves.move(z, lambda z: np.zeros(len(z)), flat, 0, np.random.default_rng(1))
    np.testing.assert_array_equal(moved.z, z)
