"""Vanilla Bayesian Quadrature: the paper's identities, and integrals with known answers."""

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.baselines.integrate import Posterior
from tbq.baselines.kernel_means import measure_of
from tbq.gp import regression as gps
from tbq.gp.kernels import MATERN52_PRODUCT, SE

SQUARE = tbq.Prior({"a": stats.uniform(0, 1), "b": stats.uniform(0, 1)})
NORMAL = tbq.Prior({"a": stats.norm(), "b": stats.norm()})


def oscillating(theta):
    return np.cos(2 * np.pi * 0.3 + 2 * theta[0] + 3 * theta[1])


def gaussian(theta):
    return np.exp(-4 * ((theta[0] - 0.4) ** 2 + (theta[1] - 0.6) ** 2))


def exponential(theta):
    return np.exp(0.4 * theta[0] - 0.3 * theta[1])


# ∫∫ cos(c + 2x + 3y): second antiderivative −cos/(2·3) at the corners; a product of two one-dimensional Gaussians
_c = 2 * np.pi * 0.3
_side = lambda m: np.sqrt(np.pi) / 2 * (stats.norm.cdf((1 - m) * 8**0.5) - stats.norm.cdf(-m * 8**0.5))
INTEGRALS = {
    "oscillating": (oscillating, SQUARE, (-np.cos(_c + 5) + np.cos(_c + 2) + np.cos(_c + 3) - np.cos(_c)) / 6),
    "gaussian": (gaussian, SQUARE, _side(0.4) * _side(0.6)),
    "exponential": (exponential, NORMAL, np.exp(0.5 * (0.16 + 0.09))),
}


def process(kernel, n=10, prior=SQUARE, seed=0):
    theta = prior.sample(n, seed, "lhs")
    z = prior.to_working(theta)
    values = np.sin(3 * z[:, 0]) + z[:, 1] ** 2
    return gps.build(z, values, 1e-8, kernel, "constant", np.log([0.9, 1.1, 1.5]))


@pytest.mark.parametrize("kernel", [SE, MATERN52_PRODUCT], ids=["se", "matern52"])
def test_the_integral_is_the_mean_of_the_process(kernel):
    gp = process(kernel)
    posterior = Posterior.of(gp, measure_of(SQUARE))
    z = SQUARE.to_working(SQUARE.sample(4096, 0, "sobol"))
    points = gp.project(z)
    assert posterior.mean == pytest.approx(points.mean.mean(), rel=1e-4)
    np.testing.assert_allclose(
        posterior.covariance_with(gp.project(z[:5])),
        gp.covariance(gp.project(z[:5]), points).mean(axis=1),
        atol=1e-4,
    )
    assert posterior.variance == pytest.approx(gp.covariance(points, points).mean(), rel=2e-2)


@pytest.mark.parametrize("kernel", [SE, MATERN52_PRODUCT], ids=["se", "matern52"])
def test_expected_change_of_the_mean_is_the_reduction_of_the_variance(kernel):
    """eq:GainVBQ1 and eq:GainVBQ2, by brute force over the unknown value."""
    gp = process(kernel)
    measure = measure_of(SQUARE)
    before = Posterior.of(gp, measure)
    t, w = np.polynomial.hermite_e.hermegauss(21)
    for z in np.array([[0.1, 0.3], [-1.2, 1.4], [0.8, -0.2]]):
        point = gp.project(z[None, :])
        sd = np.sqrt(point.variance[0] + 1e-8)
        after = [Posterior.of(gp.condition(z, point.mean[0] + sd * ti, 1e-8), measure) for ti in t]
        change = np.sum(w / w.sum() * (np.array([a.mean for a in after]) - before.mean) ** 2)
        gain = before.variance_reduction(point)[0]
        assert gain == pytest.approx(change, rel=1e-5)
        assert gain == pytest.approx(before.variance - after[0].variance, rel=1e-5)


def test_training_points_bring_no_gain():
    gp = process(SE)
    posterior = Posterior.of(gp, measure_of(SQUARE))
    elsewhere = posterior.variance_reduction(gp.project(np.array([[0.5, 0.9]])))[0]
    assert np.all(posterior.variance_reduction(gp.project(gp.x)) < 1e-4 * elsewhere)


@pytest.mark.parametrize("acquisition", ["gmu", "pvc", "abs_pvc"])
@pytest.mark.parametrize("name", INTEGRALS)
def test_smooth_integrals_to_1e_4_with_60_evaluations(name, acquisition):
    f, prior, exact = INTEGRALS[name]
    for seed in range(2):
        integral = tbq.integrate(f, prior, acquisition=acquisition, seed=seed)
        assert integral.n_evaluations <= 60
        assert abs(integral.mean / exact - 1) < 1e-4
        assert len({tuple(row) for row in integral.theta}) == integral.n_evaluations


def test_dependent_priors_work_too():
    rho = 0.5
    prior = tbq.Prior({"a": stats.norm(), "b": stats.norm()}, correlation=[[1, rho], [rho, 1]])
    integral = tbq.integrate(exponential, prior, seed=0, max_evaluations=40)
    exact = np.exp(0.5 * (0.16 + 0.09 - 2 * rho * 0.12))
    assert integral.mean == pytest.approx(exact, rel=2e-3)


def test_the_scale_of_the_function_does_not_matter():
    small = tbq.integrate(lambda t: 1e-12 * gaussian(t), SQUARE, seed=3, max_evaluations=30)
    plain = tbq.integrate(gaussian, SQUARE, seed=3, max_evaluations=30)
    assert small.mean * 1e12 == pytest.approx(plain.mean, rel=1e-4)


def test_a_budget_that_ends_early_says_so():
    integral = tbq.integrate(gaussian, SQUARE, seed=0, max_evaluations=11)
    assert integral.n_evaluations == 11
    assert not integral.converged
    assert "11 evaluations, not converged" in str(integral)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acquisition": "ei"}, "acquisition must be one of gmu, pvc, abs_pvc; got 'ei'"),
        ({"kernel": "rbf"}, "kernel must be"),
        ({"tolerance": -1}, "tolerance must be a positive number; got -1"),
        ({"tolerance": "x"}, "tolerance must be a positive number; got 'x'"),
        ({"n_initial": -3}, "n_initial must be a whole number of at least 1; got -3"),
        ({"max_evaluations": 0}, "max_evaluations must be a whole number of at least 1; got 0"),
        ({"seed": np.random.default_rng(0)}, "seed must be a whole number of at least 0, or None; got Generator"),
        ({"prior": 3}, r"prior must be a tbq\.Prior; got int"),
        ({"f": 3}, "f must be a function of theta; got int"),
        ({"f": lambda t: np.nan}, "one finite number; got array"),
        ({"f": lambda t: "x"}, "one finite number; got str"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(tbq.TbqError, match=message):
        tbq.integrate(**{"f": gaussian, "prior": SQUARE, **options})


def test_one_value_says_nothing_of_the_error():
    integral = tbq.integrate(gaussian, SQUARE, seed=0, max_evaluations=1)
    assert (integral.sd, integral.converged) == (np.inf, False)
    assert integral.mean == pytest.approx(gaussian(integral.theta[0]))
    grown = tbq.integrate(gaussian, SQUARE, seed=0, n_initial=1, max_evaluations=40)
    assert grown.history[0][2] == np.inf
    assert grown.mean == pytest.approx(tbq.integrate(gaussian, SQUARE, seed=0).mean, rel=1e-3)


@pytest.mark.parametrize("value", [0.0, 1e-200])
def test_zero_wherever_it_was_run_is_not_known_to_be_zero_elsewhere(value):
    integral = tbq.integrate(lambda t: value, SQUARE, seed=0, max_evaluations=12)
    assert (integral.mean, integral.sd, integral.converged) == (0.0, np.inf, False)
    assert len({tuple(row) for row in integral.theta}) == 12


def test_what_the_first_runs_did_not_meet_is_looked_for():
    unit = tbq.Prior({"a": stats.uniform(0, 1)})
    integral = tbq.integrate(lambda t: max(t[0] - 0.8, 0.0) ** 3, unit, seed=0, n_initial=2, max_evaluations=30)
    assert np.all(integral.values[:2] == 0.0)
    assert integral.history[0] == (2, 0.0, np.inf)
    assert integral.mean == pytest.approx(0.2**4 / 4, rel=1e-2)


def test_a_constant_and_a_learned_prior():
    constant = tbq.integrate(lambda t: 3.0, SQUARE, seed=0, max_evaluations=12)
    assert constant.converged
    assert abs(constant.mean - 3.0) <= constant.sd < 1e-9
    assert constant.sd >= np.spacing(3.0)  # no sum is known better than it is rounded
    posterior = tbq.infer(lambda t: -0.5 * ((t[0] - 0.3) / 0.1) ** 2, SQUARE, seed=0).as_prior()
    learned = tbq.integrate(lambda t: t[0], posterior, seed=0, max_evaluations=20)
    assert learned.mean == pytest.approx(0.3, abs=0.02)
