"""Log-depths and whitened coordinates: round trips, and moments against dense integrals and closed forms."""

from dataclasses import replace

import numpy as np
import pytest

from tbq.surrogate.warp import Frame, Warp

FLAT, TILTED = Warp(3.0, 8.0), Warp(3.0, 8.0, np.array([20.0, -5.0]))
BOWL = Warp(3.0, 8.0, np.array([20.0, -5.0]), np.array([[2.0, 1.0, 0.3], [0.0, 3.0, -1.0]]))
Z = np.random.default_rng(0).uniform(-1, 1, (6, 2))


@pytest.mark.parametrize("warp", [FLAT, TILTED, BOWL])
def test_a_warp_round_trips_and_its_slope_is_its_derivative(warp):
    top = replace(warp, bowl=None).inverse(np.zeros(6), Z)[0]  # where h is zero without a bowl
    g = top + np.array([5.0, 0.0, -1.0, -13.0, -500.0, -1e7])
    h = warp.forward(g, Z)
    back, slope = warp.inverse(h, Z)
    np.testing.assert_allclose(back, g, rtol=1e-9)
    step = 1e-5
    numeric = (warp.inverse(h + step, Z)[0] - warp.inverse(h - step, Z)[0]) / (2 * step)
    np.testing.assert_allclose(slope, numeric, rtol=1e-4)
    assert warp.log_jacobian(g, Z) == pytest.approx(-np.sum(np.log(slope)))
    assert np.all(warp.inverse(np.full(6, 1e9), Z)[0] <= top + 8.0)


def test_a_quadratic_is_flat_relative_to_its_bowl():
    g = 11.0 + Z @ BOWL.tilt - 8.0 * (1.0 + np.sum((Z @ BOWL.bowl[:, :2].T + BOWL.bowl[:, 2]) ** 2, axis=1))
    np.testing.assert_allclose(BOWL.forward(g, Z), 0.0, atol=1e-9)


def test_unknown_noise_has_a_straight_log_depth_under_a_tilted_top():
    """log L = c − n u − e^{−2u} R/2: the depth below c − n u is log R − 2u, whatever R and u are."""
    n, c, u, log_r = 25, 4.0, np.linspace(-3, 3, 7), np.linspace(0, 9, 7)
    g = c - n * u - 0.5 * np.exp(log_r - 2.0 * u)
    warp = Warp(c - 8.0, 8.0, np.array([-float(n)]))
    h = warp.forward(g, u[:, None])
    np.testing.assert_allclose(h, -8.0 * (log_r - 2.0 * u - np.log(16.0)), atol=1e-8)


@pytest.mark.parametrize("gamma", [0.05, 1.0])
def test_moments_of_a_warped_process_are_dense_integrals(gamma):
    mean, sd = np.array([0.0, -4.0, -10.0]), np.array([0.3, 1.0, 4.0])
    g, slope = FLAT.inverse(mean, np.zeros((3, 1)))
    grid = np.linspace(-9.0, 9.0, 40_001)[:, None]
    density = np.exp(-0.5 * grid**2) / np.sqrt(2.0 * np.pi)
    rise = FLAT.inverse(mean + sd * grid, np.zeros((1, 1)))[0] - g
    first, second = (np.trapezoid(density * np.exp(k * gamma * rise), grid[:, 0], axis=0) for k in (1.0, 2.0))
    got_rise, got_ratio = FLAT.moments(slope, sd, gamma)
    np.testing.assert_allclose(got_rise, np.log(first), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(got_ratio, np.log(second / first**2), rtol=2e-3, atol=1e-3)


def test_little_spread_is_that_of_a_log_normal():
    slope, sd = np.array([1.0, 50.0]), np.array([0.05, 0.002])
    rise, log_ratio = FLAT.moments(slope, sd, 1.0)
    np.testing.assert_allclose(log_ratio, (slope * sd) ** 2, rtol=0.03)
    curved = 0.5 * (slope * sd) ** 2 - 0.5 * slope * sd**2 / 8.0  # and the curvature of the warp
    np.testing.assert_allclose(rise, curved, rtol=0.03)


def test_a_frame_whitens_a_population_and_compresses_what_is_far_from_it():
    rng = np.random.default_rng(0)
    mix = np.array([[1e-3, 0.0], [0.9e-3, 1e-4]])
    z = np.array([0.2, -0.7]) + rng.standard_normal((4000, 2)) @ mix.T
    frame = Frame.of(z)
    linear = (z - frame.center) @ frame.matrix
    np.testing.assert_allclose(np.cov(linear.T), np.eye(2), atol=1e-6)
    x = frame(z)
    assert np.corrcoef(x.T)[0, 1] == pytest.approx(0.0, abs=0.05)
    np.testing.assert_allclose(x.std(axis=0), 1.0, atol=0.1)
    assert np.all(np.abs(frame(np.array([[1.5, 1.5], [-1.5, 1.5]]))) < 40.0)  # thousands of widths away
    near = 0.3 * np.eye(2) @ np.linalg.inv(frame.matrix) + frame.center
    np.testing.assert_allclose(frame(near), 0.3 * np.eye(2), atol=1e-3)
