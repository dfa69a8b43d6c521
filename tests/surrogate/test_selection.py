"""Which model the data choose, and how often they are asked."""

import numpy as np
import pytest

from tbq.problem.tuning import Tuning
from tbq.surrogate import selection
from tbq.surrogate.lognormal import LogNormal, Warp
from tbq.surrogate.selection import Memory, Model


def fit(x, y, choice="auto", gamma=1.0, memory=None):
    return selection.fit(x, y, np.full(len(y), 1e-6), choice, gamma, memory or Memory(), Tuning())


def points(n, d, seed=0):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (n, d))


def test_a_gaussian_log_likelihood_gets_a_quadratic_mean():
    x = points(25, 2)
    surrogate, memory = fit(x, -3.0 * x[:, 0] ** 2 + x[:, 0] * x[:, 1] - 2.0 * x[:, 1] ** 2)
    assert memory.model.basis == "quadratic"
    assert "quadratic mean" in surrogate.description


def test_a_kinked_log_likelihood_gets_the_rough_kernel():
    x = points(60, 2)
    _, memory = fit(x, -20.0 * np.abs(x[:, 0]) - 10.0 * np.abs(x[:, 1] - 0.3))
    assert memory.model.kernel == "matern52"


def test_deep_walls_are_warped():
    x = points(60, 2)
    _, memory = fit(x, -np.exp(4.0 * np.abs(x[:, 0])) - x[:, 1] ** 2)
    assert memory.model.warped


def test_sums_of_plane_functions_get_the_additive_kernel():
    x = points(80, 6)
    y = np.sin(2 * x[:, 0]) * x[:, 1] + np.cos(3 * x[:, 2]) - np.abs(x[:, 3]) ** 1.5 * x[:, 4]
    surrogate, memory = fit(x, 5.0 * y)
    assert memory.model.kernel == "additive"
    assert surrogate.gp.kernel.name == "additive"
    assert all(m.kernel != "additive" for m in selection.competitors("auto", 2))


@pytest.mark.parametrize("choice", ["se", "matern52", "additive"])
def test_a_named_kernel_stands_alone(choice):
    x = points(20, 3)
    _, memory = fit(x, -np.sum(x**2, axis=1), choice)
    assert memory.model.kernel == choice
    assert memory.model.basis == "constant"


def test_models_compete_again_only_after_some_runs_and_refit_less_often_later():
    x, y = points(90, 2), -np.sum(points(90, 2) ** 2, axis=1)
    _, first = fit(x[:20], y[:20])
    _, second = fit(x[:21], y[:21], memory=first)
    assert (second.chosen_at, second.fitted_at) == (20, 21)
    _, third = fit(x[:25], y[:25], memory=second)
    assert third.chosen_at == 25
    _, late = fit(x[:80], y[:80], memory=third)
    surrogate, same = fit(x[:81], y[:81], memory=late)
    assert (same.fitted_at, same.warm) == (80, late.warm)  # conditioned, not fitted
    assert len(surrogate.gp.y) == 81
    assert [selection.pace(n) for n in (20, 80, 150, 300, 2000)] == [1, 2, 4, 8, 40]


def test_the_score_counts_the_warps_jacobian():
    x = points(30, 2)
    y = -5.0 * np.sum(x**2, axis=1)
    surrogate, score = selection._surrogate(
        x, y, np.full(30, 1e-6), Model("se", "constant", warped=True), 1.0, Tuning(), None
    )
    h = 1e-6
    slopes = (surrogate.warp.forward(y + h) - surrogate.warp.forward(y - h)) / (2 * h)
    below = y < y.max()
    assert score == pytest.approx(surrogate.gp.score + np.sum(np.log(slopes[below])), abs=1e-4)


def test_shaped_noise_grows_with_depth_and_cools_with_gamma():
    x = points(30, 3)
    y = -50.0 * np.sum(x**2, axis=1)
    model = Model("se", "quadratic", shaped=True)
    hot, _ = selection._surrogate(x, y, np.full(30, 1e-6), model, 0.05, Tuning(), None)
    cold, _ = selection._surrogate(x, y, np.full(30, 1e-6), model, 1.0, Tuning(), None)
    depth = y.max() - y
    np.testing.assert_allclose(np.sqrt(cold.gp.noise), np.hypot(1e-3, 0.1 * np.maximum(depth - 10, 0)), rtol=1e-6)
    assert np.all(hot.gp.noise <= cold.gp.noise)


def test_a_warp_round_trips_and_its_slope_is_its_derivative():
    warp = Warp(top=3.0, depth=8.0)
    g = np.array([5.0, 3.0, 2.0, -10.0, -500.0])
    back, slope = warp.inverse(warp.forward(g))
    np.testing.assert_allclose(back, g, rtol=1e-9)
    h = 1e-6
    numeric = (warp.inverse(warp.forward(g[2:]) + h)[0] - warp.inverse(warp.forward(g[2:]) - h)[0]) / (2 * h)
    np.testing.assert_allclose(slope[2:], numeric, rtol=1e-4)


def test_a_warped_surrogates_covariance_is_that_of_the_linearised_process():
    x = points(15, 2)
    surrogate, _ = selection._surrogate(
        x, -8.0 * np.sum(x**2, axis=1), np.full(15, 1e-6), Model("se", "constant", warped=True), 1.0, Tuning(), None
    )
    assert isinstance(surrogate, LogNormal)
    at = surrogate.at(points(6, 2, seed=1))
    covariance = surrogate.covariance(at, at)
    np.testing.assert_allclose(np.diag(covariance), at.variance, rtol=1e-5, atol=1e-8)
    latent = surrogate.gp.covariance(at.latent, at.latent)
    np.testing.assert_allclose(covariance, latent * np.outer(at.slope, at.slope))
