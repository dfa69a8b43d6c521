import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

import tbq
from tbq.problem import prior as prior_module
from tbq.problem.coordinates import choose_axis

MARGINALS = {
    "uniform": stats.uniform(0.1, 0.9),
    "normal": stats.norm(3.0, 0.5),
    "lognormal": stats.lognorm(0.5, scale=2.0),
    "cauchy": stats.cauchy(1.0, 2.0),
    "gamma": stats.gamma(2.0),
    "reversed": stats.weibull_max(0.7),
    "loguniform": stats.loguniform(1e-3, 1e3),
    "beta": stats.beta(0.5, 0.5),
}


@pytest.mark.parametrize("name", MARGINALS)
def test_working_coordinates_round_trip_and_carry_the_density(name):
    marginal = MARGINALS[name]
    prior = tbq.Prior({"x": marginal})
    theta = prior.sample(200, seed=1)
    z = prior.to_working(theta)
    np.testing.assert_allclose(prior.from_working(z), theta, rtol=1e-9)
    h = 1e-6  # dθ/dz by differences against the analytic slope
    slope = (prior.from_working(z + h) - prior.from_working(z - h))[:, 0] / (2 * h)
    expected = marginal.logpdf(theta[:, 0]) + np.log(slope)
    np.testing.assert_allclose(prior.log_density_working(z), expected, rtol=1e-5, atol=1e-5)


def test_coordinates_are_logarithmic_exactly_where_tails_are_long():
    kinds = {name: choose_axis(m).kind for name, m in MARGINALS.items()}
    assert kinds == {
        "uniform": "linear",
        "normal": "linear",
        "lognormal": "log",
        "cauchy": "asinh",
        "gamma": "linear",
        "reversed": "log_reversed",
        "loguniform": "log",
        "beta": "linear",
    }


def test_a_lognormal_is_standard_normal_in_working_coordinates():
    prior = tbq.Prior({"k": stats.lognorm(0.63, scale=np.exp(0.17))})
    z = np.linspace(-3, 3, 7)[:, None]
    np.testing.assert_allclose(prior.log_density_working(z), stats.norm.logpdf(z[:, 0]), rtol=1e-10)


def test_independent_log_density_is_the_sum_of_the_marginals():
    prior = tbq.Prior({k: MARGINALS[k] for k in ("uniform", "normal", "gamma")})
    theta = prior.sample(50, seed=0)
    expected = sum(m.logpdf(theta[:, i]) for i, m in enumerate(prior.marginals.values()))
    np.testing.assert_allclose(prior.log_density(theta), expected)
    assert prior.log_density(theta[0]) == pytest.approx(expected[0])
    assert prior.log_density([2.0, 3.0, 1.0]) == -np.inf


def test_normal_copula_with_normal_marginals_is_the_multivariate_normal():
    R = np.array([[1.0, 0.6, -0.2], [0.6, 1.0, 0.1], [-0.2, 0.1, 1.0]])
    sd, mean = np.array([0.5, 2.0, 1.0]), np.array([1.0, -1.0, 0.0])
    prior = tbq.Prior([(f"x{i}", stats.norm(mean[i], sd[i])) for i in range(3)], correlation=R)
    np.testing.assert_allclose(prior.copula, R, atol=1e-9)
    theta = prior.sample(100, seed=3)
    exact = stats.multivariate_normal(mean, R * np.outer(sd, sd)).logpdf(theta)
    np.testing.assert_allclose(prior.log_density(theta), exact, rtol=1e-9)


def test_nataf_gives_the_parameters_the_wanted_correlation():
    # Closed forms: lognormals r0 = log(1 + r v1 v2) / (s1 s2); uniforms r0 = 2 sin(pi r / 6).
    s1, s2, r = 0.8, 0.5, 0.6
    R = np.array([[1.0, r], [r, 1.0]])
    lognormals = tbq.Prior({"a": stats.lognorm(s1), "b": stats.lognorm(s2)}, correlation=R)
    exact = np.log1p(r * np.sqrt(np.expm1(s1**2) * np.expm1(s2**2))) / (s1 * s2)
    assert lognormals.copula[0, 1] == pytest.approx(exact, abs=1e-6)
    uniforms = tbq.Prior({"a": stats.uniform(0, 1), "b": stats.uniform(-2, 5)}, correlation=R)
    assert uniforms.copula[0, 1] == pytest.approx(2 * np.sin(np.pi * r / 6), abs=1e-4)
    assert np.corrcoef(uniforms.sample(40_000, seed=0).T)[0, 1] == pytest.approx(r, abs=0.01)


def test_copula_density_integrates_to_one():
    prior = tbq.Prior({"a": stats.uniform(0, 2), "b": stats.lognorm(0.5)}, correlation=[[1.0, 0.7], [0.7, 1.0]])
    total, _ = integrate.dblquad(lambda y, x: np.exp(prior.log_density([x, y])), 0, 2, 0, 30, epsabs=1e-4)
    assert total == pytest.approx(1.0, abs=2e-3)


def test_constraint_renormalises_density_and_samples():
    prior = tbq.Prior(
        {"a": stats.uniform(0, 1), "b": stats.uniform(0, 1)}, constraint=lambda theta: theta[0] < theta[1]
    )
    assert prior.constraint_mass == pytest.approx(0.5, abs=1e-3)
    assert np.exp(prior.log_density([0.2, 0.6])) == pytest.approx(2.0, rel=2e-3)
    assert prior.log_density([0.6, 0.2]) == -np.inf
    for method in ("random", "lhs", "sobol"):
        theta = prior.sample(3000, seed=0, method=method)
        assert theta.shape == (3000, 2)
        assert np.all(theta[:, 0] < theta[:, 1])
        np.testing.assert_allclose(theta.mean(axis=0), [1 / 3, 2 / 3], atol=0.02)


@pytest.mark.parametrize("method", ["random", "lhs", "sobol"])
def test_samples_repeat_with_a_seed_and_have_the_right_moments(method):
    prior = tbq.Prior({"a": stats.norm(2.0, 3.0), "b": stats.uniform(0, 1)})
    a, b = prior.sample(1000, seed=5, method=method), prior.sample(1000, seed=5, method=method)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(a.mean(axis=0), [2.0, 0.5], atol=0.3)
    assert not np.array_equal(a, prior.sample(1000, seed=6, method=method))


def test_latin_hypercube_has_one_point_in_every_stratum():
    u = tbq.Prior({"a": stats.uniform(0, 1), "b": stats.uniform(0, 1)}).sample(64, seed=0, method="lhs")
    for column in u.T:
        assert sorted(np.floor(column * 64).astype(int)) == list(range(64))


@pytest.mark.parametrize("n", [6, 9])
def test_small_latin_hypercubes_leave_no_quarter_empty(n):
    for seed in range(30):
        u = tbq.Prior({"a": stats.uniform(0, 1), "b": stats.uniform(0, 1)}).sample(n, seed=seed, method="lhs")
        gaps = np.diff(np.sort(u, axis=0), axis=0, prepend=0.0, append=1.0)
        assert gaps.max() <= 0.25
        np.testing.assert_array_equal(np.sort(np.floor(n * u), axis=0), np.tile(np.arange(n)[:, None], 2))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 40), st.sampled_from(["random", "lhs", "sobol"]))
def test_any_sample_size_works(n, method):
    theta = tbq.Prior({"a": stats.cauchy()}).sample(n, seed=0, method=method)
    assert theta.shape == (n, 1)
    assert np.all(np.isfinite(theta))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"k1": 0.3},), r"'k1' must be a scipy.stats frozen distribution .* got float 0.3"),
        (({"k1": stats.norm},), r"'k1' must be .* freeze it"),
        (({"k1": stats.poisson(3)},), r"'k1' must be continuous; got the discrete distribution poisson\(3\)"),
        (({"k1": stats.uniform(0, 0)},), r"'k1' is degenerate"),
        (({"k1": stats.norm(0, -1)},), r"'k1' is degenerate"),
        (({},), r"at least one parameter"),
        (([("a", stats.norm()), ("a", stats.norm())],), r"'a' is used 2 times"),
        (([("", stats.norm())],), r"name must be text on one line"),
        (([(" ", stats.norm())],), r"name must be text on one line, without control characters; got ' '"),
        (([("a\nb", stats.norm())],), r"name must be text on one line, .*; got 'a\\nb'"),
        (([("\x1b[2J", stats.norm())],), r"name must be text on one line, .*; got '\\x1b\[2J'"),
        (([("a\u202eb", stats.norm())],), r"name must be text on one line"),
        ((None,), r"marginals must give each parameter a name, .*; got NoneType"),
        (([stats.norm()],), r"marginals must give each parameter a name, .*; got list"),
        (("abc",), r"marginals must give each parameter a name, .*; got str"),
        (
            ({"k1": stats.norm([0, 1], 1)},),
            r"'k1' must be the distribution of one parameter, .*; got norm of \[0, 1\], 1",
        ),
        (({"k1": stats.norm(loc="x")},), r"'k1' must be the distribution of one parameter, .*; got norm of 'x'"),
    ],
)
def test_wrong_marginals_are_named(arguments, message):
    with pytest.raises(tbq.TbqError, match=message):
        tbq.Prior(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"correlation": [[1.0, 1.2], [1.2, 1.0]]}, "not positive definite"),
        ({"correlation": [[1.0, 0.5], [0.4, 1.0]]}, "symmetric"),
        ({"correlation": "x"}, "correlation must be a 2 × 2 matrix; got 'x'"),
        ({"correlation": [[1.0], [0.4, 1.0]]}, "correlation must be a 2 × 2 matrix; got"),
        ({"correlation": np.eye(3)}, r"2 × 2 matrix; got shape \(3, 3\)"),
        ({"constraint": lambda theta: theta[0] > 2}, "region is empty"),
        ({"constraint": lambda theta: theta[5] > 2}, "constraint failed with IndexError"),
        ({"constraint": 3}, "constraint must be a function"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(tbq.TbqError, match=message):
        tbq.Prior({"a": stats.uniform(0, 1), "b": stats.uniform(0, 1)}, **options)


def test_unattainable_correlations_are_refused():
    heavy = {"a": stats.lognorm(2.0), "b": stats.lognorm(2.0)}
    with pytest.raises(tbq.TbqError, match=r"-0.9 between 'a' and 'b' cannot be had"):
        tbq.Prior(heavy, correlation=[[1.0, -0.9], [-0.9, 1.0]])
    with pytest.raises(tbq.TbqError, match="infinite variance"):
        tbq.Prior({"a": stats.cauchy(), "b": stats.norm()}, correlation=[[1.0, 0.1], [0.1, 1.0]])


def test_wrong_theta_shape_is_named():
    with pytest.raises(tbq.TbqError, match=r"shape \(1,\) or \(n, 1\); got \(3,\)"):
        tbq.Prior({"a": stats.norm()}).log_density([1.0, 2.0, 3.0])
    with pytest.raises(tbq.TbqError, match=r"Prior\.log_density: theta must be numbers; got 'x'"):
        tbq.Prior({"a": stats.norm()}).log_density("x")


def test_wrong_arguments_of_sample_are_named():
    prior = tbq.Prior({"a": stats.norm()})
    for n in (-1, 2.5, "x", None):
        with pytest.raises(tbq.TbqError, match=f"n must be a whole number of at least 0; got {n!r}"):
            prior.sample(n)
    with pytest.raises(tbq.TbqError, match=r"seed must be .* a numpy\.random\.Generator or None; got 'x'"):
        prior.sample(3, seed="x")
    assert prior.sample(2.0, seed=np.random.default_rng(0)).shape == (2, 1)


def test_a_constraint_that_hardly_ever_holds_says_what_to_do():
    box = {"a": stats.uniform(0, 1), "b": stats.uniform(10, 1)}
    with pytest.raises(tbq.TbqError) as caught:  # on 0.01 % of the prior
        tbq.Prior(box, constraint=lambda theta: 0.5 < theta[0] < 0.51 and 10.5 < theta[1] < 10.51)
    found = re.fullmatch(
        r"Prior: constraint holds at (\d+) of 65536 points of the prior: too few to draw from. Tighten the marginals "
        r"to where it holds, as far as it was seen: a from 0\.50\d* to 0\.50\d*, b from 10\.5\d* to 10\.51?; or choose "
        r"parameters by which it always holds, such as differences in the place of an order",
        str(caught.value),
    )
    assert found
    assert 1 <= int(found[1]) < 20


def test_a_constraint_that_seldom_holds_is_drawn_from_in_bounded_blocks(monkeypatch):
    most = []
    uniform = prior_module._uniform
    monkeypatch.setattr(prior_module, "_AT_ONCE", 2**14)
    monkeypatch.setattr(prior_module, "_uniform", lambda n, *rest: most.append(n) or uniform(n, *rest))
    prior = tbq.Prior({"a": stats.uniform(0, 1)}, constraint=lambda theta: 0.5 < theta[0] < 0.502)
    draws = prior.sample(150, seed=0, method="lhs")
    assert draws.shape == (150, 1)
    assert max(most[1:]) == 2**14  # of the 75,000 points that it takes
    assert stats.kstest(draws[:, 0], stats.uniform(0.5, 0.002).cdf).pvalue > 0.01


@pytest.mark.parametrize(
    ("marginal", "message"),
    [
        (stats.pareto(0.01), "has tails beyond all floating-point numbers: .* begin at 1 and inf; use its logarithm"),
        (stats.uniform(1e16, 100), r"so narrow for its size that .*: uniform\(1e\+16, 100\); use what it differs by"),
        (stats.norm(1e8, 1e-6), "so narrow for its size"),
    ],
)
def test_marginals_that_floats_cannot_hold_are_refused(marginal, message):
    with pytest.raises(tbq.TbqError, match=message):
        tbq.Prior({"a": marginal})
    for fine in (stats.uniform(1e8, 1.0), stats.norm(1e160, 1e155), stats.lognorm(50.0), stats.cauchy()):
        tbq.Prior({"a": fine})


def test_small_constraint_regions_do_not_blow_up():
    prior = tbq.Prior(
        {name: stats.uniform(0, 1) for name in "abcde"}, constraint=lambda theta: bool(np.all(np.diff(theta) > 0))
    )
    assert prior.constraint_mass == pytest.approx(1 / 120, rel=0.1)
    assert prior.sample(12, seed=0, method="lhs").shape == (12, 5)
    assert 0.03 < prior.constraint_mass_error < 0.06


def equicorrelated(marginal, rho, d=3):
    correlation = np.full((d, d), rho) + (1.0 - rho) * np.eye(d)
    return tbq.Prior({f"x{i}": marginal for i in range(d)}, correlation=correlation)


@pytest.mark.parametrize("name", ["normal", "lognormal", "uniform"])
def test_strong_correlations_are_whitened_in_working_coordinates(name):
    prior = equicorrelated(MARGINALS[name], 0.999)
    theta = prior.sample(4096, seed=3)
    z = prior.to_working(theta)
    np.testing.assert_allclose(prior.from_working(z), theta, rtol=1e-9)
    covariance = np.cov(z.T)
    assert np.linalg.cond(covariance) < 2.5  # that of the parameters: 3000
    low, high = prior.working_bounds
    assert np.all((z > low) & (z < high))


def test_whitened_normals_are_standard_normal_whatever_their_correlation():
    prior = equicorrelated(stats.norm(3.0, 0.5), 0.9999)
    z = np.random.default_rng(0).normal(size=(50, 3))
    np.testing.assert_allclose(prior.log_density_working(z), stats.norm.logpdf(z).sum(axis=1), rtol=1e-7)


def test_the_density_in_whitened_coordinates_is_that_of_single_ones_times_the_jacobian():
    prior = equicorrelated(stats.uniform(0.0, 1.0), 0.99)
    theta = prior.sample(50, seed=4)
    z, h = prior.to_working(theta), 1e-6
    slopes = [
        [(prior.from_working(row + h * e) - prior.from_working(row - h * e)) / (2 * h) for e in np.eye(3)]
        for row in z[:, None]
    ]
    jacobian = np.linalg.slogdet(np.array(slopes)[:, :, 0, :])[1]
    np.testing.assert_allclose(prior.log_density_working(z), prior.log_density(theta) + jacobian, rtol=1e-6)


def test_weak_correlations_and_single_coordinates_are_as_without_a_copula():
    independent = tbq.Prior({f"x{i}": stats.lognorm(0.5) for i in range(3)})
    theta = independent.sample(20, seed=5)
    for prior in (equicorrelated(stats.lognorm(0.5), 0.5), equicorrelated(stats.lognorm(0.5), 0.99).unmixed):
        np.testing.assert_array_equal(prior.to_working(theta), independent.to_working(theta))
        np.testing.assert_array_equal(prior.working_bounds, independent.working_bounds)
