"""Moments of the surrogate with noise parameters: against the other surrogate of outputs, and against sampling."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

import tbq
from tbq.engine import output_checks
from tbq.evidence.population import Population
from tbq.gp import regression as gps
from tbq.gp.batch import build
from tbq.gp.kernels import MATERN52
from tbq.gp.values import values_of
from tbq.problem import marginal
from tbq.problem.joint_prior import joint
from tbq.problem.tuning import Tuning
from tbq.surrogate import noisy_reduction
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.noisy_outputs import NoisyOutputs, Points, _double_sum, _two_orders
from tbq.surrogate.outputs import Component, Outputs, clipped
from tbq.surrogate.reduction import Memory

DATA = np.array([0.3, 1.4, -0.2])
LEVEL = stats.lognorm(0.4, scale=0.5)
PRIOR = tbq.Prior({"a": stats.uniform(-1.5, 3), "b": stats.uniform(-1.5, 3)})
SIMULATED = {"a": stats.uniform(-1.5, 3), "b": stats.uniform(-1.5, 3)}


def simulate(theta):
    a, b = theta[..., 0], theta[..., 1]
    return np.stack([np.sin(a) + b, np.exp(0.3 * a + 0.2 * b), 0.5 * a * b], axis=-1)


def batch_of(likelihood, log=False, n=9, seed=0):
    """Three outputs less the data, seen in nine runs, hyperparameters chosen by hand."""
    theta = np.random.default_rng(seed).uniform(-1.5, 1.5, (n, 2))
    y = (simulate(theta) - DATA).T.copy()
    noise, parameters = np.full((3, n), 1e-6), np.tile(np.log([1.3, 1.5, 0.7]), (3, 1))
    components = [Component(0)] * 3
    if log:
        y[1], noise[1], parameters[1] = np.log(simulate(theta)[:, 1]), 1e-8, np.log([1.5, 1.5, 0.1])
        components[1] = Component(0, (DATA[1], 1.0))
    batch = build(values_of(PRIOR.to_working(theta), y, noise, np.array([False, True, True])), MATERN52, parameters)
    return batch, tuple(components)


def make(log=False, inflation=1.0, **arguments):
    likelihood = tbq.GaussianLikelihood(simulate, DATA, **({"noise": LEVEL} | arguments))
    batch, components = batch_of(likelihood, log)
    prior, noise = joint(PRIOR, likelihood.noise_prior), likelihood.noise_model
    rule, _ = noisy_reduction.weigh(noise, simulate(PRIOR.from_working(batch.x)))
    x = np.column_stack([noise.data - DATA[noise.out], np.eye(3)[noise.out]])
    return NoisyOutputs(batch, components, x, likelihood, prior, rule, inflation)


def points_of(surrogate, n, seed=0, most=0.5):
    """Points whose likelihood has a spread that sampling can see."""
    z = surrogate.prior.to_working(surrogate.prior.sample(40 * n, seed, "random"))
    near = np.flatnonzero(surrogate.log_ratio_diagonal(surrogate.at(z), 1.0) < most)[:n]
    return z[near]


GROUPS = {"one": slice(0, 2), "two": slice(2, 3)}
CORRELATED = {
    "noise": LEVEL,
    "coordinates": [0.0, 0.5, 1.5],
    "correlation": tbq.Exponential(stats.loguniform(0.1, 2.0)),
}


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("inflation", [1.0, 1.4])
def test_one_noise_gives_what_the_other_surrogate_of_outputs_gives(log, inflation):
    noisy = make(log=log, inflation=inflation)
    scaled = tbq.GaussianLikelihood(simulate, DATA, 1.0, scale=lambda theta: theta[2])
    prior = tbq.Prior({**SIMULATED, "noise": LEVEL})
    outputs = Outputs(noisy.batch, noisy.components, np.zeros(1), scaled, prior, inflation)
    # processes of the first three parameters are of the first two: the other surrogate is given those of all points
    z = points_of(noisy, 12)
    a = noisy.at(z)
    b = outputs._points(z, a.latent.mean, a.latent.variance, a.latent)
    other = z[:5]
    new_noisy = noisy.at(other[:, :2])
    new = outputs._points(other, new_noisy.latent.mean, new_noisy.latent.variance, new_noisy.latent)
    weights = np.full(len(z), 1.0 / len(z))
    for gamma in (0.3, 1.0):
        np.testing.assert_allclose(noisy.log_mean(a, gamma), outputs.log_mean(b, gamma), rtol=1e-9)
        np.testing.assert_allclose(
            noisy.log_ratio_diagonal(a, gamma), outputs.log_ratio_diagonal(b, gamma), rtol=1e-6, atol=1e-9
        )
        np.testing.assert_allclose(noisy.log_ratio(a, a, gamma), outputs.log_ratio(b, b, gamma), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(
            noisy.log_ratio(a.take(np.arange(3)), a, gamma), noisy.log_ratio(a, a, gamma)[:3], rtol=1e-9, atol=1e-12
        )
        expected = outputs.revealed_variance(new, b, weights, gamma)
        if inflation == 1.0:  # the other one inflates what a run reveals, too, beyond the run's own noise
            np.testing.assert_allclose(noisy.revealed_variance(new_noisy, a, weights, gamma), expected, rtol=1e-4)
            shown, wanted = (
                s.revealed_log_ratio(n, p, gamma) for s, n, p in ((noisy, new_noisy, a), (outputs, new, b))
            )
            np.testing.assert_allclose(shown, wanted, rtol=1e-4, atol=1e-7)
        ranked = noisy.revealed_variance(new_noisy, a, weights, gamma, ranking=True)
        np.testing.assert_allclose(ranked, outputs.revealed_variance(new, b, weights, gamma, ranking=True), rtol=0.1)
    for mine, theirs in zip(noisy.log_likelihood(a), outputs.log_likelihood(b), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


def paths(surrogate, points, n, rng):
    """Draws of the components at points, jointly; (n, points, K)."""
    total = np.empty((n, *points.mean.shape))
    for j, covariance in enumerate(surrogate.batch.covariance(points.latent, points.latent)):
        values, vectors = np.linalg.eigh(covariance)
        factor = vectors * np.sqrt(np.maximum(values, 0.0))
        total[:, :, j] = points.latent.mean[j] + rng.standard_normal((n, len(values))) @ factor.T
    return total


def densities(surrogate, outputs, phi, covariance):
    """log L of draws of outputs (n, points, 3), by scipy."""
    found = np.empty(outputs.shape[:2])
    for k, row in enumerate(phi):
        found[:, k] = stats.multivariate_normal(np.zeros(3), covariance(*row)).logpdf(DATA - outputs[:, k])
    return found


COVARIANCES = {
    "groups": (
        {"noise": {"one": LEVEL, "two": LEVEL}, "groups": GROUPS},
        lambda s, t: np.diag([s, s, t]) ** 2,
    ),
    "correlated": (
        CORRELATED,
        lambda s, ell: s**2 * np.exp(-np.abs(np.subtract.outer(*[np.array([0.0, 0.5, 1.5])] * 2)) / ell),
    ),
}


@pytest.mark.parametrize("kind", COVARIANCES)
def test_moments_are_those_of_sampled_processes(kind):
    arguments, covariance = COVARIANCES[kind]
    surrogate, rng = make(**arguments), np.random.default_rng(1)
    z = points_of(surrogate, 6)
    points = surrogate.at(z)
    draws = DATA + paths(surrogate, points, 40_000, rng)
    log_l = densities(surrogate, draws, points.phi, covariance)
    mean, variance = surrogate.log_likelihood(points)
    np.testing.assert_allclose(log_l.mean(axis=0), mean, atol=5.0 * np.sqrt(variance.max() / 40_000))
    np.testing.assert_allclose(log_l.var(axis=0), variance, rtol=0.1)
    for gamma in (0.5, 1.0):
        tempered = np.exp(gamma * log_l - surrogate.log_mean(points, gamma))
        error = tempered.std(axis=0) / np.sqrt(len(tempered))
        assert np.all(np.abs(tempered.mean(axis=0) - 1.0) < 5.0 * error)
        ratio = np.exp(surrogate.log_ratio(points, points, gamma))
        for i in range(6):
            products = tempered * tempered[:, i : i + 1]
            error = products.std(axis=0) / np.sqrt(len(products))
            assert np.all(np.abs(products.mean(axis=0) - ratio[i]) < 5.0 * error)
        np.testing.assert_allclose(np.diag(np.log(ratio)), surrogate.log_ratio_diagonal(points, gamma), rtol=1e-7)


def test_what_a_run_reveals_is_the_covariance_of_the_means_after_it():
    surrogate, rng = make(**CORRELATED), np.random.default_rng(2)
    nodes = surrogate.at(points_of(surrogate, 5))
    new = surrogate.at(np.array([[0.2, -0.4]]))
    count = 20_000
    latent = surrogate.batch.covariance(new.latent, nodes.latent)[:, 0]  # (K, nodes)
    total = new.latent.variance[:, 0] + surrogate.batch.new_noise
    outcome = np.sqrt(total) * rng.standard_normal((count, 3))  # less what was expected
    sd = np.sqrt(np.maximum(nodes.sd.T**2 - latent**2 / total[:, None], 0.0)).T
    after = np.empty((count, 5))
    for k in range(5):
        mean = nodes.mean[k] + outcome * (latent[:, k] / total)
        points = Points(None, mean, np.tile(sd[k], (count, 1)), np.tile(nodes.phi[k], (count, 1)))
        after[:, k] = np.exp(surrogate.log_mean(points, 1.0) - surrogate.log_mean(nodes, 1.0)[k])
    weights = np.array([0.1, 0.3, 0.2, 0.25, 0.15])
    sampled = (after @ weights - 1.0) ** 2
    exact = surrogate.revealed_variance(new, nodes, weights, 1.0)[0]
    assert abs(sampled.mean() - exact) < 5.0 * sampled.std() / np.sqrt(count)
    diagonal = np.expm1(surrogate.revealed_log_ratio(new, nodes, 1.0)[0])
    np.testing.assert_allclose(after.var(axis=0), diagonal, rtol=0.1)


def test_two_orders_are_the_double_sum_where_little_is_revealed():
    rng = np.random.default_rng(4)
    a = rng.standard_normal((7, 3, 3))
    m = 0.02 * a @ np.swapaxes(a, 1, 2)
    u, s, weights = 0.3 * rng.standard_normal((7, 3)), rng.uniform(0.2, 0.5, (4, 7, 3)), rng.dirichlet(np.ones(7))
    np.testing.assert_allclose(_two_orders(s, u, m, weights), _double_sum(s, u, m, weights), rtol=0.05)
    r = s[0, 0] * s[0, 1]
    inner = np.diag(r) @ m[1] @ np.diag(r) @ m[0]
    left = np.linalg.solve(np.eye(3) - inner, r * u[1] - np.diag(r) @ m[1] @ (r * u[0]))
    right = r * u[0] - np.diag(r) @ m[0] @ left
    log_rho = -0.5 * np.log(np.linalg.det(np.eye(3) - inner)) + 0.5 * (u[0] @ left + u[1] @ right)
    pair = np.array([0.5, 0.5])
    both = _double_sum(s[:1, :2], u[:2], m[:2], pair)[0]
    alone = [_double_sum(s[:1, [k]], u[[k]], m[[k]], np.ones(1))[0] for k in (0, 1)]
    assert 4.0 * both - sum(alone) == pytest.approx(2.0 * np.expm1(clipped(np.array(log_rho))), rel=1e-9)


def test_outputs_that_are_unknown_by_far_have_finite_ratios():
    surrogate = make(noise=stats.loguniform(1e-12, 1e-11))
    points = surrogate.at(surrogate.prior.to_working(surrogate.prior.sample(12, 0)))
    weights = np.full(12, 1.0 / 12.0)
    assert np.isfinite(surrogate.log_ratio(points, points, 1.0)).all()
    for ranking in (False, True):
        assert np.isfinite(
            surrogate.revealed_variance(points.take(np.arange(3)), points, weights, 1.0, ranking=ranking)
        ).all()


@pytest.mark.parametrize("kind", ["groups", "correlated", "student"])
def test_points_without_noise_parameters_have_the_likelihood_integrated_over_them(kind):
    arguments = {"freedom": 4.0} if kind == "student" else COVARIANCES[kind][0]
    surrogate, rng = make(**arguments), np.random.default_rng(3)
    z = points_of(surrogate, 12, most=0.1)[:, :2]
    points = surrogate.at(z)
    assert points.phi is None
    noise = surrogate.likelihood.noise_model
    mean, variance = surrogate.log_likelihood(points)
    draws = DATA + paths(surrogate, points, 30, rng)
    found = np.array([[marginal.of_run(noise, y) for y in draws[:, k]] for k in range(3)])
    for k in range(3):
        error = found[k].std() / np.sqrt(30)
        assert abs(found[k].mean() - mean[k]) < 5.0 * error + 0.02
        assert np.sqrt(variance[k]) == pytest.approx(found[k].std(), rel=0.6, abs=0.02)


def test_runs_are_near_by_the_noise_of_the_best():
    surrogate = make()
    points = surrogate.at_runs()
    assert np.ptp(points.phi) == 0.0
    truth = simulate(PRIOR.from_working(surrogate.batch.x))
    heights = [marginal.of_run(surrogate.likelihood.noise_model, y) for y in truth]
    mean, _ = surrogate.log_likelihood(points)
    assert np.argmax(mean) == np.argmax(heights)
    s = points.phi[0, 0]
    np.testing.assert_allclose(mean, stats.norm(truth, s).logpdf(DATA).sum(axis=1), atol=0.05)


def test_runs_left_out_are_predicted_from_the_others():
    surrogate = make(**CORRELATED)
    x = surrogate.batch.x
    mean, variance = surrogate.left_out(x)
    values = surrogate.batch.values
    i = 4
    others = np.arange(len(x)) != i
    kept = replace(
        values, x=x[others], y=values.y[:, others], noise=values.noise[:, others], seen=values.seen[:, others]
    )
    without = replace(surrogate, batch=build(kept, MATERN52, surrogate.batch.parameters))
    expected = without.log_likelihood(without.at(x[[i]]))
    assert mean[i] == pytest.approx(expected[0][0], abs=0.02)
    assert variance[i] == pytest.approx(expected[1][0], rel=0.02)


def test_fewer_components_than_outputs_and_missing_outputs_are_learned():
    t = np.linspace(0.0, 3.0, 30)

    def curve(theta):
        return theta[..., :1] * np.exp(-np.abs(theta[..., 1:2]) * t)

    theta = PRIOR.sample(40, 0, "sobol")
    truth = curve(np.array([1.0, 0.7]))
    observed = truth + 0.05 * np.random.default_rng(0).standard_normal(30)
    observed[4] = np.nan
    likelihood = tbq.GaussianLikelihood(
        curve, observed, stats.loguniform(0.01, 1.0), coordinates=t, correlation=tbq.Exponential(0.2)
    )
    prior, outputs = joint(PRIOR, likelihood.noise_prior), curve(theta)
    outputs[3, 10:] = np.nan
    surrogate, memory = noisy_reduction.fit(
        PRIOR.to_working(theta), outputs, likelihood, prior, "auto", Memory(), Tuning()
    )
    assert 2 <= surrogate.batch.size < 12
    assert "principal components of 30 outputs" in surrogate.description
    again, _ = noisy_reduction.fit(PRIOR.to_working(theta), outputs, likelihood, prior, "auto", memory, Tuning())
    np.testing.assert_allclose(again.batch.score, surrogate.batch.score, rtol=0.01)
    fresh = PRIOR.sample(20, 1)
    mean, variance = surrogate.log_likelihood(surrogate.at(PRIOR.to_working(fresh)))
    exact = np.array([likelihood(row) for row in fresh])
    assert np.sqrt(np.mean((exact - mean) ** 2 / (variance + 0.05**2))) < 2.0
    left_out = surrogate.left_out(PRIOR.to_working(theta))
    assert left_out is None or np.isfinite(left_out[0]).all()


def test_evidence_is_the_same_by_points_with_and_without_noise_parameters():
    surrogate = make()
    for z in PRIOR.to_working(PRIOR.sample(40, 5, "sobol")):  # it knows all of the prior well
        surrogate = surrogate.condition_on_mean(z)
    theta = PRIOR.sample(4096, 0, "sobol")
    both = surrogate.prior.sample(2**15, 1, "sobol")
    plain = surrogate.log_mean(surrogate.at(PRIOR.to_working(theta)), 1.0)
    full = surrogate.log_mean(surrogate.at(surrogate.prior.to_working(both)), 1.0)
    a, b = (special.logsumexp(v) - np.log(len(v)) for v in (plain, full))
    assert a == pytest.approx(b, abs=0.02)


def test_log_likelihoods_are_integrated_over_the_priors_points_whatever_outputs_believe_there():
    """Outputs of three runs hardly know the noise at a point: no density of it may be a factor."""
    surrogate = make()
    surrogate = replace(surrogate, batch=batch_of(surrogate.likelihood, n=3)[0])
    z = PRIOR.to_working(PRIOR.sample(60, 7, "sobol"))
    values = LogNormal(gps.build(z, -4.0 * np.sum(z**2, axis=1), 1e-6, MATERN52, "constant", np.log([1.0, 1.0, 3.0])))
    grid = PRIOR.to_working(PRIOR.sample(2**13, 0, "sobol"))
    exact = special.logsumexp(values.log_mean(values.at(grid), 1.0)) - np.log(len(grid))
    population = Population(surrogate.prior.to_working(surrogate.prior.sample(2048, 1, "sobol")), np.zeros(2048))
    (_, own, _), (_, terms, _) = output_checks._both(surrogate, values, population, PRIOR, np.random.default_rng(0))
    assert special.logsumexp(terms) == pytest.approx(exact, abs=0.1)
    assert len(own) == 2048
