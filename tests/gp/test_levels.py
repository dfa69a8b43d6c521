"""Processes of two levels against dense linear algebra, with ρ integrated over a grid."""

import numpy as np
import pytest
from scipy import special

from tbq.gp import paths
from tbq.gp.batch import build
from tbq.gp.kernels import MATERN52
from tbq.gp.levels import Levels, hyperparameter_draws, with_coarse
from tbq.gp.regression import COEFFICIENT_SD, NUGGET
from tbq.gp.values import values_of

NOISE = 1e-10
COARSE, DELTA = np.log([1.2, 1.5, 2.0]), np.log([1.0, 1.4, 0.3])


def functions(x):
    coarse = np.sin(x[:, 0]) + 0.5 * x[:, 1] ** 2
    return coarse, 0.8 * coarse + 0.2 * np.cos(2.0 * x[:, 1]) + 0.3


def make(n=6, n_coarse=16, seed=0):
    """Two processes of the dear level, one on the cheap level and one that ignores it."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_coarse, 2))
    coarse, fine = functions(x)
    below = build(values_of(x, coarse[None], np.full((1, n_coarse), NOISE), np.array([False])), MATERN52, COARSE[None])
    centre, spread = np.array([coarse.mean()]), np.array([coarse.std()])
    points = with_coarse(x[:n], below.project(x[:n]).mean, centre, spread)
    y = np.stack([fine[:n], np.sin(3.0 * x[:n, 0])])
    values = values_of(points, y, np.full((2, n), NOISE), np.array([True, False]), np.array([0, -1]), extra=1)
    return Levels(build(values, MATERN52, np.stack([DELTA, DELTA])), below, centre, spread), x, rng


def prior_covariance(parameters, batch, k, a, b, terms_a, terms_b):
    """Of a process with a mean whose coefficients are normal."""
    unit = (COEFFICIENT_SD * batch.values.scale[k]) ** 2
    return MATERN52.matrix(parameters, a, b) + unit * terms_a @ terms_b.T


def given_rho(levels, x, rho, z):
    """Mean and covariance of y at z for one ρ, by conditioning the joint normal of both levels; and log p(y | ρ)."""
    n, below, delta = len(levels.x), levels.coarse, levels.delta
    every, ones = np.vstack([x, z]), np.ones((len(x) + len(z), 1))
    linear = np.hstack([ones, every])
    g = prior_covariance(COARSE, below, 0, every, every, ones, ones)
    d = prior_covariance(DELTA, delta, 0, every, every, linear, linear)
    fine = np.r_[:n, len(x) : len(every)]
    joint = np.block([[g, rho * g[:, fine]], [rho * g[fine], rho**2 * g[np.ix_(fine, fine)] + d[np.ix_(fine, fine)]]])
    nugget = [NOISE + NUGGET * np.exp(2.0 * p[-1]) for p in (COARSE, DELTA)]
    seen = np.r_[: len(x), len(every) : len(every) + n]
    noise = np.r_[np.full(len(x), nugget[0]), np.full(n, nugget[1])]
    # values of y less its offset and less ρ times the centre of g, as the model has it
    means = np.r_[np.full(len(x), below.values.offset[0]), offset_of(levels, rho, n)]
    data = np.r_[below.values.y[0], delta.values.y[0]] - means
    new = np.arange(len(every) + n, len(joint))
    inner = joint[np.ix_(seen, seen)] + np.diag(noise)
    gain = np.linalg.solve(inner, joint[np.ix_(seen, new)]).T
    mean = offset_of(levels, rho, len(z)) + gain @ data
    covariance = joint[np.ix_(new, new)] - gain @ joint[np.ix_(seen, new)]
    return mean, covariance, -0.5 * data @ np.linalg.solve(inner, data) - 0.5 * np.linalg.slogdet(inner)[1]


def offset_of(levels, rho, n):
    offset, centre = levels.delta.values.offset[0], levels.centre[0]
    return np.full(n, offset + rho * (levels.coarse.values.offset[0] - centre))


def integrated(levels, x, z):
    """Moments of y at z over the posterior of ρ."""
    mean, sd = (v[0] for v in levels.rho)
    grid = np.linspace(mean - 8.0 * sd, mean + 8.0 * sd, 201)
    prior_sd = COEFFICIENT_SD * levels.delta.values.scale[0] / levels.spread[0]
    found = [given_rho(levels, x, rho, z) for rho in grid]
    weights = special.softmax([f[2] - 0.5 * (rho / prior_sd) ** 2 for f, rho in zip(found, grid, strict=True)])
    means = np.array([f[0] for f in found])
    covariances = np.array([f[1] for f in found])
    average = weights @ means
    spread = np.einsum("r,ri,rj->ij", weights, means - average, means - average)
    return average, np.tensordot(weights, covariances, 1) + spread, weights @ grid, grid, weights


def test_moments_are_those_of_the_joint_normal_integrated_over_rho():
    levels, x, rng = make()
    z = rng.normal(size=(7, 2))
    mean, covariance, rho, grid, weights = integrated(levels, x, z)
    points = levels.project(z)
    np.testing.assert_allclose(points.mean[0], mean, atol=1e-6)
    np.testing.assert_allclose(levels.covariance(points, points)[0], covariance, atol=1e-6)
    np.testing.assert_allclose(points.variance[0], np.diag(covariance), atol=1e-6)
    found, sd = levels.rho
    assert found[0] == pytest.approx(rho, abs=1e-6)
    assert sd[0] == pytest.approx(np.sqrt(weights @ (grid - rho) ** 2), rel=1e-4)


def test_a_process_without_the_coarse_level_is_as_if_there_were_none():
    levels, x, rng = make()
    n, z = len(levels.x), rng.normal(size=(600, 2))
    alone = build(
        values_of(x[:n], levels.values.y[1:], np.full((1, n), NOISE), np.array([False])), MATERN52, DELTA[None]
    )
    points = levels.project(z)
    assert np.isnan(levels.rho[0][1])
    np.testing.assert_allclose(points.mean[1], alone.project(z).mean[0], atol=1e-8)
    np.testing.assert_allclose(points.variance[1], alone.project(z).variance[0], atol=1e-8)


def test_many_points_are_as_few():
    levels, _, rng = make()
    z, few = rng.normal(size=(700, 2)), np.arange(5, 25)
    many, some = levels.project(z), levels.project(z[few])
    np.testing.assert_allclose(many.mean[:, few], some.mean, atol=1e-10)
    np.testing.assert_allclose(many.variance[:, few], some.variance, atol=1e-10)
    taken = many.take(few)
    np.testing.assert_allclose(levels.covariance(many, taken)[:, few], levels.covariance(some, some), atol=1e-9)


def test_parts_of_the_covariance_are_what_each_level_does_not_know():
    levels, _, rng = make()
    z = rng.normal(size=(5, 2))
    points = levels.project(z)
    parts = [Levels(levels.delta, levels.coarse, levels.centre, levels.spread, part) for part in ("coarse", "delta")]
    sums = sum(part.covariance(points, points) for part in parts)
    np.testing.assert_allclose(sums, levels.covariance(points, points), atol=1e-12)
    np.testing.assert_allclose(sum(part.project(z).variance for part in parts), points.variance, atol=1e-12)
    expected = (levels.rho[0][0] ** 2 + levels.rho[1][0] ** 2) * levels.coarse.project(z).variance[0]
    np.testing.assert_allclose(parts[0].project(z).variance, [expected, np.zeros(5)], rtol=1e-10)


def test_a_run_as_expected_changes_no_mean_and_ends_the_uncertainty_there():
    levels, _, rng = make()
    z, there = rng.normal(size=(9, 2)), rng.normal(size=2)
    before, dear, cheap = levels, levels.condition_on_mean(there), levels.condition_on_coarse_mean(there)
    for after in (dear, cheap):
        np.testing.assert_allclose(after.project(z).mean, before.project(z).mean, atol=1e-8)
        assert np.all(after.project(z).variance < before.project(z).variance + 1e-12)
    assert np.all(dear.project(there[None]).variance < 1e-8)
    left = Levels(levels.delta, levels.coarse, levels.centre, levels.spread, "delta").project(there[None]).variance
    np.testing.assert_allclose(cheap.project(there[None]).variance, left, atol=1e-8)


def test_what_one_run_reveals_of_another_point_is_the_drop_of_its_variance():
    levels, _, rng = make()
    z, there = rng.normal(size=(9, 2)), rng.normal(size=(1, 2))
    cheap = Levels(levels.delta, levels.coarse, levels.centre, levels.spread, "coarse")
    points, new = levels.project(z), cheap.project(there)
    revealed = cheap.covariance(new, points)[:, 0] ** 2 / (new.variance + cheap.new_noise[:, None])
    drop = points.variance - levels.condition_on_coarse_mean(there[0]).project(z).variance
    np.testing.assert_allclose(revealed, drop, atol=1e-9)


def test_left_out_values_are_predicted_without_them():
    levels, x, _ = make()
    mean, variance = levels.leave_one_out()
    v, kept = levels.delta.values, np.arange(1, len(levels.x))
    fewer = values_of(v.x[kept], v.y[:, kept], v.noise[:, kept], v.linear, v.given, 1)
    fewer = build(
        type(fewer)(*[*vars(fewer).values()][:5], v.offset, v.scale, v.given, 1), MATERN52, levels.delta.parameters
    )
    without = Levels(fewer, levels.coarse, levels.centre, levels.spread).project(x[:1])
    np.testing.assert_allclose(mean[:, 0], without.mean[:, 0], atol=1e-6)
    np.testing.assert_allclose(variance[:, 0], without.variance[:, 0], rtol=1e-4, atol=1e-8)


def test_drawn_functions_have_the_moments_of_the_processes():
    levels, _, rng = make()
    z = rng.normal(size=(6, 2))
    points, every = levels.project(z), []
    for _ in range(12):  # features, which the functions of one draw share, approximate the kernel to a tenth or so
        every.append([functions(z) for functions in paths.draws_of(levels, 500, rng)])
    drawn, sd = np.concatenate(every, axis=2), np.sqrt(points.variance)
    np.testing.assert_allclose(drawn.mean(axis=2), points.mean, atol=0.06 * sd.max())
    np.testing.assert_allclose(drawn.std(axis=2), sd, rtol=0.15)  # without the spread of ρ it is a quarter off


def test_other_hyperparameters_are_drawn_for_both_levels():
    levels, _, rng = make()
    drawn = list(hyperparameter_draws(levels, 3, rng))
    assert len(drawn) == 3
    assert all(not np.array_equal(one.coarse.parameters, levels.coarse.parameters) for one in drawn)
    assert all(not np.array_equal(one.delta.parameters, levels.delta.parameters) for one in drawn)
