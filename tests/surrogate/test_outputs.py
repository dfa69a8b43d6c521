"""Moments of the surrogate on outputs against sampling its Gaussian processes."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.acquisition import functions
from tbq.evidence import moments
from tbq.gp.batch import build
from tbq.gp.kernels import MATERN52
from tbq.gp.values import values_of
from tbq.surrogate.outputs import Component, Outputs, _two_orders, clipped, log_mehler, log_mehler_diagonal

DATA = np.array([0.3, 1.4, -0.2])
SD = np.array([0.3, 0.5, 0.4])


def simulate(theta):
    a, b = theta[..., 0], theta[..., 1]
    return np.stack([np.sin(a) + b, np.exp(0.3 * a + 0.2 * b), 0.5 * a * b], axis=-1)


def make(scale=None, log=False, n=9, seed=0, inflation=1.0, prior=None):
    """Three outputs seen in nine runs, hyperparameters chosen by hand."""
    rng = np.random.default_rng(seed)
    prior = prior or tbq.Prior({"a": stats.uniform(-1.5, 3), "b": stats.uniform(-1.5, 3)})
    likelihood = tbq.GaussianLikelihood(simulate, DATA, SD, scale=scale)
    theta = rng.uniform(-1.5, 1.5, (n, 2))
    z, white = prior.to_working(theta), likelihood.whiten(simulate(theta))
    y, noise, parameters = white.T.copy(), np.full((3, n), 1e-6), np.tile(np.log([1.3, 1.5, 1.5]), (3, 1))
    components = [Component(0)] * 3
    if log:
        y[1], noise[1], parameters[1] = np.log(simulate(theta)[:, 1]), 1e-8, np.log([1.5, 1.5, 0.1])
        components[1] = Component(0, (DATA[1], SD[1]))
    batch = build(values_of(z, y, noise, np.array([False, True, True])), MATERN52, parameters)
    return Outputs(batch, tuple(components), np.array([0.7]), likelihood, prior, inflation)


def paths(surrogate, points, n, rng, inflation=1.0):
    """Draws of the log-likelihood at points, from draws of the processes; (n, points)."""
    total = np.tile(points.log_best, (n, 1))
    for j, prior in enumerate(surrogate.batch.covariance(points.latent, points.latent)):
        slope = points.slope[j]
        covariance = inflation**2 * prior * np.outer(slope, slope)
        values, vectors = np.linalg.eigh(covariance)
        factor = vectors * np.sqrt(np.maximum(values, 0.0))
        total -= 0.5 * (points.misfit[j] + rng.standard_normal((n, len(values))) @ factor.T) ** 2
    return total


def moderate_points(surrogate, n, rng):
    """Points whose likelihood has a spread that sampling can see."""
    points = surrogate.at(rng.uniform(-1.7, 1.7, (8 * n, 2)))
    return points.take(np.flatnonzero(surrogate.log_ratio_diagonal(points, 1.0) < 0.5)[:n])


def within(estimates, value, sigmas=5.0):
    error = estimates.std(axis=0) / np.sqrt(len(estimates))
    return np.all(np.abs(estimates.mean(axis=0) - value) < sigmas * error)


CASES = {
    "plain": {},
    "logarithm": {"log": True},
    "unknown noise": {"scale": lambda theta: np.exp(0.3 * theta[1])},
}


@pytest.mark.parametrize("gamma", [0.3, 1.0])
@pytest.mark.parametrize("case", CASES)
def test_mean_variance_and_covariance_of_the_likelihood(case, gamma):
    surrogate, rng = make(**CASES[case]), np.random.default_rng(1)
    points = moderate_points(surrogate, 60, rng)
    assert len(points.log_best) == 60
    g = paths(surrogate, points, 60_000, rng)
    likelihood = np.exp(gamma * g)
    mean = np.exp(surrogate.log_mean(points, gamma))
    assert within(likelihood, mean)
    assert within((likelihood - mean) ** 2, mean**2 * np.expm1(surrogate.log_ratio_diagonal(points, gamma)))
    covariance = np.outer(mean, mean) * np.expm1(surrogate.log_ratio(points, points, gamma))
    for i in range(0, 60, 12):
        assert within((likelihood[:, [i]] - mean[i]) * (likelihood - mean), covariance[i])
    g_mean, g_variance = surrogate.log_likelihood(points)
    assert within(g, g_mean)
    assert within((g - g_mean) ** 2, g_variance)


def test_mean_and_variance_of_the_evidence_and_its_bound():
    surrogate, rng = make(), np.random.default_rng(2)
    points = surrogate.at(rng.uniform(-1.7, 1.7, (150, 2)))
    log_z, weights = moments.normalise(surrogate.log_mean(points, 1.0) - np.log(150))
    samples = np.exp(paths(surrogate, points, 60_000, rng)).mean(axis=1)
    cov = moments.evidence_cov(surrogate, points, weights)
    assert within(samples[:, None], np.exp(log_z))
    assert within(((samples - np.exp(log_z)) ** 2)[:, None], (cov * np.exp(log_z)) ** 2)
    assert moments.evidence_cov_bound(surrogate, points, weights) >= cov


def test_inflation_widens_everything_but_the_mean():
    surrogate, rng = make(), np.random.default_rng(3)
    wide = replace(surrogate, inflation=1.7)
    points = moderate_points(surrogate, 40, rng)
    np.testing.assert_array_equal(wide.log_mean(points, 1.0), surrogate.log_mean(points, 1.0))
    likelihood = np.exp(paths(surrogate, points, 60_000, rng, inflation=1.7))
    mean, square = likelihood.mean(axis=0), (likelihood**2).mean(axis=0)
    np.testing.assert_allclose(np.exp(wide.log_ratio_diagonal(points, 1.0)), square / mean**2, rtol=0.05)


def after(surrogate, z, values):
    """The surrogate conditioned on a run at z that returned these values of its processes."""
    known = surrogate.batch.values
    more = replace(
        known,
        x=np.vstack([known.x, z]),
        y=np.column_stack([known.y, values]),
        noise=np.column_stack([known.noise, known.noise.min(axis=1)]),
        seen=np.column_stack([known.seen, np.ones(len(values), dtype=bool)]),
    )
    return replace(surrogate, batch=build(more, surrogate.batch.kernel, surrogate.batch.parameters))


@pytest.mark.parametrize("gamma", [0.4, 1.0])
@pytest.mark.parametrize("case", ["plain", "unknown noise"])
@pytest.mark.parametrize("z", [np.array([0.1, 0.3]), np.array([-1.6, 1.4])])
def test_peur_and_plur_by_brute_force(case, gamma, z):
    """Integrate over the new outputs: condition on them, recompute likelihoods and moments, take their variance."""
    surrogate, rng = make(**CASES[case]), np.random.default_rng(4)
    two, known = np.arange(2), surrogate.batch
    batch = build(known.values.take(two), known.kernel, known.parameters[two])
    surrogate = replace(surrogate, batch=batch, components=surrogate.components[:2])
    points = moderate_points(surrogate, 40, rng)
    nodes = points.latent.x
    mean = np.exp(surrogate.log_mean(points, gamma))
    weights = mean / mean.sum()
    new = surrogate.at(z[None, :])
    roots, masses = np.polynomial.hermite_e.hermegauss(24)
    masses = masses / masses.sum()
    spread = np.sqrt(new.latent.variance + surrogate.batch.new_noise[:, None])
    outcomes = new.latent.mean + spread * roots
    change_of_z, change_of_likelihood = 0.0, np.zeros(40)
    for first, mass in zip(outcomes[0], masses, strict=True):
        for second, other in zip(outcomes[1], masses, strict=True):
            informed = after(surrogate, z, (first, second))
            ratio = np.exp(informed.log_mean(informed.at(nodes), gamma)) / mean
            change_of_likelihood += mass * other * (ratio - 1.0) ** 2
            change_of_z += mass * other * (weights @ ratio - 1.0) ** 2
    variance = surrogate.revealed_variance(new, points, weights, gamma)[0]
    assert variance == pytest.approx(change_of_z, rel=1e-3)
    diagonal = np.expm1(surrogate.revealed_log_ratio(new, points, gamma)[0])
    np.testing.assert_allclose(diagonal, change_of_likelihood, rtol=1e-2, atol=1e-9)
    target = functions.Target(surrogate, gamma, 0.0, points, nodes, weights, lambda z: np.zeros(len(z)))
    assert functions.peur(target, z[None, :])[0] == pytest.approx(np.log(variance))


def test_the_double_sum_in_blocks_is_the_double_sum():
    surrogate, rng = make(), np.random.default_rng(5)
    nodes, new = surrogate.at(rng.uniform(-1.7, 1.7, (300, 2))), surrogate.at(rng.uniform(-1.7, 1.7, (7, 2)))
    weights = rng.dirichlet(np.ones(300))
    x, _ = surrogate._standardised(nodes, 1.0)
    direct = np.zeros((7, 300, 300))
    for j, b in enumerate(surrogate._fractions(new, nodes, 1.0)):
        direct += log_mehler(x[j][None, :, None], x[j][None, None, :], b[:, :, None] * b[:, None, :])
    expected = [weights @ np.expm1(clipped(d)) @ weights for d in direct]
    np.testing.assert_allclose(surrogate.revealed_variance(new, nodes, weights, 1.0), expected, rtol=1e-9)


def test_the_ranking_is_the_double_sum_where_a_run_reveals_little():
    surrogate, rng = make(), np.random.default_rng(9)
    small = replace(surrogate, inflation=0.02)  # what is revealed goes with the inflation
    nodes, new = small.at(rng.uniform(-1.7, 1.7, (60, 2))), small.at(rng.uniform(-1.7, 1.7, (40, 2)))
    weights = rng.dirichlet(np.ones(60))
    exact = small.revealed_variance(new, nodes, weights, 1.0)
    np.testing.assert_allclose(small.revealed_variance(new, nodes, weights, 1.0, ranking=True), exact, rtol=1e-2)


def test_the_ranking_has_both_orders_of_mehlers_expansion():
    """Σ_kl w_k w_l of the terms up to the second order in b_k b_l, multiplied out component by component."""
    rng = np.random.default_rng(10)
    b, x, w = rng.uniform(-0.9, 0.9, (3, 2, 7)), rng.standard_normal((3, 7)), rng.dirichlet(np.ones(7))
    expected = np.zeros(2)
    for n in range(2):
        r = b[:, n, :, None] * b[:, n, None, :]
        one = r * x[:, :, None] * x[:, None, :]
        two = 0.5 * r**2 * (x[:, :, None] ** 2 - 1.0) * (x[:, None, :] ** 2 - 1.0)
        cross = one[0] * one[1] + one[0] * one[2] + one[1] * one[2]
        expected[n] = w @ (one.sum(axis=0) + two.sum(axis=0) + cross) @ w
    np.testing.assert_allclose(_two_orders(b, x, w), expected, rtol=1e-12)


def test_mehlers_kernel_is_its_series_and_its_own_diagonal():
    x, y, r = np.array([0.3, -1.2, 2.0]), np.array([1.1, 0.4, -0.7]), np.array([0.5, -0.6, 0.3])
    series, factorial = np.zeros(3), 1.0
    for n in range(60):
        factorial *= max(n, 1)
        he = np.polynomial.hermite_e.HermiteE.basis(n)
        series += r**n * he(x) * he(y) / factorial
    np.testing.assert_allclose(np.exp(log_mehler(x, y, r)), series, rtol=1e-10)
    np.testing.assert_allclose(log_mehler_diagonal(x, r), log_mehler(x, x, r), rtol=1e-12)


def test_a_believed_run_leaves_the_means_and_removes_the_variance_there():
    surrogate, z = make(log=True), np.array([[0.4, -0.9]])
    sure = surrogate.condition_on_mean(z[0])
    rng = np.random.default_rng(6)
    elsewhere = rng.uniform(-1.5, 1.5, (20, 2))
    np.testing.assert_allclose(sure.at(elsewhere).misfit, surrogate.at(elsewhere).misfit, rtol=1e-6, atol=1e-6)
    assert np.all(sure.at(z).variance < 1e-5)
    assert np.all(surrogate.at(z).variance > 10.0 * sure.at(z).variance)


def test_points_can_be_taken_and_constants_shift_the_mean_only():
    surrogate, rng = make(), np.random.default_rng(7)
    z = rng.uniform(-1.5, 1.5, (30, 2))
    index = np.array([3, 17, 4])
    taken, direct = surrogate.at(z).take(index), surrogate.at(z[index])
    np.testing.assert_allclose(surrogate.log_ratio(taken, taken, 0.7), surrogate.log_ratio(direct, direct, 0.7))
    np.testing.assert_allclose(surrogate.log_mean(taken, 0.7), surrogate.log_mean(direct, 0.7))


def test_wild_surrogates_stay_finite():
    surrogate, rng = make(n=3), np.random.default_rng(8)
    wild = replace(surrogate, inflation=1e3)
    nodes, new = wild.at(rng.uniform(-1.7, 1.7, (30, 2))), wild.at(rng.uniform(-1.7, 1.7, (9, 2)))
    for gamma in (1e-6, 1.0):
        assert np.all(np.isfinite(wild.revealed_variance(new, nodes, np.full(30, 1 / 30), gamma)))
        assert np.all(np.isfinite(wild.revealed_log_ratio(new, nodes, gamma)))
        assert np.all(np.isfinite(wild.log_ratio(new, nodes, gamma)))
