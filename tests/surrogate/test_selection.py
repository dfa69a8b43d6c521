"""Which model the data choose, and how often they are asked."""

from dataclasses import replace

import numpy as np
import pytest

from tbq.gp.regression import basis_functions
from tbq.problem.tuning import Tuning
from tbq.surrogate import selection
from tbq.surrogate.data import Data
from tbq.surrogate.models import Model, competitors, fitted
from tbq.surrogate.selection import Memory
from tbq.surrogate.warp import Frame


def fit(x, y, choice="auto", memory=None):
    data = Data(x, y, np.full(len(y), 1e-6), 1.0, Frame.of(x), Tuning())
    return selection.fit(data, choice, memory or Memory())


def points(n, d, seed=0):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (n, d))


def some_runs(n, d):
    return Data(points(n, d), np.zeros(n), np.full(n, 1e-6), 1.0, None, Tuning())


def test_a_gaussian_log_likelihood_gets_a_quadratic_mean():
    x = points(25, 2)
    surrogate, memory = fit(x, -3.0 * x[:, 0] ** 2 + x[:, 0] * x[:, 1] - 2.0 * x[:, 1] ** 2)
    assert memory.model.basis == "quadratic" or memory.model.bowl
    assert surrogate.description in ("se, quadratic mean", "se, linear mean, tilted, bowl")


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
    assert all(m.kernel != "additive" for m in competitors("auto", some_runs(99, 2)))


def test_a_tilt_is_not_fitted_to_a_few_runs():
    assert not any(m.tilted for m in competitors("auto", some_runs(8, 2)))
    assert any(m.tilted for m in competitors("auto", some_runs(9, 2)))


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


def noisy_data(sd, n, known=0.0, repeats=1, seed=0):
    rng = np.random.default_rng(seed)
    x = np.repeat(points(n // repeats, 2, seed), repeats, axis=0)
    y = -2.0 * x[:, 0] ** 2 - 3.0 * (x[:, 1] - 0.3 * x[:, 0]) ** 2 + sd * rng.standard_normal(n)
    return Data(x, y, np.full(n, 1e-6 + known**2), 1.0, Frame.of(x), Tuning(), learns_noise=known == 0.0)


@pytest.mark.parametrize("sd", [0.1, 0.5, 2.0])
def test_the_level_of_noise_is_the_scatter_of_repeated_runs(sd):
    data = noisy_data(sd, 60, repeats=2)
    surrogate, memory = selection.fit(data, "auto", Memory())
    pairs = data.y.reshape(-1, 2)
    scatter = np.sqrt(np.mean((pairs[:, 0] - pairs[:, 1]) ** 2) / 2.0)  # which knows no model
    assert memory.model.noisy
    assert np.sqrt(memory.noise) == pytest.approx(scatter, rel=0.3)
    assert surrogate.noise == pytest.approx(memory.noise, rel=1e-3)
    z = points(20, 2, 9)
    mean, _ = surrogate.log_likelihood(surrogate.at(z))
    truth = -2.0 * z[:, 0] ** 2 - 3.0 * (z[:, 1] - 0.3 * z[:, 0]) ** 2
    regression = np.linalg.lstsq(basis_functions("quadratic", data.z), data.y, rcond=None)[0]
    unavoidable = basis_functions("quadratic", z) @ regression - truth  # of whoever knows that it is a quadratic
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 1.3 * np.sqrt(np.mean(unavoidable**2))


def test_a_deterministic_simulator_gets_no_noise():
    for seed in range(3):
        data = noisy_data(0.0, 25, seed=seed)
        bent = replace(data, y=data.y + np.sin(2.0 * data.z[:, 0]))
        for runs in (data, bent):
            surrogate, memory = selection.fit(runs, "auto", Memory())
            assert not memory.model.noisy
            assert memory.noise == surrogate.noise == 0.0


def test_noise_that_is_known_is_not_learned():
    surrogate, memory = selection.fit(noisy_data(0.5, 40, known=0.5), "auto", Memory())
    assert not memory.model.noisy
    assert surrogate.level == 0.0
    assert surrogate.noise == pytest.approx(0.25, rel=1e-3)
    assert not any(m.tilted for m in competitors("auto", noisy_data(0.5, 40, known=0.5)))


@pytest.mark.parametrize("warped", [False, True])
def test_another_run_at_the_same_point_tells_what_averaging_does(warped):
    """With variance v before a run and noise s², the variance after it is v s²/(v + s²): two independent readings."""
    data = noisy_data(0.5, 40, known=0.5)
    surrogate, _ = fitted(Model("se", "constant", warped=warped), data, None, search=True, cold=True)
    z = data.z[int(np.argmax(data.y))]
    point = surrogate.at(z[None, :])
    before = float(surrogate.log_likelihood(point)[1][0])
    after = float(surrogate.condition_on_mean(z).log_likelihood(surrogate.condition_on_mean(z).at(z[None, :]))[1][0])
    assert after == pytest.approx(before * surrogate.noise / (before + surrogate.noise), rel=1e-6)


def wide_runs(n, *, far, found):
    """A narrow peak in a wide square, as it is known by some runs on it."""
    z = np.vstack([points(n // 2, 2), 0.1 * points(n - n // 2, 2, seed=1)])
    y = -0.5 * np.sum((z / 0.05) ** 2, axis=1)
    return Data(z, y, np.full(n, 1e-6), 1.0, Frame.of(z[n // 2 :]), Tuning(), far=far, found=found)


@pytest.mark.parametrize(("far", "found", "asked"), [(True, True, True), (True, False, False), (False, True, False)])
def test_local_models_compete_where_a_far_posterior_was_found(far, found, asked):
    runs = wide_runs(40, far=far, found=found)
    assert 0 < runs.near.sum() < 40
    assert any(m.local for m in competitors("auto", runs)) is asked


def test_a_local_model_needs_more_runs_than_a_quadratic_has_numbers():
    runs = wide_runs(40, far=True, found=True)
    deep = np.flatnonzero(~runs.near)
    few = np.concatenate([deep, np.flatnonzero(runs.near)[:11]])  # a quadratic of two parameters has six; and two more
    assert runs.asks_locally
    assert not replace(runs, z=runs.z[few], y=runs.y[few], noise=runs.noise[few]).asks_locally


def test_a_model_of_all_runs_takes_over_from_a_local_one_at_once_and_the_other_way_round():
    away, near = wide_runs(38, far=True, found=False), wide_runs(40, far=True, found=True)
    _, memory = selection.fit(away, "auto", Memory())
    assert not memory.model.local
    assert not memory.asked_locally
    _, asked = selection.fit(near, "auto", memory)
    assert asked.asked_locally
    assert any(m.local for m in asked.warm)
    local = replace(asked, model=next(m for m in asked.warm if m.local))
    surrogate, _ = selection.fit(near, "auto", local)
    assert surrogate.local
    assert surrogate.guard is not None
    surrogate, again = selection.fit(replace(near, found=False), "auto", local)
    assert not surrogate.local
    assert not again.model.local
