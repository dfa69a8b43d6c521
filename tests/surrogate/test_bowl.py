"""Bowls: a linear model with unknown noise is recovered exactly, and fits are where their loss is least."""

import itertools

import numpy as np
import pytest
from scipy import optimize

from tbq.problem.tuning import Tuning
from tbq.surrogate import bowl
from tbq.surrogate.data import Data
from tbq.surrogate.models import Model, competitors, fitted
from tbq.surrogate.warp import Frame, Warp

MIX = np.array([[40.0, 25.0], [0.0, 9.0]])  # coefficients that trade off against each other
CENTER = np.array([0.3, -0.2])


def log_likelihood(z):
    """Thirty data of a linear model of two coefficients; the third parameter is the logarithm of the noise."""
    r = 30.0 + np.sum(((z[:, :2] - CENTER) @ MIX.T) ** 2, axis=1)
    return -30.0 * z[:, 2] - 0.5 * np.exp(-2.0 * z[:, 2]) * r


def data(n=40, frame=None):
    z = np.random.default_rng(1).uniform(-2.0, 2.0, (n, 3))
    return Data(z, log_likelihood(z), np.full(n, 1e-6), 1.0, frame, Tuning())


def test_a_linear_model_with_unknown_noise_is_recovered_from_runs_that_are_all_far_away():
    runs = data()
    peak = np.array([*CENTER, 0.0])
    assert np.max(runs.y) < log_likelihood(peak[None, :])[0] - 15.0
    surrogate, score = fitted(
        Model("se", "linear", warped=True, tilted=True, bowl=True), runs, None, search=True, cold=True
    )
    others = [m for m in competitors("auto", runs) if not m.bowl]
    assert score > max(fitted(m, runs, None, search=True, cold=True)[1] for m in others) + 30.0
    slope = surrogate.warp.bowl[:, :-1]
    valley = np.linalg.solve(slope[:, :2].T @ slope[:, :2], -slope[:, :2].T @ surrogate.warp.bowl[:, -1])
    np.testing.assert_allclose(valley, CENTER, atol=0.02)
    assert surrogate.warp.tilt[2] == pytest.approx(-30.0, rel=0.1)
    assert surrogate.description == "se, linear mean, tilted, bowl"
    assert any(m.bowl for m in competitors("auto", runs))
    assert not any(m.bowl for m in competitors("auto", data(25)))  # too few runs for so many numbers


def test_without_a_bowl_the_top_rises_with_the_noise_level_alone():
    runs = data(60)
    surrogate, _ = fitted(Model("matern52", "linear", warped=True, tilted=True), runs, None, search=True, cold=True)
    assert -60.0 < surrogate.warp.tilt[2] < -15.0  # from runs that are all far away
    np.testing.assert_array_equal(surrogate.warp.tilt[:2], 0.0)
    flat = Data(runs.z, -np.sum((runs.z - 0.2) ** 4, axis=1), runs.noise, 1.0, None, Tuning())
    surrogate, _ = fitted(Model("matern52", "linear", warped=True, tilted=True), flat, None, search=True, cold=True)
    assert np.count_nonzero(surrogate.warp.tilt) < 3


def test_a_further_parameter_must_earn_what_it_costs():
    """Among all sets of parameters, by the density of the values while the process stays what it is."""
    runs = data(50)
    surrogate, _ = fitted(Model("se", "linear", warped=True, tilted=True), runs, None, search=True, cold=True)
    space, cost = bowl._Space(runs, surrogate.warp.depth), bowl._of_process(surrogate.gp, surrogate.warp.depth)
    level = Warp(float(np.max(runs.y)), surrogate.warp.depth, np.zeros(3))
    sets = [s for n in range(4) for s in itertools.combinations(range(3), n)]
    criterion = {s: bowl._likelier(space, level, cost, 300, s)[0] + 0.5 * len(s) * np.log(50) for s in sets}
    chosen = tuple(np.flatnonzero(bowl._tilted(space, level, cost).tilt))
    assert criterion[chosen] < min(criterion.values()) + 1.0
    assert criterion[chosen] < criterion[()] - 10.0


@pytest.mark.parametrize("framed", [False, True])
def test_the_gradients_of_a_fit_are_right(framed, monkeypatch):
    frame = Frame.of(np.random.default_rng(2).standard_normal((50, 3)) @ np.diag([1.0, 0.3, 2.0])) if framed else None
    runs, tested = data(frame=frame), []
    minimize, least_squares = optimize.minimize, optimize.least_squares

    def checked(loss, start, **options):
        at = start + 0.01 * np.arange(1, len(start) + 1)
        numeric = optimize.approx_fprime(at, lambda p: loss(p)[0], 1e-7)
        np.testing.assert_allclose(loss(at)[1], numeric, rtol=1e-3, atol=1e-3 * np.max(np.abs(numeric)))
        tested.append("minimize")
        return minimize(loss, start, **options)

    def checked_squares(residual, start, jacobian, **options):
        at = start + 0.01 * np.arange(1, len(start) + 1)
        numeric = optimize.approx_fprime(at, residual, 1e-7)
        np.testing.assert_allclose(jacobian(at), numeric, rtol=1e-3, atol=1e-4 * np.max(np.abs(numeric)))
        tested.append("least_squares")
        return least_squares(residual, start, jacobian, **options)

    monkeypatch.setattr(optimize, "minimize", checked)
    monkeypatch.setattr(optimize, "least_squares", checked_squares)
    warp = bowl.around(runs, Warp(float(np.max(runs.y)), 8.0, np.zeros(3)))
    surrogate, _ = fitted(Model("se", "linear", warped=True, tilted=True, bowl=True), runs, None, search=True)
    bowl.likelier(surrogate.gp, runs, surrogate.warp)
    assert {"minimize", "least_squares"} <= set(tested)
    again = bowl.around(runs, warp)  # begins where it was
    rest = [
        np.ptp(w.forward(runs.y, runs.z) - _line(w.forward(runs.y, runs.z), runs.z)) / w.depth for w in (warp, again)
    ]
    assert rest[1] < rest[0] * 1.01 + 0.05


def test_numbers_that_are_fitted_are_counted():
    assert bowl.number_of_numbers(Warp(0.0, 8.0)) == 0
    assert bowl.number_of_numbers(Warp(0.0, 8.0, np.array([0.0, -30.0, 0.0]))) == 1 + 1
    assert bowl.number_of_numbers(Warp(0.0, 8.0, np.ones(3), np.zeros((3, 4)))) == 1 + 3 + 9


def _line(values, z):
    basis = np.column_stack([np.ones(len(z)), z])
    return basis @ np.linalg.lstsq(basis, values, rcond=None)[0]
