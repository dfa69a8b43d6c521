"""Noise with parameters of its own, against scipy's densities, quadrature and sampling."""

import pickle

import numpy as np
import pytest
from scipy import integrate, special, stats

import tbq
from tbq.problem import marginal
from tbq.problem.joint_prior import JointPrior, joint
from tbq.problem.noise_forms import forms

T = np.array([0.0, 0.3, 0.6, 1.1, 1.2, 2.0])
REPEATED = np.array([[1.0, 1.4, np.nan, 0.7, 0.2, -0.4], [1.2, np.nan, 1.1, 0.5, 0.3, -0.1]])
LEVEL, LENGTH = stats.lognorm(0.5, scale=0.3), stats.loguniform(0.2, 4.0)


def model(theta):
    return theta[..., :1] * np.cos(theta[..., 1:2] * T)


def plain(theta):
    return np.asarray(theta, dtype=float)


def likelihood(noise=LEVEL, observed=REPEATED, **arguments):
    return tbq.GaussianLikelihood(model, observed, noise, coordinates=T, **arguments)


THETA = np.array([1.3, 0.9])


def gaussian(covariance, mean, data):
    return float(stats.multivariate_normal(mean, covariance).logpdf(data))


def rows_of(observed):
    """Data one after the other, with the column and the replicate of each: by loops, as the eye reads them."""
    data, column, replicate = [], [], []
    for r, row in enumerate(observed):
        for c, value in enumerate(row):
            if not np.isnan(value):
                data.append(value)
                column.append(c)
                replicate.append(r)
    return np.array(data), np.array(column), np.array(replicate)


DATA, COLUMN, REPLICATE = rows_of(REPEATED)
X = T[COLUMN]
SAME = REPLICATE[:, None] == REPLICATE
DISTANCE = np.abs(X[:, None] - X)
MEAN = model(THETA)[COLUMN]
GROUPS = {"early": slice(0, 3), "late": [3, 4, 5]}
OF = (COLUMN >= 3).astype(int)
APART = OF[:, None] == OF


CASES = {
    "level": ({"noise": LEVEL}, [0.2], lambda s: s**2 * np.eye(10)),
    "groups": (
        {"noise": {"early": LEVEL, "late": 0.4}, "groups": GROUPS},
        [0.2],
        lambda s: np.diag(np.where(OF == 0, s, 0.4) ** 2),
    ),
    "each": (
        {"noise": {"early": [0.1, 0.2, 0.3], "late": LEVEL}, "groups": GROUPS},
        [0.25],
        lambda s: np.diag(np.array([0.1, 0.2, 0.3, s, s, s])[COLUMN] ** 2),
    ),
    "common": ({"noise": LEVEL, "groups": GROUPS}, [0.2], lambda s: s**2 * np.eye(10)),
    "exponential": (
        {"noise": LEVEL, "correlation": tbq.Exponential(LENGTH)},
        [0.2, 0.7],
        lambda s, ell: s**2 * np.exp(-DISTANCE / ell) * SAME,
    ),
    "exponential by group": (
        {
            "noise": {"early": LEVEL, "late": 0.3},
            "groups": GROUPS,
            "correlation": {"late": tbq.Exponential(LENGTH)},
        },
        [0.2, 0.7],
        lambda s, ell: np.where(
            (OF[:, None] == 1) & (OF == 1), 0.09 * np.exp(-DISTANCE / ell) * SAME, s**2 * np.eye(10)
        ) * APART,
    ),
    "smooth": (
        {"noise": LEVEL, "correlation": tbq.SquaredExponential(0.5, white=0.1)},
        [0.2],
        lambda s: s**2 * (0.9 * np.exp(-0.5 * (DISTANCE / 0.5) ** 2) * SAME + 0.1 * np.eye(10)),
    ),
    "smooth of unknown length": (
        {"noise": LEVEL, "correlation": tbq.SquaredExponential(LENGTH, white=0.1)},
        [0.2, 0.61],
        lambda s, ell: s**2 * (0.9 * np.exp(-0.5 * (DISTANCE / ell) ** 2) * SAME + 0.1 * np.eye(10)),
    ),
    "discrepancy": (
        {"noise": LEVEL, "discrepancy": tbq.Discrepancy(stats.halfnorm(scale=0.3), LENGTH)},
        [0.2, 0.4, 0.61],
        lambda s, a, ell: s**2 * np.eye(10) + a**2 * np.exp(-0.5 * (DISTANCE / ell) ** 2),
    ),
    "discrepancy by group": (
        {
            "noise": {"early": LEVEL, "late": 0.3},
            "groups": GROUPS,
            "discrepancy": tbq.Discrepancy(stats.halfnorm(scale=0.3), 0.8),
        },
        [0.2, 0.4],
        lambda s, a: np.diag(np.where(OF == 0, s, 0.3) ** 2)
        + a**2 * np.exp(-0.5 * (DISTANCE / 0.8) ** 2) * APART,
    ),
    "both": (
        {
            "noise": LEVEL,
            "correlation": tbq.Exponential(LENGTH),
            "discrepancy": tbq.Discrepancy(stats.halfnorm(scale=0.3), 0.8),
        },
        [0.2, 0.7, 0.4],
        lambda s, ell, a: s**2 * np.exp(-DISTANCE / ell) * SAME + a**2 * np.exp(-0.5 * (DISTANCE / 0.8) ** 2),
    ),
    "relative": (
        {"noise": 0.1, "relative": stats.loguniform(0.01, 1.0)},
        [0.3],
        lambda share: np.diag(0.1**2 + (share * MEAN) ** 2),
    ),
    "relative and correlated": (
        {"noise": LEVEL, "relative": 0.3, "correlation": tbq.Exponential(0.7)},
        [0.2],
        lambda s: np.exp(-DISTANCE / 0.7)
        * SAME
        * np.sqrt(np.outer(s**2 + (0.3 * MEAN) ** 2, s**2 + (0.3 * MEAN) ** 2)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_noise_is_the_density_that_scipy_has(case):
    arguments, phi, covariance = CASES[case]
    lik = likelihood(**arguments)
    assert lik.noise_prior is not None
    assert lik.noise_prior.dim == len(phi)
    value, outputs = lik.evaluate(THETA, phi)
    np.testing.assert_allclose(outputs, model(THETA))
    tolerance = 2e-5 if "unknown length" in case or case == "discrepancy" else 1e-10  # lengths are interpolated
    assert value == pytest.approx(gaussian(covariance(*phi), MEAN, DATA), rel=tolerance)


@pytest.mark.parametrize("case", [*CASES, "student"])
def test_the_quadratic_form_is_the_density_of_any_components(case):
    if case == "student":
        arguments, phi = {"noise": LEVEL, "freedom": stats.gamma(4.0)}, [0.2, 3.5]
    else:
        arguments, phi, _ = CASES[case]
    noise = likelihood(**arguments).noise_model
    rng = np.random.default_rng(3)
    centre, basis = model(THETA), rng.standard_normal((6, 3))
    table = forms(noise, np.column_stack([noise.data - centre[noise.out], basis[noise.out]]))
    for c in 0.3 * rng.standard_normal((4, 3)):
        best, matrix = table.at(np.array([phi]), c[None, :])
        vector = np.append(1.0, -c)
        by_form = best[0] - 0.5 * vector @ matrix[0] @ vector
        residual = noise.data - (centre + basis @ c)[noise.out]
        alone = forms(noise, residual[:, None]).at(np.array([phi]), np.empty((1, 0)))
        assert by_form == pytest.approx(alone.best[0] - 0.5 * alone.matrix[0, 0, 0], rel=1e-9, abs=1e-9)


def test_student_errors_are_scipys_and_their_quadratic_form_touches_from_below():
    lik = likelihood(noise=LEVEL, freedom=stats.gamma(4.0))
    assert lik.noise_prior.names == ("noise", "freedom")
    phi = np.array([0.2, 3.5])
    expected = stats.t(3.5, MEAN, 0.2).logpdf(DATA).sum()
    assert lik.evaluate(THETA, phi)[0] == pytest.approx(expected, rel=1e-12)
    noise, basis = lik.noise_model, np.eye(6)
    table = forms(noise, np.column_stack([noise.data - model(THETA)[noise.out], basis[noise.out]]))
    best, matrix = table.at(phi[None, :], np.zeros((1, 6)))
    rng = np.random.default_rng(0)
    for c in rng.standard_normal((50, 6)):
        vector = np.append(1.0, -c)
        exact = stats.t(3.5, (model(THETA) + c)[COLUMN], 0.2).logpdf(DATA).sum()
        assert best[0] - 0.5 * vector @ matrix[0] @ vector <= exact + 1e-9


def test_lengths_between_those_of_the_grid_are_right_all_over_their_prior():
    lik = likelihood(noise=0.02, discrepancy=tbq.Discrepancy(0.5, LENGTH))
    for ell in LENGTH.ppf(np.linspace(0.001, 0.999, 23)):
        covariance = 0.02**2 * np.eye(10) + 0.25 * np.exp(-0.5 * (DISTANCE / ell) ** 2)
        assert lik.evaluate(THETA, [ell])[0] == pytest.approx(gaussian(covariance, MEAN, DATA), rel=1e-4)


def test_a_known_covariance_goes_with_gaps_and_replicates():
    covariance = 0.04 * (0.5 * np.eye(6) + 0.5)
    lik = likelihood(noise=covariance)
    full = covariance[np.ix_(COLUMN, COLUMN)] * SAME
    assert lik.noise_prior is None
    assert lik(THETA) == pytest.approx(gaussian(full, MEAN, DATA), rel=1e-12)
    np.testing.assert_allclose(lik.observed, np.nanmean(REPEATED, axis=0))


# --- integrals over the noise -------------------------------------------------------------------------------


def test_the_likelihood_of_a_run_is_integrated_over_one_noise_as_by_quadrature():
    lik = likelihood(noise=stats.loguniform(0.01, 2.0))
    for theta in (THETA, np.array([0.9, 0.9]), np.array([3.0, 2.0])):
        mean = model(theta)[COLUMN]

        def density(log_s, mean=mean):
            squares = np.sum((DATA - mean) ** 2)
            return np.exp(-0.5 * squares * np.exp(-2.0 * log_s) - 10 * (log_s + 0.5 * np.log(2.0 * np.pi))) / np.log(
                200.0
            )

        exact = np.log(integrate.quad(density, np.log(0.01), np.log(2.0), epsabs=0.0, limit=400)[0])
        assert lik(theta) == pytest.approx(exact, abs=3e-3)


@pytest.mark.parametrize("case", ["exponential", "relative and two", "discrepancy"])
def test_the_likelihood_of_a_run_is_integrated_over_several_parameters_as_by_a_grid(case):
    level, length = stats.loguniform(0.02, 2.0), stats.loguniform(0.2, 4.0)
    s, ell = np.exp(np.linspace(np.log(0.02), np.log(2.0), 321)), np.exp(np.linspace(np.log(0.2), np.log(4.0), 81))
    if case == "exponential":
        lik = likelihood(noise=level, correlation=tbq.Exponential(length))
        grid = np.stack(np.meshgrid(s, ell, indexing="ij"), axis=-1)
    elif case == "relative and two":
        ell = np.exp(np.linspace(np.log(0.01), 0.0, 241))
        lik = likelihood(noise=level, relative=stats.loguniform(0.01, 1.0))
        grid = np.stack(np.meshgrid(s, ell, indexing="ij"), axis=-1)
    else:
        ell = np.exp(np.linspace(np.log(0.02), np.log(2.0), 121))
        lik = likelihood(noise=level, discrepancy=tbq.Discrepancy(stats.loguniform(0.02, 2.0), 0.5))
        grid = np.stack(np.meshgrid(s, ell, indexing="ij"), axis=-1)
    flat = grid.reshape(-1, 2)
    values = marginal.likelihood_of(lik.noise_model, model(THETA))(flat).reshape(grid.shape[:2])
    exact = np.log(
        np.trapezoid(np.trapezoid(np.exp(values - values.max()), dx=1 / (len(ell) - 1)), dx=1 / (len(s) - 1))
    )
    assert lik(THETA) == pytest.approx(exact + values.max(), abs=5e-3)


def test_what_the_integrated_likelihood_errs_by_is_the_same_for_neighbouring_outputs():
    lik = likelihood(noise={"early": LEVEL, "late": LEVEL}, groups=GROUPS)

    def exact(mean, group):
        data, mean = DATA[group == OF], mean[group == OF]

        def density(x):
            return np.exp(stats.norm(mean, np.exp(x)).logpdf(data).sum() + x) * LEVEL.pdf(np.exp(x))

        return np.log(integrate.quad(density, -6.0, 4.0, epsabs=0.0, limit=200)[0])

    off = []
    for a in (1.2, 1.22, 1.24):
        mean = model(np.array([a, 0.9]))[COLUMN]
        off.append(lik(np.array([a, 0.9])) - exact(mean, 0) - exact(mean, 1))
    assert np.max(np.abs(off)) < 2e-3
    assert np.ptp(off) < 2e-4


def test_a_rule_over_the_noise_integrates_densities_to_one():
    prior = likelihood(noise=LEVEL, correlation=tbq.Exponential(LENGTH)).noise_prior
    bell = marginal.Bell(np.array([0.3, -0.2]), np.diag([0.4, 0.3]))  # in normal scores
    phi, log_weights = marginal.rule([bell, marginal.Bell(np.zeros(2), np.eye(2))], prior, 4096)
    assert special.logsumexp(log_weights) == pytest.approx(0.0, abs=0.02)
    assert np.exp(log_weights) @ phi[:, 0] == pytest.approx(LEVEL.mean(), rel=0.02)


# --- what would be measured ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["groups", "exponential", "smooth", "relative and correlated"])
def test_draws_of_the_noise_have_its_covariance(case):
    arguments, phi, _ = CASES[case]
    lik, rng = likelihood(**arguments), np.random.default_rng(0)
    once = lik.noise_model.future
    outputs = np.tile(model(THETA), (40_000, 1))
    rows = np.tile([*THETA, *phi], (40_000, 1))
    draws = lik.noise(rows, rng, outputs)
    expected = np.zeros((6, 6))
    for block in once:
        covariance = block.noise_covariance(np.array([phi]), outputs[:1, block.rows])[0]
        expected[np.ix_(block.rows, block.rows)] = covariance
    if case == "exponential":
        np.testing.assert_allclose(expected, 0.04 * np.exp(-np.abs(T[:, None] - T) / 0.7), rtol=1e-12)
    np.testing.assert_allclose(np.cov(draws.T), expected, atol=5.0 * expected.max() / np.sqrt(20_000))
    np.testing.assert_allclose(lik.noise_scales(rows[:1], outputs[:1])[0], np.sqrt(np.diag(expected)), rtol=1e-12)


def test_the_discrepancy_given_the_data_is_the_conditional_of_a_joint_normal():
    arguments, phi, covariance = CASES["discrepancy"]
    noise = likelihood(**arguments).noise_model
    amplitude, length = phi[1:]
    everywhere = np.concatenate([T, X])
    kernel = amplitude**2 * np.exp(-0.5 * ((everywhere[:, None] - everywhere) / length) ** 2)
    total = kernel.copy()
    total[6:, 6:] = covariance(*phi)
    gain = total[:6, 6:] @ np.linalg.inv(total[6:, 6:])
    outputs, rows = np.tile(model(THETA), (4_000, 1)), np.tile(phi, (4_000, 1))
    mean = noise.discrepancy(rows[:1], outputs[:1])[0]
    np.testing.assert_allclose(mean, gain @ (DATA - MEAN), rtol=1e-8)
    draws = noise.discrepancy(rows, outputs, np.random.default_rng(1))
    left = total[:6, :6] - gain @ total[6:, :6]
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5.0 * np.sqrt(left.max() / 4_000))
    np.testing.assert_allclose(np.cov(draws.T), left, atol=6.0 * left.max() / np.sqrt(4_000))


# --- the likelihood as a whole ------------------------------------------------------------------------------


def test_names_of_noise_parameters_say_what_they_are():
    lik = likelihood(
        noise={"early": LEVEL, "late": 0.2},
        groups=GROUPS,
        relative={"late": stats.loguniform(0.01, 1.0)},
        correlation={"early": tbq.Exponential(LENGTH)},
        discrepancy=tbq.Discrepancy(stats.halfnorm(scale=0.1), LENGTH),
    )
    names = ("noise.early", "relative.late", "correlation.early.length", "discrepancy.amplitude", "discrepancy.length")
    assert lik.noise_prior.names == names
    assert repr(lik) == f"GaussianLikelihood(10 data, {', '.join(names)})"


def test_experiments_with_the_same_model_share_its_run_and_keep_their_noise():
    calls = []

    def counted(theta):
        calls.append(theta)
        return model(theta)

    first = tbq.GaussianLikelihood(counted, REPEATED[0], LEVEL)
    second = tbq.GaussianLikelihood(counted, REPEATED[1], LEVEL)
    third = tbq.GaussianLikelihood(counted, model(THETA), 0.5)
    both = first + second + third
    assert both.noise_prior.names == ("noise (1)", "noise (2)")
    value, outputs = both.evaluate(THETA, [0.2, 0.3])
    assert len(calls) == 1
    assert outputs.shape == (18,)
    expected = stats.norm(MEAN, np.where(REPLICATE == 0, 0.2, 0.3)).logpdf(DATA).sum() + 6 * stats.norm(0, 0.5).logpdf(
        0
    )
    assert value == pytest.approx(expected, rel=1e-12)
    assert both(THETA) == pytest.approx(first(THETA) + second(THETA) + third(THETA), abs=5e-3)


def test_the_method_of_a_simulator_is_one_model_however_often_it_is_written():
    class Simulator:
        runs = 0

        def run(self, theta):
            self.runs += 1
            return theta[0] * np.arange(1.0, 4.0)

    simulator = Simulator()
    assert simulator.run is not simulator.run
    first = tbq.GaussianLikelihood(simulator.run, [1.0, 2.1, 2.9], stats.loguniform(0.01, 1.0))
    both = first + tbq.GaussianLikelihood(simulator.run, [1.1, 1.9, 3.0], 0.1)
    both(np.array([1.0]))
    assert simulator.runs == 1


def test_an_index_says_which_output_each_datum_measures():
    lik = tbq.GaussianLikelihood(model, [0.5, 0.6, -0.2], LEVEL, index=[3, 3, 5], coordinates=[1.1, 1.1, 2.0])
    value, outputs = lik.evaluate(THETA, [0.2])
    np.testing.assert_allclose(outputs, model(THETA)[[3, 5]])
    assert value == pytest.approx(stats.norm(model(THETA)[[3, 3, 5]], 0.2).logpdf([0.5, 0.6, -0.2]).sum(), rel=1e-12)
    np.testing.assert_allclose(lik.observed, [0.55, -0.2])
    rows = model(np.tile(THETA, (4, 1)))
    np.testing.assert_allclose(lik.evaluate(np.tile(THETA, (4, 1)), [0.2])[1], rows[:, [3, 5]])
    with pytest.raises(tbq.TbqError, match="more than 9"):
        tbq.GaussianLikelihood(model, [0.5], LEVEL, index=[9]).evaluate(THETA)


def test_outputs_that_nobody_measured_may_be_missing_and_others_may_not():
    gap = np.where(np.arange(6) == 2, np.nan, REPEATED[1])
    lik = tbq.GaussianLikelihood(lambda theta: theta, gap, LEVEL)
    outputs = np.where(np.arange(6) == 2, np.nan, 0.3)
    assert np.isfinite(lik.from_outputs(np.zeros(1), outputs))
    outputs[0] = np.nan
    assert np.isnan(lik.from_outputs(np.zeros(1), outputs))


def test_it_can_be_pickled_with_its_noise():
    lik = likelihood(noise=LEVEL, discrepancy=tbq.Discrepancy(stats.halfnorm(scale=0.3), LENGTH))
    assert pickle.loads(pickle.dumps(lik))(THETA) == lik(THETA)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise": {"a": 0.1}}, "noise must be by the names of the groups, none; give groups; got 'a'"),
        ({"noise": {"early": 0.1}, "groups": GROUPS}, "noise must be by the names of the groups, 'early', 'late'"),
        ({"noise": 0.1, "groups": {"a": slice(0, 4)}}, "groups must have each datum once; got datum 4 in none"),
        ({"noise": 0.1, "groups": {"a": slice(0, 4), "b": slice(3, 6)}}, "each datum once; got datum 3 in 2"),
        ({"noise": 0.1, "groups": {"a": [77]}}, "groups: 'a' must be a slice, indices or a mask of 6 data"),
        ({"noise": stats.norm(0, 1)}, "the prior of noise must be of positive numbers; got one from -inf on"),
        ({"noise": -0.1, "relative": 0.1}, "noise must be positive; got -0.1"),
        ({"noise": 0.1, "relative": 0.0}, "relative must be a positive number or its prior"),
        ({"noise": 0.1, "correlation": 0.3}, "correlation must be tbq.Exponential"),
        ({"noise": 0.1, "correlation": tbq.SquaredExponential(1.0, white=0.0)}, "white must lie between 0 and 1"),
        ({"noise": 0.1, "discrepancy": 0.3}, "discrepancy must be tbq.Discrepancy"),
        ({"noise": 0.1, "freedom": 4.0, "correlation": tbq.Exponential(1.0)}, "freedom does not go with a correlation"),
        ({"noise": np.eye(6), "correlation": tbq.Exponential(1.0)}, "a covariance has its own correlation"),
        ({"noise": LEVEL, "normalized": False}, "scale and normalized=False do not go with"),
        ({"noise": LEVEL, "index": [0, 1]}, "index must be 6 whole numbers"),
        ({"noise": 0.1, "observed": np.full(6, np.nan)}, "observed must have a number; got nan alone"),
        ({"noise": 0.1, "observed": np.full(6, np.inf)}, "observed must be finite, or nan"),
    ],
)
def test_what_is_wrong_is_said(arguments, message):
    with pytest.raises(tbq.TbqError, match=message):
        likelihood(**arguments)


def test_correlated_residuals_need_places_that_differ():
    with pytest.raises(tbq.TbqError, match="coordinates are needed where there is a correlation; got none"):
        tbq.GaussianLikelihood(model, REPEATED, LEVEL, correlation=tbq.Exponential(1.0))
    with pytest.raises(
        tbq.TbqError, match="coordinates must differ within a group of correlated residuals; got 1 twice"
    ):
        tbq.GaussianLikelihood(model, [0.1, 0.2], LEVEL, coordinates=[1.0, 1.0], correlation=tbq.Exponential(1.0))
    with pytest.raises(tbq.TbqError, match="scale does not go with noise that has parameters"):
        likelihood() + tbq.GaussianLikelihood(model, model(THETA), 1.0, scale=lambda theta: theta[0])


# --- the prior of all parameters ----------------------------------------------------------------------------


def test_the_joint_prior_is_the_product_of_both():
    noise = tbq.Prior({"noise": LEVEL, "length": LENGTH})
    for simulated in (
        tbq.Prior({"a": stats.norm(1, 2), "b": stats.uniform(0, 1)}),
        tbq.Prior({"a": stats.norm(1, 2), "b": stats.uniform(0, 1)}, correlation=[[1.0, 0.6], [0.6, 1.0]]),
        tbq.Prior({"a": stats.norm(1, 2), "b": stats.uniform(0, 1)}, constraint=lambda t: t[0] > t[1]),
    ):
        prior = joint(simulated, noise)
        assert isinstance(prior, JointPrior)
        assert prior.names == ("a", "b", "noise", "length")
        assert prior.simulated is simulated
        for method in ("sobol", "lhs", "random"):
            theta = prior.sample(4096, 0, method)
            assert stats.kstest(theta[:, 2], LEVEL.cdf).pvalue > 1e-3
            expected = simulated.log_density(theta[:, :2]) + noise.log_density(theta[:, 2:])
            np.testing.assert_allclose(prior.log_density(theta), expected, rtol=1e-12)
            assert abs(stats.spearmanr(theta[:, 0], theta[:, 2]).statistic) < 0.06
            assert np.corrcoef(theta.T)[0, 1] == pytest.approx(np.corrcoef(simulated.sample(4096, 1).T)[0, 1], abs=0.06)
        z = prior.to_working(theta)
        np.testing.assert_allclose(prior.from_working(z), theta, rtol=1e-9)
        low, high = prior.working_bounds
        assert np.all((z >= low) & (z <= high))
    assert joint(simulated, None) is simulated
    with pytest.raises(tbq.TbqError, match="'a' is the name of a noise parameter of the likelihood too"):
        joint(simulated, tbq.Prior({"a": LEVEL}))
