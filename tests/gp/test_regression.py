"""The Gaussian process against scikit-learn, dense linear algebra and finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from tbq.gp import fitting, kernels
from tbq.gp import regression as gps
from tbq.gp.kernels import ADDITIVE, MATERN52, MATERN52_PRODUCT, SE

KERNELS = [SE, MATERN52, MATERN52_PRODUCT]
ids = [k.name for k in KERNELS]


def data(n=25, d=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.5, 1.5, (n, d))
    y = -0.5 * np.sum((x / 0.6) ** 2, axis=1) + np.sin(3.0 * x[:, 0])
    return x, y, rng


def dense(gp, x_new):
    """Posterior by brute force: the marginalised mean as one more term of the covariance."""
    h = lambda x: gps.basis_functions(gp.basis, x)
    k = lambda a, b: gp.kernel.matrix(gp.parameters, a, b) + (10.0 * gp.scale) ** 2 * h(a) @ h(b).T
    K = k(gp.x, gp.x) + np.diag(gp.noise + gp.nugget)
    cross = k(gp.x, x_new)
    mean = gp.offset + cross.T @ np.linalg.solve(K, gp.y - gp.offset)
    return mean, k(x_new, x_new) - cross.T @ np.linalg.solve(K, cross), K


@pytest.mark.parametrize("kernel", [SE, MATERN52], ids=ids[:2])
def test_predictions_are_those_of_scikit_learn(kernel):
    x, y, rng = data()
    lengths, amplitude, noise = np.array([0.7, 1.3]), 2.5, 1e-4
    gp = gps.build(x, y, noise, kernel, "constant", np.log(np.append(lengths, amplitude)))
    base = RBF(lengths) if kernel is SE else Matern(lengths, nu=2.5)
    oracle = GaussianProcessRegressor(
        ConstantKernel((10.0 * gp.scale) ** 2) + ConstantKernel(amplitude**2) * base,
        alpha=noise + gps.NUGGET * amplitude**2,
        optimizer=None,
    ).fit(x, y - gp.offset)
    x_new = rng.uniform(-1.5, 1.5, (40, 2))
    mean, covariance = oracle.predict(x_new, return_cov=True)
    points = gp.project(x_new)
    np.testing.assert_allclose(points.mean - gp.offset, mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(gp.covariance(points, points), covariance, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(points.variance, np.diag(covariance), rtol=1e-8, atol=1e-8)
    hyper = kernel.hyperprior(2, gp.scale).log_density(gp.parameters)
    assert gp.score - hyper == pytest.approx(oracle.log_marginal_likelihood_value_, rel=1e-8)


@pytest.mark.parametrize("basis", ["constant", "quadratic"])
@pytest.mark.parametrize("kernel", KERNELS, ids=ids)
def test_covariance_between_any_two_sets_is_the_dense_one(kernel, basis):
    x, y, rng = data(d=3)
    noise = rng.uniform(1e-4, 1e-2, len(x))  # per-point noise
    gp = gps.build(x, y, noise, kernel, basis, np.log([0.8, 1.0, 1.5, 2.0]))
    a, b = rng.uniform(-2, 2, (7, 3)), rng.uniform(-2, 2, (11, 3))
    mean, covariance, _ = dense(gp, np.vstack([a, b]))
    pa, pb = gp.project(a), gp.project(b)
    np.testing.assert_allclose(pa.mean, mean[:7], rtol=1e-7)
    np.testing.assert_allclose(gp.covariance(pa, pb), covariance[:7, 7:], rtol=1e-6, atol=1e-6)
    index = np.array([3, 0])
    np.testing.assert_allclose(gp.covariance(pa.take(index), pb), gp.covariance(pa, pb)[index], atol=1e-12)


@pytest.mark.parametrize("basis", ["constant", "quadratic"])
@pytest.mark.parametrize("kernel", KERNELS, ids=ids)
def test_gradient_of_the_marginal_likelihood(kernel, basis):
    x, y, rng = data(n=20, d=3)
    problem = gps.Problem.of(x, y, 1e-4, kernel, basis)
    for parameters in rng.normal(0.0, 0.4, (3, 4)):
        gradient = problem.log_posterior(parameters)[1]
        h = 1e-5
        numeric = [
            (problem.log_posterior(parameters + e)[0] - problem.log_posterior(parameters - e)[0]) / (2 * h)
            for e in h * np.eye(4)
        ]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("basis", ["constant", "quadratic"])
def test_conditioning_on_one_more_point_equals_rebuilding(basis):
    x, y, rng = data()
    gp = gps.build(x[:-1], y[:-1], 1e-6, SE, basis, np.log([0.7, 1.3, 2.5]))
    grown = gp.condition(x[-1], y[-1], 1e-6)
    # `dense` rebuilds from grown.x and grown.y, with the offset and priors of before the point came
    x_new = rng.uniform(-1.5, 1.5, (9, 2))
    mean, covariance, _ = dense(grown, x_new)
    points = grown.project(x_new)
    np.testing.assert_allclose(points.mean, mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(grown.covariance(points, points), covariance, rtol=1e-5, atol=1e-6)
    assert len(grown.x) == len(x)


def test_leave_one_out_equals_leaving_one_out():
    x, y, _ = data(n=15)
    gp = gps.build(x, y, 1e-3, MATERN52, "quadratic", np.log([0.7, 1.3, 2.5]))
    mean, variance = gp.leave_one_out()
    h = gps.basis_functions("quadratic", x)
    K = MATERN52.matrix(gp.parameters, x, x) + (10 * gp.scale) ** 2 * h @ h.T + np.diag(gp.noise + gp.nugget)
    for i in range(len(x)):
        rest = np.arange(len(x)) != i
        solve = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
        assert mean[i] == pytest.approx(gp.offset + solve @ (y[rest] - gp.offset), rel=1e-6)
        assert variance[i] == pytest.approx(K[i, i] - solve @ K[rest, i], rel=1e-5)


def test_fit_finds_the_length_scales_of_a_known_process():
    rng = np.random.default_rng(4)
    x = rng.uniform(-3, 3, (150, 2))
    truth = np.log([0.8, 2.0, 3.0])
    y = np.linalg.cholesky(SE.matrix(truth, x, x) + 1e-8 * np.eye(150)) @ rng.standard_normal(150)
    gp = fitting.fit(x, y, 1e-6, SE)
    np.testing.assert_allclose(gp.parameters[:2], truth[:2], atol=0.25)
    assert gps.build(x, y, 1e-6, SE, "constant", truth).score <= gp.score


def test_a_quadratic_mean_makes_a_quadratic_exact_far_away():
    x, _, rng = data(n=12)
    f = lambda x: 3.0 - x[:, 0] ** 2 + 0.5 * x[:, 0] * x[:, 1] - 2.0 * x[:, 1]
    far = rng.uniform(-8, 8, (20, 2))
    quadratic = fitting.fit(x, f(x), 1e-6, SE, "quadratic")
    constant = fitting.fit(x, f(x), 1e-6, SE, "constant")
    np.testing.assert_allclose(quadratic.predict(far)[0], f(far), atol=0.05)
    assert np.max(np.abs(constant.predict(far)[0] - f(far))) > 1.0
    assert quadratic.score > constant.score  # and the marginal likelihood knows it


@pytest.mark.parametrize("seed", range(5))
def test_twelve_points_in_ten_dimensions_make_sense(seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.5, 1.5, (12, 10))
    y = -50.0 * np.sum(x[:, :4] ** 2, axis=1)
    gp = fitting.fit(x, y, 1e-6, SE)
    lengths, amplitude = np.exp(gp.parameters[:-1]), np.exp(gp.parameters[-1])
    assert np.all((lengths > 0.1) & (lengths < 500))
    assert np.std(y) / 50 < amplitude < 50 * np.std(y)
    _, variance = gp.predict(rng.uniform(-1.5, 1.5, (200, 10)))
    assert np.sqrt(np.median(variance)) > 0.1 * np.std(y)  # it does not claim to know the space


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(15)))
def test_the_order_of_the_data_does_not_matter(order):
    x, y, rng = data(n=15)
    x_new = rng.uniform(-1, 1, (5, 2))
    parameters = np.log([0.7, 1.3, 2.5])
    a = gps.build(x, y, 1e-6, SE, "constant", parameters)
    b = gps.build(x[list(order)], y[list(order)], 1e-6, SE, "constant", parameters)
    np.testing.assert_allclose(a.predict(x_new)[0], b.predict(x_new)[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(a.predict(x_new)[1], b.predict(x_new)[1], rtol=1e-4, atol=1e-7)


def test_the_additive_kernel_is_its_formula_and_its_gradient():
    rng = np.random.default_rng(0)
    d, a, b = 4, rng.normal(size=(9, 4)), rng.normal(size=(7, 4))
    parameters = rng.normal(0.0, 0.5, 2 * d + d * (d - 1) // 2)
    lengths, single = np.exp(parameters[:d]), np.exp(2 * parameters[d : 2 * d])
    factor = [np.exp(-0.5 * ((a[:, [i]] - b[:, i]) / lengths[i]) ** 2) for i in range(d)]
    expected = sum(single[i] * factor[i] for i in range(d))
    pairs = [(i, j) for i in range(d) for j in range(i + 1, d)]
    for (i, j), p in zip(pairs, parameters[2 * d :], strict=True):
        expected = expected + np.exp(2 * p) * factor[i] * factor[j]
    np.testing.assert_allclose(ADDITIVE.matrix(parameters, a, b), expected, rtol=1e-7)
    np.testing.assert_allclose(ADDITIVE.diagonal(parameters, a), np.diag(ADDITIVE.matrix(parameters, a, a)), rtol=1e-7)
    problem = gps.Problem.of(a, np.sin(a).sum(axis=1), 1e-4, ADDITIVE, "constant")
    gradient, h = problem.log_posterior(parameters)[1], 1e-5
    numeric = [
        (problem.log_posterior(parameters + e)[0] - problem.log_posterior(parameters - e)[0]) / (2 * h)
        for e in h * np.eye(len(parameters))
    ]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-4)


def test_a_sum_of_plane_functions_in_ten_dimensions_is_learned_by_the_additive_kernel():
    rng = np.random.default_rng(0)
    x, new = rng.uniform(-1.5, 1.5, (120, 10)), rng.uniform(-1.5, 1.5, (200, 10))
    f = lambda x: np.sin(2 * x[:, 0]) * x[:, 1] + x[:, 2] ** 2 - x[:, 3]
    additive, full = fitting.fit(x, f(x), 1e-6, ADDITIVE), fitting.fit(x, f(x), 1e-6, SE)
    error = lambda gp: np.sqrt(np.mean((gp.predict(new)[0] - f(new)) ** 2))
    assert error(additive) < 0.25 * error(full)
    assert additive.score > full.score


def test_an_offset_moves_the_mean_and_nothing_else():
    x, y, rng = data()
    x_new = rng.uniform(-1, 1, (5, 2))
    a, b = fitting.fit(x, y, 1e-6, SE), fitting.fit(x, y - 1e6, 1e-6, SE)
    np.testing.assert_allclose(b.predict(x_new)[0] + 1e6, a.predict(x_new)[0], atol=1e-4)
    np.testing.assert_allclose(b.predict(x_new)[1], a.predict(x_new)[1], rtol=1e-3, atol=1e-7)


def test_repeated_points_and_constant_values_are_survived():
    x, y, _ = data(n=10)
    gp = fitting.fit(np.vstack([x, x]), np.append(y, y), 1e-6, SE)
    assert np.all(np.isfinite(gp.predict(x)[0]))
    flat = fitting.fit(x, np.full(10, -3.0), 1e-6, SE)
    np.testing.assert_allclose(flat.predict(x + 0.3)[0], -3.0, atol=1e-2)
    grown = gp.condition(x[0], y[0], 0.0)
    assert np.all(np.isfinite(grown.predict(x)[0]))


def test_what_is_added_to_the_diagonal_is_reported():
    x, y, _ = data()
    gp = gps.build(x, y, 1e-6, SE, "constant", np.log([5.0, 5.0, 100.0]))
    L = gp.factors.chol
    added = np.diag(L @ L.T) - np.diag(SE.matrix(gp.parameters, x, x))
    np.testing.assert_allclose(added, gp.noise + gp.nugget, rtol=1e-3)


def far_apart():
    """Two groups of points whose distance, in length-scales, leaves no digits for those within a group."""
    x = np.concatenate([np.linspace(-100.0, -99.0, 30), np.linspace(99.0, 100.0, 30)])[:, None]
    return x, np.sin(x[:, 0]), np.array([0.0, 0.0])


def test_jitter_that_rounding_asks_for_is_not_taken_for_noise(monkeypatch):
    x, y, parameters = far_apart()
    gp = gps.build(x, y, 1e-20, SE, "constant", parameters)
    assert np.all(gp.noise == 1e-20)
    added = np.diag(gp.factors.chol @ gp.factors.chol.T) - 1.0
    assert 1e-12 < added.min() < 1e-7
    again = gps.build(x, y, gp.noise, SE, "constant", parameters)  # as from a file
    assert np.array_equal(again.factors.chol, gp.factors.chol)
    np.testing.assert_allclose(gp.predict(x)[0], y, atol=1e-3)
    monkeypatch.setattr(gps, "JITTER", (0.0,))
    with pytest.raises(gps.TbqError, match="cannot be factorised"):
        gps.build(x, y, 1e-20, SE, "constant", parameters)


def test_a_start_that_leads_nowhere_is_left():
    x, y, stuck = far_apart()
    again = fitting.fit(x, y, 1e-20, SE, warm=stuck, cold=False)
    assert again.score == fitting.fit(x, y, 1e-20, SE).score
    assert not np.allclose(again.parameters, stuck)


def test_a_covariance_that_cannot_be_factorised_is_an_error_not_a_loop():
    x, y, _ = data(n=5)
    with pytest.raises(gps.TbqError, match="cannot be factorised"):
        gps.build(x, y, 1e-6, SE, "constant", np.array([np.nan, 0.0, 0.0]))


def test_hyperparameter_draws_surround_the_fit():
    x, y, rng = data(n=30)
    gp = fitting.fit(x, y, 1e-6, SE)
    draws = np.array([g.parameters for g in fitting.hyperparameter_draws(gp, 200, rng)])
    np.testing.assert_allclose(draws.mean(axis=0), gp.parameters, atol=0.2)
    scores = [g.score for g in fitting.hyperparameter_draws(gp, 50, rng)]
    # a normal approximation loses d/2 in log-density on average, with d = 3 hyperparameters
    assert 0.3 < gp.score - np.mean(scores) < 6.0


def test_a_process_conditioned_since_its_fit_has_alternatives_too():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (25, 2))
    gp = fitting.fit(x, 100.0 * np.sin(3 * x[:, 0]) * np.cos(3 * x[:, 1]), 1e-6, SE)
    for point in ([3.0, 3.0], [-3.0, 3.0], [3.0, -3.0]):  # as where runs failed
        z = np.array(point)
        gp = gp.condition(z, float(gp.project(z[None, :]).mean[0]), 1e-6)
    assert len(list(fitting.hyperparameter_draws(gp, 8, np.random.default_rng(1)))) >= 6


@pytest.mark.parametrize("kernel", [SE, MATERN52, ADDITIVE], ids=lambda k: k.name)
def test_a_large_set_is_projected_in_blocks_to_the_same_values(kernel, monkeypatch):
    x, y, rng = data(d=3)
    gp = fitting.fit(x, y, 1e-4, kernel, "quadratic")
    z, other = rng.uniform(-2, 2, (700, 3)), gp.project(rng.uniform(-2, 2, (5, 3)))
    whole = gp.project(z)
    monkeypatch.setattr(gps, "_BLOCK", 300)
    monkeypatch.setattr(gps, "_BLOCK_ELEMENTS", 25 * 64)
    blocks = gp.project(z)
    assert blocks.v.size == 0  # nothing large is kept
    np.testing.assert_allclose(blocks.mean, whole.mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(blocks.variance, whole.variance, rtol=1e-8, atol=1e-10)
    index = np.array([650, 3, 3, 299])
    np.testing.assert_allclose(gp.covariance(blocks.take(index), other), gp.covariance(whole, other)[index], atol=1e-9)
    np.testing.assert_allclose(gp.covariance(blocks, other), gp.covariance(whole, other), atol=1e-9)
    np.testing.assert_allclose(gp.covariance(other, blocks), gp.covariance(other, whole), atol=1e-9)


@pytest.mark.parametrize("kernel", [SE, MATERN52, MATERN52_PRODUCT, ADDITIVE], ids=lambda k: k.name)
def test_the_matrix_between_two_sets_is_the_covariance_of_the_training_points_in_any_block_size(kernel, monkeypatch):
    x, _, rng = data(d=3)
    parameters = rng.normal(0.0, 0.3, len(kernel.hyperprior(3, 1.0).mean))
    upper = np.triu_indices(len(x))
    expected = kernel.matrix(parameters, x, x)
    np.testing.assert_allclose(np.diag(expected), kernel.diagonal(parameters, x), rtol=1e-12)
    for block in (1, 7, 64):
        monkeypatch.setattr(kernels, "_BLOCK", block)
        np.testing.assert_allclose(kernel.gram(x)(parameters)[0][upper], expected[upper], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(kernel.matrix(parameters, x, x[:4]), expected[:, :4], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("basis", ["constant", "quadratic"])
@pytest.mark.parametrize("kernel", [SE, ADDITIVE], ids=lambda k: k.name)
def test_a_process_extended_by_new_points_is_the_one_built_of_all(kernel, basis, monkeypatch):
    x, y, rng = data(d=3)
    noise = rng.uniform(1e-4, 1e-2, len(x))
    parameters = kernel.hyperprior(3, float(np.std(y))).mean
    known = gps.build(x[:20], y[:20], noise[:20], kernel, basis, parameters)
    whole = gps.build(x, y, noise, kernel, basis, parameters)
    monkeypatch.setattr(gps.Problem, "factorise", lambda *_: pytest.fail("factorised anew"))
    longer = gps.build(x, y, noise, kernel, basis, parameters, known=known)
    longer = gps.build(x, y, noise, kernel, basis, parameters, known=longer)  # by none
    z = rng.uniform(-2, 2, (9, 3))
    np.testing.assert_allclose(longer.predict(z), whole.predict(z), rtol=1e-8, atol=1e-8)
    assert longer.score == pytest.approx(whole.score, rel=1e-10)


def test_a_process_that_knows_other_points_noise_or_lengths_is_not_extended():
    x, y, _ = data()
    parameters = np.log([0.7, 1.3, 2.5])
    whole = gps.build(x, y, 1e-4, SE, "constant", parameters)
    for known in (
        gps.build(x[::-1][:10], y[::-1][:10], 1e-4, SE, "constant", parameters),
        gps.build(x[:10], y[:10], 1e-3, SE, "constant", parameters),
        gps.build(x[:10], y[:10], 1e-4, SE, "constant", parameters + 0.1),
        gps.build(x[:10], y[:10], 1e-4, MATERN52, "constant", parameters),
    ):
        gp = gps.build(x, y, 1e-4, SE, "constant", parameters, known=known)
        np.testing.assert_array_equal(gp.factors.chol, whole.factors.chol)


def test_hyperparameters_of_many_points_are_searched_with_a_part_of_them(monkeypatch):
    x, y, _ = data(n=60)
    exact = fitting.fit(x, y, 1e-4, SE)
    monkeypatch.setattr(fitting, "MOST_FITTED", 40)
    monkeypatch.setattr(fitting, "_FIRST_FITTED", 15)
    gp = fitting.fit(x, y, 1e-4, SE)
    assert len(gp.x) == 60
    np.testing.assert_allclose(gp.parameters, exact.parameters, atol=0.7)
    assert gp.score > exact.score - 5.0


def test_many_points_are_projected_like_few():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 3))
    process = gps.build(x, -np.sum(x**2, axis=1), 1e-6, SE, "constant", np.log([1.0, 1.0, 1.0, 1.0]))
    z = rng.uniform(-1, 1, (50_000, 3))
    many, few = process.predict(z), process.predict(z[-500:])
    np.testing.assert_allclose(many[0][-500:], few[0], atol=1e-9)
    np.testing.assert_allclose(many[1][-500:], few[1], atol=1e-9)


def test_a_learned_noise_level_is_that_of_scikit_learn():
    """Without priors both maximise the same marginal likelihood; ours has weak ones, which move little."""
    x, y, rng = data(n=80)
    y = y + 0.5 * rng.standard_normal(len(y))
    start, each = np.log([1.0, 1.0, 5.0]), np.ones(len(y))
    gp, level = fitting.fit_noisy(x, y, np.full(len(y), 1e-6), each, SE, "constant", start, 0.1, cold=True)
    kernel = ConstantKernel((10.0 * gp.scale) ** 2, "fixed") + ConstantKernel(25.0) * RBF([1.0, 1.0]) + WhiteKernel(0.1)
    oracle = GaussianProcessRegressor(kernel, alpha=1e-6, n_restarts_optimizer=3, random_state=0).fit(x, y - gp.offset)
    assert level == pytest.approx(oracle.kernel_.k2.noise_level, rel=0.1)
    assert np.sqrt(level) == pytest.approx(0.5, rel=0.2)
    new = rng.uniform(-1.2, 1.2, (50, 2))
    mean, sd = oracle.predict(new, return_std=True)  # of a further run
    found, variance = gp.predict(new)
    np.testing.assert_allclose(found - gp.offset, mean, atol=0.1)
    np.testing.assert_allclose(np.sqrt(variance + level), sd, rtol=0.1)


def test_noise_of_known_proportions_has_one_level():
    x, y, rng = data(n=120)
    each = np.where(np.arange(len(y)) % 2, 9.0, 1.0)
    noisy = y + 0.3 * np.sqrt(each) * rng.standard_normal(len(y))
    gp, level = fitting.fit_noisy(x, noisy, np.full(len(y), 1e-6), each, SE, "constant", np.zeros(3), 0.01, cold=True)
    assert np.sqrt(level) == pytest.approx(0.3, rel=0.15)
    np.testing.assert_allclose(gp.noise, 1e-6 + level * each)


def test_the_gradient_by_noise_is_that_of_finite_differences():
    x, y, _ = data(n=12)
    each, parameters, step = np.linspace(0.1, 1.0, len(y)), np.log([0.7, 1.3, 2.5]), 1e-6
    problem = gps.Problem.of(x, y, 0.01, MATERN52, "quadratic")
    _, of_parameters, of_noise = problem.with_noise_gradient(parameters, each)
    for i in (0, 5, 11):
        bump = step * np.eye(len(y))[i]
        ends = [problem.with_noise_gradient(parameters, each + sign * bump)[0] for sign in (1.0, -1.0)]
        assert of_noise[i] == pytest.approx((ends[0] - ends[1]) / (2.0 * step), rel=1e-5)
    for i in range(3):
        bump = step * np.eye(3)[i]
        ends = [problem.with_noise_gradient(parameters + sign * bump, each)[0] for sign in (1.0, -1.0)]
        assert of_parameters[i] == pytest.approx((ends[0] - ends[1]) / (2.0 * step), rel=1e-4, abs=1e-6)
