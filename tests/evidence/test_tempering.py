"""γ from the weights, and MBAR, against closed forms."""

import numpy as np
import pytest
from scipy import stats

from tbq.evidence.mbar import mbar
from tbq.evidence.tempering import next_gamma, weight_cov


def test_the_next_gamma_of_a_gaussian_in_closed_form():
    # prior N(0, 1), log-likelihood −x²/(2 s²): the weights' second moment is known
    s, limit = 0.05, 0.75
    x = stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    gamma = next_gamma(lambda g: -0.5 * g * (x / s) ** 2, 0.0, limit)
    ratio = lambda g: (1 + g / s**2) / np.sqrt(1 + 2 * g / s**2)  # E[w²]/E[w]²
    assert ratio(gamma) - 1 == pytest.approx(limit**2, rel=1e-3)


def test_an_asymmetric_target_is_hit_exactly():
    rng = np.random.default_rng(0)
    y = -rng.gamma(0.3, 400.0, 5000)  # a few values near the top, a long tail below
    for previous in (0.0, 0.001, 0.3):
        weights = lambda g, p=previous: (g - p) * y
        gamma = next_gamma(weights, previous, 0.75)
        assert previous < gamma < 1.0
        assert weight_cov(weights(gamma)) == pytest.approx(0.75, abs=1e-6)


def test_the_last_step_ends_at_exactly_one():
    y = np.random.default_rng(0).normal(0, 0.5, 1000)
    assert next_gamma(lambda g: g * y, 0.0, 1.0) == 1.0


def test_a_population_that_does_not_fit_still_gets_a_step():
    y = np.random.default_rng(0).normal(0, 50, 1000)
    gamma = next_gamma(lambda g: y, 0.2, 0.75)  # the weights vary whatever γ is
    assert 0.2 < gamma < 0.2001


def gaussians(rng, scales, n):
    return np.concatenate([rng.normal(0, s, n) for s in scales])


def test_mbar_finds_the_constants_of_gaussians():
    scales = np.array([4.0, 2.0, 1.0, 0.5])
    n = 2000
    errors, zs = [], []
    for seed in range(40):
        x = gaussians(np.random.default_rng(seed), scales, n)
        log_q = -0.5 * (x[None, :] / scales[:, None]) ** 2
        estimate = mbar(log_q, np.full(4, float(n)), -0.5 * (x / 0.3) ** 2)
        error = estimate.log_value - np.log(0.3 / 4.0)
        errors.append(error)
        zs.append(error / estimate.sd)
        again = np.log(np.sum(np.exp(-0.5 * (x / 0.3) ** 2 + estimate.log_weights)))
        assert again == pytest.approx(estimate.log_value)
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(40)
    assert np.std(errors) < 0.05
    assert 0.7 < np.sqrt(np.mean(np.square(zs))) < 1.35  # its error bar is the error


def test_mbar_with_one_density_is_importance_sampling():
    x = np.random.default_rng(1).normal(0, 2, 3000)
    log_q, log_t = -0.5 * (x / 2) ** 2, -0.5 * x**2
    estimate = mbar(log_q[None, :], np.array([3000.0]), log_t)
    weights = np.exp(log_t - log_q)
    assert estimate.log_value == pytest.approx(np.log(weights.mean()))
    assert estimate.sd == pytest.approx(weights.std() / weights.mean() / np.sqrt(3000), rel=1e-3)


def test_mbar_does_not_mind_huge_constants():
    x = gaussians(np.random.default_rng(0), [2.0, 1.0], 1000)
    log_q = -0.5 * (x[None, :] / np.array([[2.0], [1.0]])) ** 2
    shifts = np.array([[0.0], [-5e4]])
    plain = mbar(log_q, np.full(2, 1000.0), log_q[1])
    shifted = mbar(log_q + shifts, np.full(2, 1000.0), log_q[1] + 1e5)
    assert shifted.log_value - 1e5 == pytest.approx(plain.log_value, abs=1e-6)
