"""Processes of which only signs are known, against draws, orthant probabilities and finite differences."""

import numpy as np
import pytest
from scipy import stats

from tbq.gp import fitting, probit
from tbq.gp import regression as gps
from tbq.gp.kernels import SE

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (4, 2))
PARAMETERS = np.log([0.8, 0.8, 1.5])


def covariance(x, parameters, basis="constant"):
    functions = gps.basis_functions(basis, x)
    return SE.matrix(parameters, x, x) + 100.0 * functions @ functions.T


@pytest.mark.parametrize("mean", [-3.0, -0.4, 0.0, 2.0])
def test_a_site_gives_the_moments_of_the_truncated_normal(mean):
    variance = 1.7
    log_mass, site = probit.match(np.array([1.0]), np.array([mean]), np.array([variance]))
    truncated = stats.truncnorm(-mean / np.sqrt(variance), np.inf, loc=mean, scale=np.sqrt(variance))
    precision = 1 / variance + site.precision[0]
    assert log_mass[0] == pytest.approx(stats.norm.logcdf(mean / np.sqrt(variance)), rel=1e-3)
    assert (mean / variance + site.shift[0]) / precision == pytest.approx(truncated.mean(), rel=2e-3)
    assert 1 / precision == pytest.approx(truncated.var(), rel=5e-3)
    assert site.values[0] > 0


@pytest.mark.parametrize("sign", [[1, 1, -1, 1], [1, -1, -1, 1], [-1, 1, 1, 1]])
def test_moments_and_probability_are_those_of_a_truncated_normal(sign):
    sign = np.array(sign, dtype=float)
    K = covariance(X, PARAMETERS)
    h = np.random.default_rng(1).multivariate_normal(np.zeros(4), K, 1_000_000)
    h = h[np.all(h * sign > 0, axis=1)]
    gp = probit.at(X, sign, SE, "constant", PARAMETERS)
    mean, variance = gp.predict(X)
    np.testing.assert_allclose(mean, h.mean(axis=0), rtol=0.05)
    np.testing.assert_allclose(np.sqrt(variance), h.std(axis=0), rtol=0.06)
    _, log_mass = probit.propagate(K, sign)
    orthant = stats.multivariate_normal(np.zeros(4), K * np.outer(sign, sign)).cdf(np.zeros(4))
    assert log_mass == pytest.approx(np.log(orthant), abs=0.05)


def test_between_two_signs_the_zero_is_anywhere():
    # on a line with a long length-scale h is nearly linear: its zero between 0 and 1 is almost uniform
    x = np.array([[0.0], [1.0]])
    gp = probit.at(x, np.array([1.0, -1.0]), SE, "constant", np.log([3.0, 30.0]))
    at = np.linspace(0.1, 0.9, 9)[:, None]
    mean, variance = gp.predict(at)
    chance = stats.norm.cdf(mean / np.sqrt(variance))
    np.testing.assert_allclose(chance, 1 - at[:, 0], atol=0.12)


def test_the_gradient_of_the_fit_is_that_of_the_probability():
    rng = np.random.default_rng(2)
    x = rng.uniform(-2, 2, (25, 2))
    sign = np.where(np.sum(x**2, axis=1) < 1.5, 1.0, -1.0)
    parameters = np.log([0.9, 1.2, 4.0])
    sites, _ = probit.propagate(covariance(x, parameters, "linear"), sign)
    prior = SE.hyperprior(2, 1.0)
    got = fitting.log_posterior(x, sites.values, sites.noise, SE, "linear", parameters, (0.0, 1.0))[1]
    for i, step in enumerate(1e-3 * np.eye(3)):
        up, down = (probit.propagate(covariance(x, parameters + s, "linear"), sign)[1] for s in (step, -step))
        expected = (up - down) / 2e-3 + prior.gradient(parameters)[i]
        assert got[i] == pytest.approx(expected, abs=0.01)


def test_a_fit_knows_a_disc():
    rng = np.random.default_rng(2)
    x = rng.uniform(-2, 2, (80, 2))
    gp = probit.fit(x, np.where(np.sum(x**2, axis=1) < 1.5, 1.0, -1.0), SE, "linear")

    sides = np.linspace(-1.95, 1.95, 40)
    mean, variance = gp.predict(np.array([[a, b] for a in sides for b in sides]))
    assert 16 * np.mean(stats.norm.cdf(mean / np.sqrt(variance))) == pytest.approx(np.pi * 1.5, rel=0.1)


def test_a_fit_finds_the_best_hyperparameters():
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, (30, 2))
    sign = np.where(x[:, 0] + 0.3 * x[:, 1] ** 2 < 0.2, 1.0, -1.0)
    found, prior = probit.fit(x, sign, SE, "linear").parameters, SE.hyperprior(2, 1.0)

    def score(parameters):
        return probit.propagate(covariance(x, parameters, "linear"), sign)[1] + prior.log_density(parameters)

    assert all(score(found) > score(found + step) for step in 0.5 * np.vstack([np.eye(3), -np.eye(3)]))
