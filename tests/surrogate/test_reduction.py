"""What is modelled of a simulator's outputs: reduction, logarithms, missing values."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.engine import output_checks
from tbq.evidence.population import Population
from tbq.gp import fitting
from tbq.gp import regression as gps
from tbq.gp.batch import build
from tbq.gp.common import Common
from tbq.gp.kernels import MATERN52
from tbq.gp.paths import draws_of
from tbq.gp.values import values_of
from tbq.problem.joint_prior import joint
from tbq.problem.settings import resolve
from tbq.problem.tuning import Tuning
from tbq.result.stored_surrogates import Context, describe, rebuilt
from tbq.surrogate import noisy_reduction, reduction
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.outputs import Outputs

TUNING = Tuning()
SETTINGS = resolve(2, outputs=True, tuning=TUNING)
RNG = np.random.default_rng
PRIOR = tbq.Prior({"a": stats.uniform(0, 1), "b": stats.uniform(0, 1)})
TIMES = np.linspace(0.0, 1.0, 60)


def curve(theta):
    """Sixty outputs of rank three."""
    a, b = theta[..., :1], theta[..., 1:2]
    return a * TIMES + b * np.sin(4.0 * TIMES) + a * b * TIMES**2


def runs(n=14, seed=0):
    theta = PRIOR.sample(n, seed, "lhs")
    return theta, PRIOR.to_working(theta)


def fit(likelihood, outputs, z, memory=None, kernel="auto"):
    return reduction.fit(z, outputs, likelihood, PRIOR, kernel, memory or reduction.Memory(), TUNING)


def log_likelihood_at(surrogate, theta):
    mean, variance = surrogate.log_likelihood(surrogate.at(PRIOR.to_working(theta)))
    return mean, np.sqrt(variance)


@pytest.mark.parametrize(
    "noise", [0.1, np.linspace(0.1, 0.3, 60), 0.01 * np.exp(-np.abs(np.subtract.outer(TIMES, TIMES)))]
)
def test_many_outputs_become_few_components_that_give_the_same_log_likelihood(noise):
    data = curve(np.array([0.4, 0.6])) + 0.1 * np.cos(50.0 * TIMES)
    likelihood = tbq.GaussianLikelihood(curve, data, noise)
    theta, z = runs()
    surrogate, _ = fit(likelihood, curve(theta), z)
    assert 2 <= len(surrogate.components) <= 3
    new = PRIOR.sample(30, 1)
    mean, sd = log_likelihood_at(surrogate, new)
    exact = likelihood(new)
    assert np.all(np.abs(mean - exact) < 4.0 * sd + 0.05)
    assert np.corrcoef(mean, exact)[0, 1] > 0.999
    at_runs, _ = log_likelihood_at(surrogate, theta)
    np.testing.assert_allclose(at_runs, likelihood(theta), atol=0.05)  # the misfit outside the components counts


def test_a_logarithm_is_chosen_where_it_is_smoother():
    def powers(theta):
        return np.stack([np.exp(4.0 * theta[..., 0] - 3.0 * theta[..., 1]), theta[..., 0] - theta[..., 1]], axis=-1)

    likelihood = tbq.GaussianLikelihood(powers, [1.0, 0.0], [0.1, 0.1])
    theta, z = runs()
    surrogate, memory = fit(likelihood, powers(theta), z)
    assert [c.logarithm_of is not None for c in surrogate.components] == [True, False]
    assert [f.logarithm for f in memory.starts] == [True, False]
    mean, sd = log_likelihood_at(surrogate, PRIOR.sample(30, 1))
    assert np.all(np.abs(mean - likelihood(PRIOR.sample(30, 1))) < 4.0 * sd + 0.05)


def test_a_logarithm_is_given_up_at_once_where_an_output_is_no_longer_positive():
    def powers(theta):
        return np.exp(4.0 * theta[..., :1] - 3.0 * theta[..., 1:])

    likelihood = tbq.GaussianLikelihood(powers, 1.0, 0.1)
    theta, z = runs()
    _, memory = fit(likelihood, powers(theta[:13]), z[:13])
    assert [f.logarithm for f in memory.starts] == [True]
    for value in (0.0, -0.2):  # one run later, long before all forms compete again
        outputs = np.vstack([powers(theta[:13]), [[value]]])
        surrogate, after = fit(likelihood, outputs, z, memory)
        assert [f.logarithm for f in after.starts] == [False]
        assert surrogate.components[0].logarithm_of is None
        at_runs, _ = log_likelihood_at(surrogate, theta)
        np.testing.assert_allclose(at_runs, likelihood.from_outputs(theta, outputs), atol=0.05)


@pytest.mark.parametrize(("noise", "expected"), [(0.1, True), (0.4, False)])
def test_no_logarithm_where_what_was_observed_may_be_zero(noise, expected):
    def powers(theta):
        return np.exp(4.0 * theta[..., :1] - 3.0 * theta[..., 1:])

    theta, z = runs()
    _, memory = fit(tbq.GaussianLikelihood(powers, 1.0, noise), powers(theta), z)
    assert [f.logarithm for f in memory.starts] == [expected]


@pytest.mark.parametrize("seed", [3, 5])  # with a logarithm one crashed and the other was ten of its errors off
def test_a_run_goes_on_where_an_output_changes_its_sign(seed):
    prior = tbq.Prior({"a": stats.lognorm(0.5), "b": stats.lognorm(0.5)})

    def gap(theta):
        return np.stack([(theta[..., 0] - 0.3) * theta[..., 1], theta[..., 0] + theta[..., 1]], axis=-1)

    likelihood = tbq.GaussianLikelihood(gap, [0.05, 1.4], [0.05, 0.1])
    result = tbq.infer(likelihood, prior, seed=seed)
    assert min(e.outputs[0] for e in result.evaluations) < 0.0  # it was met
    exact = np.log(np.mean(np.exp(likelihood(prior.sample(2**18, 0, "sobol")))))
    assert result.log_evidence == pytest.approx(exact, abs=4.0 * result.log_evidence_sd)


def test_an_output_that_is_missing_in_some_runs_is_learned_from_the_others():
    likelihood = tbq.GaussianLikelihood(curve, curve(np.array([0.4, 0.6]))[:60], 0.1)
    theta, z = runs()
    outputs = curve(theta)
    outputs[2, :20] = np.nan  # the rest determines the components
    outputs[5, 3:] = np.nan  # too little is left
    surrogate, _ = fit(likelihood, outputs, z)
    assert np.all(surrogate.batch.values.seen.sum(axis=1) == 13)
    full, _ = fit(likelihood, np.delete(curve(theta), 5, axis=0), np.delete(z, 5, axis=0))
    new = PRIOR.sample(20, 1)
    np.testing.assert_allclose(log_likelihood_at(surrogate, new)[0], log_likelihood_at(full, new)[0], atol=0.3)

    few = tbq.GaussianLikelihood(lambda theta: theta, np.zeros(2), 0.1) + tbq.GaussianLikelihood(
        curve, np.zeros(60), 5.0
    )
    outputs = np.hstack([theta, curve(theta)])
    outputs[4, 1] = np.nan
    surrogate, _ = fit(few, outputs, z)
    assert surrogate.batch.values.seen.sum(axis=1).tolist() == [14, 13, 14, 14]


def test_experiments_are_decomposed_one_by_one_and_measured_by_their_own_noise():
    both = tbq.GaussianLikelihood(curve, np.zeros(60), 1.0, scale=lambda theta: 0.1 + theta[0]) + (
        tbq.GaussianLikelihood(lambda theta: theta[..., :1] * theta[..., 1:], 0.3, 0.05)
    )
    theta, z = runs()
    outputs = np.array([both.evaluate(row)[1] for row in theta])
    surrogate, _ = fit(both, outputs, z)
    assert [c.experiment for c in surrogate.components] == [0, 0, 0, 1]
    new = PRIOR.sample(20, 1)
    mean, sd = log_likelihood_at(surrogate, new)
    assert np.all(np.abs(mean - np.array([both(row) for row in new])) < 4.0 * sd + 0.05)


def test_forms_are_kept_between_choices_and_a_named_kernel_is_used():
    likelihood = tbq.GaussianLikelihood(curve, np.zeros(60), 0.1)
    theta, z = runs()
    surrogate, memory = fit(likelihood, curve(theta), z, kernel="se")
    assert surrogate.batch.kernel.name == "se"
    assert not any(f.logarithm for f in memory.starts)
    _, again = fit(likelihood, curve(theta[:13]), z[:13], memory, kernel="se")
    assert again.starts.keys() == memory.starts.keys()


def surrogates(model, n=24, observed=None, noise=0.1):
    """Both surrogates of the same runs, and the runs' log-likelihoods."""
    likelihood = tbq.GaussianLikelihood(model, model(np.array([0.45, 0.6])) if observed is None else observed, noise)
    theta, z = runs(n)
    outputs = model(theta)
    y = likelihood.from_outputs(theta, outputs)
    values = LogNormal(fitting.fit(z, y, 1e-6, MATERN52, "quadratic"))
    return fit(likelihood, outputs, z)[0], values, y


def smooth(theta):
    a, b = theta[..., 0], theta[..., 1]
    return np.stack([a + 0.5 * b, np.sin(3.0 * a) * b], axis=-1)


def jump(theta):
    return smooth(theta) + 0.5 * (theta[..., 0] + 0.5 * theta[..., 1] > 0.8)[..., None]


def swapped(theta):
    """Two outputs that change places at random, of equal data: the log-likelihood does not see it."""
    pair = np.stack([theta[..., 0], theta[..., 1]], axis=-1) * [1.0, 4.0 / 3.0]
    swap = np.sin(40.0 * theta[..., 0] + 30.0 * theta[..., 1]) > 0
    return np.where(swap[..., None], pair[..., ::-1], pair)


def test_smooth_outputs_raise_no_doubt_and_jumps_do():
    assert output_checks.rough(surrogates(smooth)[0], TUNING) == ""
    assert "it may jump or fold" in output_checks.rough(surrogates(jump)[0], TUNING)


def test_a_jump_that_a_likelihood_would_hardly_notice_raises_no_doubt():
    assert output_checks.rough(surrogates(jump, noise=100.0)[0], TUNING) == ""


@pytest.mark.parametrize(("level", "rough"), [(0.05, True), (100.0, False)])
def test_a_jump_is_measured_by_an_unknown_noise_as_by_a_known_one(level, rough):
    likelihood = tbq.GaussianLikelihood(jump, [0.5, 0.5], stats.lognorm(0.3, scale=level))
    theta, z = runs(40)
    whole = joint(PRIOR, likelihood.noise_prior)
    given = z, jump(theta), likelihood, whole, "auto", reduction.Memory(), TUNING
    assert bool(output_checks.rough(noisy_reduction.fit(*given)[0], TUNING)) is rough


def test_predictions_that_were_off_raise_doubt():
    outputs, _, _ = surrogates(smooth)
    assert "off by 2.5 times what was expected" in output_checks.rough(replace(outputs, inflation=2.5), TUNING)


def test_the_log_likelihood_is_preferred_where_only_the_outputs_are_rough():
    outputs, values, y = surrogates(swapped, 40, observed=[0.5, 0.5])
    population = Population(PRIOR.to_working(PRIOR.sample(500, 3, "sobol")), np.zeros(500))
    assert output_checks.knows_better(values, outputs, y, population, PRIOR, SETTINGS, RNG(0))
    assert not output_checks.knows_better(
        values, outputs, y - np.arange(40) * 100.0, population, PRIOR, SETTINGS, RNG(0)
    )  # few runs that matter
    for model in (smooth, jump):
        outputs, values, y = surrogates(model, 40)
        assert not output_checks.knows_better(values, outputs, y, population, PRIOR, SETTINGS, RNG(0))


def test_an_evidence_of_one_point_is_not_preferred():
    """Where few points carry the evidence of the log-likelihoods, these seem to know it very well."""
    outputs, values, y = surrogates(swapped, 40, observed=[0.5, 0.5])
    z = PRIOR.to_working(PRIOR.sample(500, 3, "sobol"))
    likely = np.argmax(values.log_mean(values.at(z), 1.0))
    rare = np.where(np.arange(500) == likely, 0.0, 60.0)  # logarithm of the density that the points were drawn from
    args = (y, Population(z, rare), PRIOR, SETTINGS, RNG(0))
    assert not output_checks.knows_better(values, outputs, *args)


def test_left_out_runs_are_predicted_as_after_a_refit_without_them():
    outputs, values, _ = surrogates(smooth, 12)
    for surrogate in (outputs, values):
        x = surrogate.batch.x if isinstance(surrogate, Outputs) else surrogate.gp.x
        mean, variance = surrogate.left_out(x)
        rebuilt, z = without_last(surrogate), x[-1:]
        m, v = rebuilt.log_likelihood(rebuilt.at(z))
        assert mean[-1] == pytest.approx(m[0], rel=1e-3, abs=1e-3)
        assert variance[-1] == pytest.approx(v[0], rel=2e-2, abs=1e-4)


def without_last(surrogate):
    if isinstance(surrogate, Outputs):
        batch, y = surrogate.batch, surrogate.batch.values
        shorter = values_of(y.x[:-1], y.y[:, :-1], y.noise[:, :-1], y.linear)
        return replace(surrogate, batch=build(shorter, batch.kernel, batch.parameters))
    gp = surrogate.gp
    return replace(surrogate, gp=gps.build(gp.x[:-1], gp.y[:-1], gp.noise[:-1], gp.kernel, gp.basis, gp.parameters))


def test_runs_cannot_be_left_out_where_an_output_is_missing():
    likelihood = tbq.GaussianLikelihood(smooth, [0.5, 0.5], 0.1)
    theta, z = runs()
    outputs = smooth(theta)
    outputs[3, 1] = np.nan
    surrogate, _ = fit(likelihood, outputs, z)
    assert surrogate.left_out(z) is None
    mean, _ = surrogate.left_out(np.delete(z, 3, axis=0))
    assert np.all(np.isfinite(mean))


def test_two_evidences_that_differ_beyond_chance_are_a_contradiction():
    outputs, values, y = surrogates(smooth, 40)
    z = PRIOR.to_working(PRIOR.sample(500, 3, "sobol"))
    population = Population(z, np.zeros(500))
    assert output_checks.contradicted(outputs, values, y, population, PRIOR, TUNING, RNG(0)) == ""
    shifted = LogNormal(gps.build(z[:200], np.full(200, 3.0), 1e-6, MATERN52, "constant", np.log([1.0, 1.0, 1.0])))
    given = population, PRIOR, TUNING, RNG(0)
    assert "differs by" in output_checks.contradicted(outputs, shifted, y, *given)
    assert output_checks.contradicted(outputs, shifted, y - np.arange(40) * 100.0, *given) == ""  # few that matter


def test_components_left_out_are_small_in_new_runs_and_not_only_in_those_that_the_axes_were_fitted_to():
    """Thirty runs of 24 outputs: their last axes hold next to nothing of these runs, and much of the next."""
    rng = np.random.default_rng(0)
    n, m = 30, 24
    scales = np.append(np.full(12, 3.0), np.full(m - 12, 0.03))
    white = rng.normal(size=(n, m)) * scales
    likelihood = tbq.GaussianLikelihood(lambda theta: theta, np.zeros(m), 1.0)
    series, _ = reduction.decompose(white, likelihood, np.ones(1), TUNING)
    spanned = np.array([one.values for one in series])
    axes = np.linalg.lstsq(spanned.T, white, rcond=None)[0]
    axes = np.linalg.qr(axes.T)[0].T
    new = rng.normal(size=(2000, m)) * scales
    left = np.mean(np.sum((new - new @ axes.T @ axes) ** 2, axis=1))
    assert left < 2.0 * TUNING.neglected
    assert len(series) > 12


def many(theta):
    """Twelve outputs of twenty parameters, of which the last five do nothing."""
    directions = np.random.default_rng(5).normal(size=(12, 15)) / 4.0
    u = theta[..., :15] @ directions.T
    return u + 0.1 * u**2


MANY = tbq.Prior({f"x{i}": stats.norm() for i in range(20)})


def test_outputs_of_many_parameters_have_common_length_scales():
    likelihood = tbq.GaussianLikelihood(many, many(np.full(20, 0.2)), 0.1)
    theta = MANY.sample(60, 0, "lhs")
    z = MANY.to_working(theta)
    surrogate, memory = reduction.fit(z, many(theta), likelihood, MANY, "auto", reduction.Memory(), TUNING)
    assert isinstance(surrogate.batch, Common)
    np.testing.assert_array_equal(memory.together, surrogate.batch.shared)
    assert np.min(memory.together[15:20]) > np.median(memory.together[:15])
    new = MANY.sample(30, 1)
    mean, variance = surrogate.log_likelihood(surrogate.at(MANY.to_working(new)))
    assert np.all(np.abs(mean - likelihood(new)) < 4.0 * np.sqrt(variance) + 0.05)
    lost = many(theta)
    lost[3] = np.nan
    apart, _ = reduction.fit(z, lost, likelihood, MANY, "auto", reduction.Memory(), TUNING)
    assert not isinstance(apart.batch, Common)  # a value is missing


@pytest.mark.parametrize("n", [18, 60])  # fewer runs than parameters, and more
def test_a_surrogate_of_common_length_scales_is_stored(n):
    likelihood = tbq.GaussianLikelihood(many, many(np.full(20, 0.2)), 0.1)
    theta = MANY.sample(n, 0, "lhs")
    z = MANY.to_working(theta)
    surrogate, _ = reduction.fit(z, many(theta), likelihood, MANY, "auto", reduction.Memory(), TUNING)
    assert n > 20 or surrogate.batch.values.slopes is not None
    again = rebuilt(describe(surrogate), Context(MANY, likelihood))
    new = MANY.to_working(MANY.sample(30, 1))
    for one, other in zip(
        surrogate.log_likelihood(surrogate.at(new)), again.log_likelihood(again.at(new)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    drawn = draws_of(surrogate.batch, 3, np.random.default_rng(0))
    assert len(drawn) == surrogate.batch.size
    assert np.all(np.isfinite(drawn[0](new)))
