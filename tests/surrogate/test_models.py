"""Models of the log-likelihood: what each makes of deep runs, of tops that tilt, and how they are scored."""

import numpy as np
import pytest

from tbq.problem.tuning import Tuning
from tbq.surrogate.data import Data
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.models import Model, Start, fitted
from tbq.surrogate.warp import Frame


def data(z, y, gamma=1.0):
    return Data(z, y, np.full(len(y), 1e-6), gamma, Frame.of(z), Tuning())


def points(n, d, seed=0):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (n, d))


def log_marginal(gp, x, y, noise):
    """Of values under a process, its mean's coefficients integrated out: by the definition."""
    basis = np.ones((len(x), 1))
    k = gp.kernel.matrix(gp.parameters, x, x) + np.diag(noise + 1e-12 * gp.kernel.diagonal(gp.parameters, x))
    k += (10.0 * gp.scale) ** 2 * basis @ basis.T
    centred = y - gp.offset
    return -0.5 * (centred @ np.linalg.solve(k, centred) + np.linalg.slogdet(2.0 * np.pi * k)[1])


@pytest.mark.parametrize("warped", [False, True])
def test_the_score_is_of_the_runs_that_matter_given_the_others(warped):
    z = points(30, 2)
    runs = data(z, -40.0 * np.sum(z**2, axis=1))
    assert 0 < runs.near.sum() < 30
    surrogate, score = fitted(Model("matern52", "constant", warped=warped), runs, None, search=True)
    gp = surrogate.gp
    expected = log_marginal(gp, gp.x, gp.y, gp.noise)
    deep = ~runs.near
    expected -= log_marginal(gp, gp.x[deep], gp.y[deep], gp.noise[deep])
    expected += gp.kernel.hyperprior(2, gp.scale).log_density(gp.parameters)
    if warped:
        expected -= np.sum(np.log(surrogate.warp.inverse(gp.y, z)[1])[runs.near])
    assert score == pytest.approx(expected, abs=1e-3)


def test_shaped_noise_grows_with_depth_cools_with_gamma_and_ends():
    z = points(30, 3)
    y = -50.0 * np.sum(z**2, axis=1)
    model = Model("se", "quadratic", shaped=True)
    hot, _ = fitted(model, data(z, y, 0.05), None, search=True)
    cold, _ = fitted(model, data(z, y), None, search=True)
    depth = np.minimum(y.max() - y, 100.0)
    np.testing.assert_allclose(np.sqrt(cold.gp.noise), np.hypot(1e-3, 0.1 * np.maximum(depth - 10, 0)), rtol=1e-6)
    np.testing.assert_allclose(cold.gp.y, y.max() - depth)
    assert np.all(hot.gp.noise <= cold.gp.noise)


def test_a_deep_run_is_no_licence_to_be_high():
    """Half of the square is forbidden by a penalty of a million that varies: it stays deep."""
    z = points(60, 2)
    forbidden = z[:, 0] > 0.5
    y = np.where(forbidden, -1e6 - 1e5 * z[:, 1], -np.sum(z**2, axis=1))
    surrogate, _ = fitted(Model("se", "quadratic", shaped=True), data(z, y), None, search=True)
    mean, _ = surrogate.log_likelihood(surrogate.at(points(300, 2, seed=1)))
    assert np.all(mean[points(300, 2, seed=1)[:, 0] > 0.8] < -15.0)


def test_a_tilt_finds_the_number_of_data_under_unknown_noise():
    """log L = −n u − e^{−2u} R(b)/2 at points of a wide prior: the top falls by n per unit of u."""
    rng = np.random.default_rng(3)
    z = rng.uniform(-1.5, 1.5, (50, 3))
    u, b = 2.0 * z[:, 2], z[:, :2]
    r = 8.0 + 300.0 * (b[:, 0] - 0.1) ** 2 + 80.0 * (b[:, 0] + b[:, 1]) ** 2

    def log_likelihood(u, r):
        return -25.0 * u - 0.5 * np.exp(-2.0 * u) * r

    runs = data(z, log_likelihood(u, r))
    tilted, score = fitted(Model("matern52", "linear", warped=True, tilted=True), runs, None, search=True, cold=True)
    _, plain = fitted(Model("matern52", "constant", warped=True), runs, None, search=True, cold=True)
    assert tilted.warp.tilt[2] == pytest.approx(-50.0, rel=0.2)
    assert score > plain + 5.0
    assert tilted.description.endswith("tilted")
    again, same = fitted(
        Model("matern52", "linear", warped=True, tilted=True),
        runs,
        Start(tilted.gp.parameters, tilted.warp),
        search=False,
    )
    assert same == pytest.approx(score)
    np.testing.assert_array_equal(again.warp.tilt, tilted.warp.tilt)


def test_nothing_is_expected_far_above_the_best_run():
    z = points(12, 1)
    runs = data(z, 100.0 * z[:, 0])
    surrogate, _ = fitted(Model("se", "quadratic"), runs, None, search=True)
    far = np.array([[40.0]])
    assert surrogate.gp.predict(far)[0][0] > 1000.0
    assert surrogate.log_likelihood(surrogate.at(far))[0][0] == np.max(runs.y) + runs.scale


def test_the_moments_of_a_warped_surrogate_are_those_of_its_draws():
    z = points(15, 2)
    surrogate, _ = fitted(Model("se", "constant", warped=True), data(z, -8.0 * np.sum(z**2, axis=1)), None, search=True)
    assert isinstance(surrogate, LogNormal)
    at = surrogate.at(points(5, 2, seed=1))
    latent = surrogate.gp.covariance(at.latent, at.latent)
    rng = np.random.default_rng(0)
    h = rng.multivariate_normal(at.latent.mean, latent, 400_000)
    likelihood = np.exp(surrogate.warp.inverse(h, np.zeros((1, 2)))[0])
    ratio = likelihood.T @ likelihood / len(h) / np.outer(likelihood.mean(axis=0), likelihood.mean(axis=0))
    got = np.exp(surrogate.log_ratio(at, at, 1.0))
    known = np.diag(ratio) < 2.0  # where draws tell the moments
    assert known.sum() >= 3
    np.testing.assert_allclose(got[known][:, known], ratio[known][:, known], rtol=0.02)


LOCAL = Model("se", "constant", warped=True, rotated=True, local=True)


def test_a_local_model_is_of_the_runs_that_matter_alone():
    z = points(40, 2)
    y = -40.0 * np.sum(z**2, axis=1)
    runs = data(z, y)
    surrogate, score = fitted(LOCAL, runs, None, search=True)
    gp = surrogate.gp
    assert 8 < runs.near.sum() < 40
    np.testing.assert_array_equal(gp.x, runs.frame(z[runs.near]))
    expected = log_marginal(gp, gp.x, gp.y, gp.noise)
    expected += gp.kernel.hyperprior(2, gp.scale).log_density(gp.parameters)
    expected -= np.sum(np.log(surrogate.warp.inverse(gp.y, z[runs.near])[1]))
    assert score == pytest.approx(expected, abs=1e-3)
    deeper = data(z, np.where(runs.near, y, 1000.0 * y))
    _, same = fitted(LOCAL, deeper, Start(gp.parameters, surrogate.warp), search=False)
    assert same == pytest.approx(score, abs=1e-9)


def test_a_local_model_knows_a_ridge_that_one_of_all_runs_does_not():
    """A bent ridge under walls that are thousands of nats high: what they vary by is not what it does."""
    rng = np.random.default_rng(5)

    def log_likelihood(z):
        bent = z[:, 1] - 0.5 * z[:, 0] ** 2
        return -8.0 * z[:, 0] ** 2 - 200.0 * bent**2 - 1000.0 * np.expm1(np.maximum(np.abs(bent) - 0.4, 0.0) * 6.0)

    on = rng.normal(0.0, [0.3, 0.06], (30, 2))
    on[:, 1] += 0.5 * on[:, 0] ** 2
    z = np.vstack([points(40, 2), on])
    runs = Data(z, log_likelihood(z), np.full(70, 1e-6), 1.0, Frame.of(on), Tuning())
    new = rng.normal(0.0, [0.25, 0.05], (300, 2))
    new[:, 1] += 0.5 * new[:, 0] ** 2

    def off(model):
        surrogate, score = fitted(model, runs, None, search=True, cold=True)
        mean, _ = surrogate.log_likelihood(surrogate.at(new))
        return np.sqrt(np.mean((mean - log_likelihood(new)) ** 2)), score

    (local, score), (whole, other) = off(LOCAL), off(LOCAL._replace(local=False))
    assert local < 0.5 * whole
    assert score > other + 10.0
