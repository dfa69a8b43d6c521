"""TMCMC against closed forms, and its refusal to collapse silently."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import tbq

# y = A θ + noise with normal priors: evidence and posterior in closed form
A = np.array([[1.0, 0.5, -0.3], [0.2, -1.0, 0.4], [0.7, 0.1, 1.0], [1.0, 1.0, 1.0]])
DATA = np.array([1.2, -0.4, 0.9, 2.0])
NOISE = 0.3
PRIOR = tbq.Prior({f"t{i}": stats.norm() for i in range(3)})
EXACT = stats.multivariate_normal(np.zeros(4), A @ A.T + NOISE**2 * np.eye(4)).logpdf(DATA)


def log_likelihood(theta):
    residual = (DATA - theta @ A.T) / NOISE
    return -0.5 * np.sum(residual**2, axis=-1) - 4 * np.log(NOISE * np.sqrt(2 * np.pi))


def test_evidence_and_posterior_of_a_linear_model():
    runs = [tbq.tmcmc(log_likelihood, PRIOR, vectorized=True, population=2000, seed=s) for s in range(12)]
    errors = np.array([r.log_evidence - EXACT for r in runs])
    sds = np.array([r.log_evidence_sd for r in runs])
    assert np.abs(errors.mean()) < 0.04
    assert 0.4 < np.sqrt(np.mean((errors / sds) ** 2)) < 1.6
    precision = np.eye(3) + A.T @ A / NOISE**2
    draws = np.vstack([r.samples for r in runs])
    np.testing.assert_allclose(draws.mean(axis=0), np.linalg.solve(precision, A.T @ DATA / NOISE**2), atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), np.linalg.inv(precision), atol=0.01)


def test_many_calls_are_right_within_their_stated_error():
    result = tbq.tmcmc(log_likelihood, PRIOR, vectorized=True, population=8000, seed=1)
    assert result.n_evaluations > 1e5
    assert result.log_evidence_sd < 0.025
    assert abs(result.log_evidence - EXACT) < 3 * result.log_evidence_sd
    assert result.stages[-1].gamma == 1.0
    assert sum(s.evaluations for s in result.stages) == result.n_evaluations
    assert all(s.unique > 0.9 for s in result.stages)


def test_two_modes_keep_their_masses():
    problem = tbq.problems.get("dof3")
    result = tbq.tmcmc(problem.log_likelihood, problem.prior, vectorized=True, population=4000, seed=0)
    assert result.evidence == pytest.approx(problem.reference.evidence, rel=0.15)
    for mode in problem.reference.modes:
        assert np.mean(mode.contains(result.samples)) == pytest.approx(mode.mass, abs=0.1)


def test_regions_of_zero_likelihood_and_failures():
    half = lambda theta: np.where(theta[..., 0] > 0, 0.0, -np.inf)
    result = tbq.tmcmc(half, PRIOR, vectorized=True, population=1000, seed=0)
    assert result.evidence == pytest.approx(0.5, abs=0.01)
    assert result.n_failed == 0
    broken = tbq.tmcmc(lambda theta: np.nan if theta[0] < 0 else 0.0, PRIOR, population=200, seed=0)
    assert broken.n_failed > 50
    assert broken.evidence == pytest.approx(0.5, abs=0.1)


def test_it_runs_on_an_executor_given_or_made():
    options = {"population": 100, "chain_length": 5, "seed": 0}
    here = tbq.tmcmc(log_likelihood, PRIOR, **options)
    made = []

    def make():
        made.append(ThreadPoolExecutor(2))
        return made[-1]

    with ThreadPoolExecutor(2) as pool:
        for executor in (pool, make):
            there = tbq.tmcmc(log_likelihood, PRIOR, executor=executor, **options)
            np.testing.assert_array_equal(there.samples, here.samples)
        assert pool.submit(abs, -1).result() == 1  # the user's is left open
    assert len(made) == 1  # for all stages
    with pytest.raises(RuntimeError, match="after shutdown"):
        made[0].submit(abs, -1)


def test_it_says_so_when_it_cannot_go_on():
    with pytest.raises(tbq.TbqError, match="no point of the population"):
        tbq.tmcmc(lambda theta: -np.inf, PRIOR, population=100, seed=0)
    with pytest.raises(tbq.TbqError, match="the last of 100 that failed said: ZeroDivisionError: division by zero"):
        tbq.tmcmc(lambda theta: 1 / 0, PRIOR, population=100, seed=0)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((3, PRIOR), {}, "log_likelihood must be a function of theta; got int"),
        ((log_likelihood, "x"), {}, r"prior must be a tbq\.Prior; got str"),
        ((log_likelihood, PRIOR), {"population": 10}, "population must be a whole number of at least 40; got 10"),
        ((log_likelihood, PRIOR), {"population": "x"}, "population must be a whole number of at least 40; got 'x'"),
        ((log_likelihood, PRIOR), {"temper_cov": -1}, "temper_cov must be a positive number; got -1"),
        ((log_likelihood, PRIOR), {"chain_length": 0}, "chain_length must be a whole number of at least 1; got 0"),
        ((log_likelihood, PRIOR), {"seed": np.random.default_rng(0)}, "seed must be a whole number"),
        ((log_likelihood, PRIOR), {"executor": 3}, "executor must be .*; got int"),
    ],
)
def test_wrong_arguments_are_named(arguments, options, message):
    with pytest.raises(tbq.TbqError, match=message):
        tbq.tmcmc(*arguments, **options)


def test_a_collapsed_population_is_an_error():
    rng = np.random.default_rng(0)
    noise = {}

    def rough(theta):  # a different value at every point: nothing is ever accepted twice near the top
        return np.array([noise.setdefault(tuple(t), -1e4 * rng.random() ** 0.05) for t in theta])

    with pytest.raises(tbq.TbqError, match=r"collapsed in stage|has only reached"):
        tbq.tmcmc(rough, PRIOR, vectorized=True, population=100, chain_length=1, seed=0)
