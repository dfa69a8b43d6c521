"""Sobol indices: SALib's, closed forms, and intervals that say what the surrogate does not know."""

import numpy as np
import pytest
from SALib.analyze import sobol as analyze
from SALib.sample import sobol as sample
from SALib.test_functions import Ishigami, Sobol_G
from scipy import stats

import tbq
from tbq.engine.records import ErrorBudget, Stop
from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.tuning import Tuning
from tbq.result import sensitivity
from tbq.result.result import Result
from tbq.surrogate import reduction


def learned(model, prior, observed, noise, runs, draws):
    """A result of a model that was run at so many points all over its prior."""
    likelihood = GaussianLikelihood(model, observed, noise)
    theta = prior.sample(runs, seed=0, method="sobol")
    outputs = np.array([np.atleast_1d(model(t)) for t in theta])
    surrogate, _ = reduction.fit(
        prior.to_working(theta), outputs, likelihood, prior, "auto", reduction.Memory(), Tuning()
    )
    evaluations = tuple(
        Evaluation(i, t, 0, "initial", np.nan, Status.OK, likelihood.from_outputs(t, o), outputs=o)
        for i, (t, o) in enumerate(zip(theta, outputs, strict=True))
    )
    none = ErrorBudget(0.0, 0.0, 0.0)
    return Result(prior, surrogate, 0.0, none, draws, evaluations, (), (), Stop.CONVERGED, likelihood=likelihood)


def salib(function, bounds):
    problem = {"num_vars": len(bounds), "names": [f"x{i}" for i in range(len(bounds))], "bounds": bounds}
    points = sample.sample(problem, 2**12, calc_second_order=False, seed=0)
    return analyze.analyze(problem, function(points), calc_second_order=False, seed=0)


@pytest.mark.parametrize(("name", "runs", "close"), [("ishigami", 160, 0.05), ("g", 80, 0.25)])
def test_indices_agree_with_salib_within_their_intervals(name, runs, close):
    if name == "ishigami":
        function, bounds = Ishigami.evaluate, [[-np.pi, np.pi]] * 3
    else:  # four kinks; parameters of falling weight
        function, bounds = lambda x: Sobol_G.evaluate(x, a=np.array([0.0, 1.0, 4.5])), [[0.0, 1.0]] * 3
    prior = tbq.Prior({f"x{i}": stats.uniform(a, b - a) for i, (a, b) in enumerate(bounds)})
    result = learned(lambda t: function(np.atleast_2d(t)), prior, [1.0], 0.05, runs, prior.sample(500, seed=1))
    found, oracle = result.sensitivity().prior, salib(function, bounds)
    assert found.quantities == ("y1", "log-likelihood")
    for ours, interval, theirs, width in (
        (found.first, found.first_interval, oracle["S1"], oracle["S1_conf"]),
        (found.total, found.total_interval, oracle["ST"], oracle["ST_conf"]),
    ):
        np.testing.assert_allclose(ours[0], theirs, atol=close)
        assert np.all(interval[0, 0] - width - 0.01 <= theirs)  # a 90 % interval, and their 95 % one
        assert np.all(theirs <= interval[1, 0] + width + 0.01)
        assert np.all(np.ptp(interval[:, 0], axis=0) < 0.5)


def test_a_linear_model_has_exact_indices():
    weights = np.array([[1.0, 2.0, 0.0], [0.5, -0.5, 1.0]])
    prior = tbq.Prior({"a": stats.uniform(0, 1), "b": stats.norm(0, 1), "c": stats.uniform(-1, 4)})
    model = lambda theta: weights @ theta
    found = learned(model, prior, [1.0, 0.0], 0.1, 24, prior.sample(600, seed=1)).sensitivity().prior
    variance = np.array([1 / 12, 1.0, 16 / 12])
    exact = weights**2 * variance / np.sum(weights**2 * variance, axis=1, keepdims=True)
    np.testing.assert_allclose(found.first[:2], exact, atol=0.012)
    np.testing.assert_allclose(found.total[:2], exact, atol=0.012)
    for interval in (found.first_interval, found.total_interval):
        assert np.all(np.ptp(interval[:, :2], axis=0) < 0.1)  # of the sums alone: the surrogate is sure
        assert np.all(interval[0, :2] - 0.01 <= exact)
        assert np.all(exact <= interval[1, :2] + 0.01)


def test_indices_over_a_correlated_normal_posterior_are_the_closed_forms():
    # y = c·θ and log L quadratic under N(m, Σ): the first order of log L and its total are 1/d, whatever Σ
    design = np.array([[1.0, 0.9], [0.0, 0.6]])
    prior = tbq.Prior({"a": stats.uniform(-10, 20), "b": stats.uniform(-10, 20)})
    model, observed, noise = (lambda theta: design @ theta), np.array([1.0, 0.4]), 0.5
    precision = design.T @ design / noise**2
    covariance = np.linalg.inv(precision)
    draws = np.random.default_rng(0).multivariate_normal(np.linalg.solve(design, observed), covariance, 2048)
    result = learned(model, prior, observed, noise, 24, draws)
    found = result.sensitivity().posterior
    spread = np.einsum("ij,jk,ik->i", design, covariance, design)
    first = (design @ covariance) ** 2 / (np.diag(covariance) * spread[:, None])
    total = design**2 / (np.diag(precision) * spread[:, None])
    np.testing.assert_allclose(found.first[:2], first, atol=0.05)
    np.testing.assert_allclose(found.total[:2], total, atol=0.05)
    np.testing.assert_allclose(found.first[2], 0.5, atol=0.09)  # of a square, which has heavy tails
    np.testing.assert_allclose(found.total[2], 0.5, atol=0.09)
    np.testing.assert_allclose(
        result.sensitivity().correlation[0, 1], covariance[0, 1] / np.sqrt(np.prod(np.diag(covariance))), atol=0.03
    )


def test_a_surrogate_that_knows_little_says_so():
    prior = tbq.Prior({"a": stats.uniform(-np.pi, 2 * np.pi), "b": stats.uniform(-np.pi, 2 * np.pi)})
    model = lambda t: np.sin(3 * t[0]) * np.cos(2 * t[1])
    few, many = (learned(model, prior, [0.3], 0.05, n, prior.sample(500, seed=1)).sensitivity().prior for n in (9, 160))
    assert np.ptp(few.total_interval[:, 0], axis=0).max() > 2 * np.ptp(many.total_interval[:, 0], axis=0).max()


def test_the_log_likelihood_alone_and_its_parameters_that_do_nothing():
    prior = tbq.Prior({"a": stats.norm(0, 1), "b": stats.norm(0, 1), "c": stats.uniform(0, 1)})
    result = tbq.infer(
        lambda t: float(-2.0 * t[0] ** 2 - 0.5 * t[1] ** 2), prior, seed=0, population=512, progress=False
    )
    found = result.sensitivity()
    assert found.prior.quantities == ("log-likelihood",)
    exact = np.array([16.0, 1.0, 0.0]) / 17.0  # variances of 2a² and b²/2
    np.testing.assert_allclose(found.prior.first[0], exact, atol=0.05)
    np.testing.assert_allclose(found.prior.total[0], exact, atol=0.05)
    assert np.all(found.posterior.total[0][2] < 0.05)


def test_directions_are_what_the_data_fix_and_leave_free():
    # a sum is measured: it is known to 0.05 of 1/√(1 + 1/…), the difference is left as it was
    prior = tbq.Prior({"a": stats.norm(0, 1), "b": stats.norm(0, 1)})
    rng = np.random.default_rng(0)
    precision = np.eye(2) + np.ones((2, 2)) / 0.05**2
    draws = rng.multivariate_normal([0, 0], np.linalg.inv(precision), 4000)
    result = learned(lambda t: t[0] + t[1], prior, [0.0], 0.05, 12, draws)
    fixed, free = sensitivity.directions(result)
    assert fixed.left == pytest.approx(1 / np.sqrt(1 + 2 / 0.05**2), rel=0.05)
    assert free.left == pytest.approx(1.0, abs=0.05)
    np.testing.assert_allclose(np.abs(fixed.weights), np.sqrt(0.5), atol=0.02)
    assert fixed.words in ("0.71 a + 0.71 b", "0.71 b + 0.71 a")
    assert " − " in free.words


@pytest.mark.parametrize("rho", [0.8, 0.95])  # beyond 0.9 working coordinates are those of no single parameter
def test_correlated_priors_have_indices_too(rho):
    prior = tbq.Prior({"a": stats.norm(0, 1), "b": stats.norm(0, 1)}, correlation=[[1.0, rho], [rho, 1.0]])
    draws = prior.sample(500, seed=1)
    found = learned(lambda t: t[0] + t[1], prior, [0.0], 0.1, 16, draws).sensitivity()
    np.testing.assert_allclose(found.prior.first[0], (1 + rho) / 2, atol=0.03)
    np.testing.assert_allclose(found.prior.total[0], (1 - rho) / 2, atol=0.03)
    assert all("a" in d.words and "b" in d.words for d in found.directions)


def test_constrained_priors_have_indices_too():
    ordered = tbq.Prior({"a": stats.uniform(0, 1), "b": stats.uniform(0, 1)}, constraint=lambda t: t[0] < t[1])
    found = learned(lambda t: t[0], ordered, [0.5], 0.1, 16, ordered.sample(500, seed=1)).sensitivity().prior
    np.testing.assert_allclose(found.first[0], [1.0, 0.25], atol=0.03)  # Cov² / variances of a triangle
    np.testing.assert_allclose(found.total[0], [0.75, 0.0], atol=0.04)


def test_an_output_that_never_varies_has_no_indices():
    prior = tbq.Prior({"a": stats.norm(0, 1), "b": stats.norm(0, 1)})
    model = lambda t: np.array([t[0], 3.0])
    found = learned(model, prior, [0.0, 3.0], 0.1, 16, prior.sample(500, seed=1)).sensitivity().prior
    assert np.isnan(found.first[1]).all() or np.all(found.first[1] < 1.0)
    np.testing.assert_allclose(found.first[0], [1.0, 0.0], atol=0.02)


def test_there_is_nothing_to_say_where_nothing_was_learned():
    with pytest.raises(tbq.TbqError, match="sensitivity: there is no posterior"):
        tbq.Session(tbq.Prior({"a": stats.norm()})).result().sensitivity()
