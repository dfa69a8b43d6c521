"""Importance sampling from a fitted mixture against integrals in closed form."""

import numpy as np
import pytest
from scipy import special, stats

from tbq.evidence import importance

LOW, HIGH = np.array([-4.0, -4.0]), np.array([4.0, 4.0])


def log_prior(z):
    return np.where(np.all(np.abs(z) <= 4, axis=1), -np.log(64.0), -np.inf)


def two_modes(rng, n):
    left = rng.random(n) < 0.25
    return np.column_stack([rng.normal(np.where(left, -2.0, 2.0), 0.2), rng.normal(0, 0.5, n)])


def log_two_modes(z):
    x = np.logaddexp(
        np.log(0.25) + stats.norm.logpdf(z[:, 0], -2, 0.2), np.log(0.75) + stats.norm.logpdf(z[:, 0], 2, 0.2)
    )
    return x + stats.norm.logpdf(z[:, 1], 0, 0.5)


def test_a_bimodal_evidence_to_a_percent_without_bias():
    estimates, sizes = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        mixture = importance.fit_mixture(two_modes(rng, 2000), LOW, HIGH, rng)
        draws = importance.sample(mixture, rng.uniform(-4, 4, (200, 2)), log_prior, 2000, rng)
        terms = np.exp(log_two_modes(draws.z) + draws.log_weights)
        estimates.append(terms.sum() * 64.0)  # the likelihood is 64 × a density: Z = 1/64
        sizes.append(terms.sum() ** 2 / np.sum(terms**2) / len(terms))
    assert np.mean(sizes) > 0.5
    assert np.mean(estimates) == pytest.approx(1.0, abs=4 * np.std(estimates) / np.sqrt(20) + 1e-3)
    assert np.std(estimates) < 0.04


def test_the_weights_integrate_the_prior_itself():
    rng = np.random.default_rng(0)
    mixture = importance.fit_mixture(two_modes(rng, 2000), LOW, HIGH, rng)
    draws = importance.sample(mixture, rng.uniform(-4, 4, (4000, 2)), log_prior, 4000, rng)
    assert np.exp(draws.log_weights).sum() == pytest.approx(1.0, abs=0.03)


def test_mass_that_the_draws_miss_is_still_seen_by_the_priors_share():
    rng = np.random.default_rng(0)
    right_only = two_modes(rng, 4000)
    right_only = right_only[right_only[:, 0] > 0]
    mixture = importance.fit_mixture(right_only, LOW, HIGH, rng)
    draws = importance.sample(mixture, rng.uniform(-4, 4, (4000, 2)), log_prior, 4000, rng)
    left = draws.z[:, 0] < 0
    mass = np.exp(special.logsumexp(log_two_modes(draws.z[left]) + draws.log_weights[left])) * 64
    assert mass == pytest.approx(0.25, abs=0.08)


def test_the_mixtures_density_is_that_of_its_samples():
    rng = np.random.default_rng(1)
    mixture = importance.fit_mixture(two_modes(rng, 3000), LOW, HIGH, rng)
    z = mixture.sample(20_000, rng)
    assert np.all((z >= LOW) & (z <= HIGH))
    x = np.linspace(-4, 4, 401)
    grid = np.stack(np.meshgrid(x, x), -1).reshape(-1, 2)
    density = np.exp(mixture.log_density(grid))
    assert density.sum() * (x[1] - x[0]) ** 2 == pytest.approx(1.0, abs=0.02)
    for low, high in ((-3, -1), (1.8, 2.2)):
        inside = (grid[:, 0] > low) & (grid[:, 0] < high)
        expected = density[inside].sum() * (x[1] - x[0]) ** 2
        assert np.mean((z[:, 0] > low) & (z[:, 0] < high)) == pytest.approx(expected, abs=0.03)


def test_few_and_repeated_draws_are_survived():
    rng = np.random.default_rng(0)
    for z in (np.zeros((50, 2)), rng.normal(size=(3, 2)), np.repeat(rng.normal(size=(5, 2)), 100, axis=0)):
        mixture = importance.fit_mixture(z, LOW, HIGH, rng)
        assert np.all(np.isfinite(mixture.log_density(mixture.sample(20, rng))))


def test_draws_that_are_all_one_point_still_make_a_proposal():
    rng = np.random.default_rng(0)
    same = np.tile([0.3, -0.2], (100, 1))
    for mixture in (importance.fit_student_mixture(same, rng), importance.fit_mixture(same, LOW, HIGH, rng)):
        draws = importance.sample(mixture, rng.uniform(-4, 4, (400, 2)), log_prior, 400, rng)
        assert np.isfinite(draws.log_weights).all()


def test_a_mixture_is_fitted_to_all_the_draws():
    """The order of the draws decides only which half chooses the number of components."""
    y = np.random.default_rng(3).standard_normal((400, 2)) @ np.array([[1.0, 0.0], [0.6, 0.8]])
    block = importance._fit_block(y, np.arange(2))
    assert len(block.weights) == 1
    assert block.means[0] == pytest.approx(y.mean(axis=0), abs=1e-9)
