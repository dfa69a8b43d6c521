"""Which form the fine values prefer, with a coarse model that helps, one that does not, and one that is missing."""

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.gp.batch import Batch
from tbq.gp.levels import Levels
from tbq.problem.joint_prior import joint
from tbq.problem.tuning import Tuning
from tbq.surrogate import levels, noisy_reduction, reduction
from tbq.surrogate.levels import Coarse

PRIOR = tbq.Prior({"a": stats.uniform(-1.5, 3), "b": stats.uniform(-1.5, 3)})
TIMES = np.linspace(0.0, 3.0, 20)
MEMORY, TUNING = reduction.Memory(), Tuning()


def fine(theta):
    a, b = theta[..., 0, None], theta[..., 1, None]
    return np.exp(0.2 * a) * np.sin(TIMES + b) + 3.0


def coarse(theta):
    a, b = theta[..., 0, None], theta[..., 1, None]
    return 0.9 * np.exp(0.2 * a) * np.sin(TIMES + b) + 2.5


def useless(theta):
    return np.cos(np.multiply.outer(7.0 * theta[..., 0] * theta[..., 1], TIMES))


def fit(below, m=20, n=7, n_coarse=40, noise=0.1, memory=MEMORY, of=None):
    rng = np.random.default_rng(0)
    theta = PRIOR.sample(n_coarse, rng, "lhs")
    likelihood = tbq.GaussianLikelihood(fine, fine(np.array([0.3, -0.2]))[:m], noise)
    z, outputs = PRIOR.to_working(theta), fine(theta)[:, :m]
    runs = Coarse(z, below(theta)[:, :m])
    if of is not None:
        prior = joint(PRIOR, likelihood.noise_prior)
        return of.fit(z[:n], outputs[:n], likelihood, prior, "auto", memory, TUNING, runs)
    return levels.fit(z[:n], outputs[:n], runs, likelihood, PRIOR, "auto", memory, TUNING)


def errors(surrogate, m=20):
    """Of the predicted log-likelihood at fresh points, and what is stated of it."""
    theta = PRIOR.sample(200, np.random.default_rng(1))
    mean, variance = surrogate.log_likelihood(surrogate.at(PRIOR.to_working(theta)))
    exact = surrogate.likelihood.from_outputs(theta, fine(theta)[:, :m])
    return np.abs(exact - mean), np.sqrt(variance)


@pytest.mark.parametrize("m", [3, 20])  # outputs as they are, and principal components
def test_a_good_coarse_model_is_used_and_makes_up_for_most_fine_runs(m):
    surrogate, _ = fit(coarse, m)
    assert isinstance(surrogate.batch, Levels)
    z = surrogate.batch.x
    outputs = fine(PRIOR.from_working(z))[:, :m]
    alone, _ = reduction.fit(z, outputs, surrogate.likelihood, PRIOR, "auto", MEMORY, TUNING)
    with_it, without = errors(surrogate, m), errors(alone, m)
    assert np.median(with_it[0]) < 0.1 * np.median(without[0])
    assert np.mean(with_it[0] < 3.0 * with_it[1]) > 0.9


def test_rho_is_the_factor_between_the_levels():
    surrogate, _ = fit(coarse, m=3)
    rho, sd = surrogate.batch.rho
    assert np.all(np.abs(rho - 1.0 / 0.9) < 4.0 * sd + 1e-3)


def test_a_useless_coarse_model_is_not_used():
    surrogate, _ = fit(useless, n=12)
    assert isinstance(surrogate.batch, Batch)
    error, sd = errors(surrogate)
    assert np.mean(error < 3.0 * sd) > 0.9


def test_fine_runs_without_a_coarse_one_are_still_met():
    rng = np.random.default_rng(0)
    theta, elsewhere = PRIOR.sample(30, rng, "lhs"), PRIOR.sample(6, rng, "lhs")
    likelihood = tbq.GaussianLikelihood(fine, fine(np.array([0.3, -0.2])), 0.1)
    z = PRIOR.to_working(elsewhere)
    runs = Coarse(PRIOR.to_working(theta), coarse(theta))
    surrogate, _ = levels.fit(z, fine(elsewhere), runs, likelihood, PRIOR, "auto", MEMORY, TUNING)
    assert isinstance(surrogate.batch, Levels)
    mean, variance = surrogate.log_likelihood(surrogate.at(z))
    np.testing.assert_allclose(mean, likelihood.from_outputs(elsewhere, fine(elsewhere)), atol=0.2)
    assert np.all(variance < 0.2)


def test_axes_span_both_levels_and_the_step_between_them():
    rng = np.random.default_rng(0)
    fine_runs = np.outer(rng.normal(size=3), [1.0, 0.0, 0.0, 0.0]) + np.array([0.0, 0.0, 5.0, 0.0])
    coarse_runs = np.outer(rng.normal(size=30), [0.0, 1.0, 0.0, 0.0])
    axes = levels.axes_of(fine_runs, coarse_runs, 1e-6, 10)
    assert axes.shape == (3, 4)
    np.testing.assert_allclose(axes.T @ axes, np.diag([1.0, 1.0, 1.0, 0.0]), atol=1e-9)


def test_hyperparameters_and_axes_are_kept_until_there_are_many_more_coarse_runs():
    first, memory = fit(coarse)
    again, later = fit(coarse, memory=memory)
    assert later.axes[0] is memory.axes[0]
    assert later.coarse is memory.coarse
    np.testing.assert_array_equal(first.batch.coarse.parameters, again.batch.coarse.parameters)
    _, grown = fit(coarse, n_coarse=60, memory=memory)
    assert grown.coarse_at == 60
    assert grown.coarse is not memory.coarse


def test_missing_outputs_of_either_level_are_left_out():
    def holes(theta):
        outputs = coarse(theta)
        outputs[3, 2], outputs[10] = np.nan, np.nan
        return outputs

    surrogate, _ = fit(holes)
    assert isinstance(surrogate.batch, Levels)
    assert np.median(errors(surrogate)[0]) < 0.5


def test_fine_runs_where_the_coarse_one_lacks_an_output_are_still_met():
    def holes(theta):
        outputs = coarse(theta)
        outputs[:3, 2] = np.nan
        return outputs

    surrogate, _ = fit(holes, m=3, n_coarse=10)
    assert isinstance(surrogate.batch, Levels)
    points = surrogate.at(surrogate.batch.x)
    assert np.all(points.variance < 1e-3)  # in units of the noise


@pytest.mark.parametrize("m", [3, 20])
def test_noise_with_parameters_goes_with_levels(m):
    surrogate, _ = fit(coarse, m, noise=stats.loguniform(0.05, 0.5), of=noisy_reduction)
    assert isinstance(surrogate.batch, Levels)
    theta = PRIOR.sample(50, np.random.default_rng(1))
    mean, _ = surrogate.log_likelihood(surrogate.at(PRIOR.to_working(theta)))
    exact = surrogate.likelihood.from_outputs(theta, fine(theta)[:, :m])
    assert np.median(np.abs(mean - exact)) < 0.2
