"""The one-call entry, its result, and what it does with awkward likelihoods and arguments."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

import tbq
from tbq.problem.evaluation import Status


def log_likelihood(theta):
    return -0.5 * np.sum(((theta - 0.4) / 0.5) ** 2, axis=-1)


PRIOR = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.norm(0, 1)})
# ∫ over a uniform times ∫ over a normal, both in closed form
EXACT = (
    np.log(np.sqrt(2 * np.pi) * 0.5 / 4 * (stats.norm.cdf(1.6 / 0.5) - stats.norm.cdf(-2.4 / 0.5)))
    + stats.norm(0, np.sqrt(1.25)).logpdf(0.4)
    + np.log(np.sqrt(2 * np.pi) * 0.5)
)


@pytest.fixture(scope="module")
def result():
    return tbq.infer(log_likelihood, PRIOR, algorithm="bq", seed=0)


def test_evidence_and_its_error(result):
    assert result.log_evidence == pytest.approx(EXACT, abs=0.02)
    assert abs(result.log_evidence - EXACT) < 4 * result.log_evidence_sd
    assert result.evidence == pytest.approx(np.exp(result.log_evidence))
    assert result.evidence_cov == pytest.approx(result.log_evidence_sd, rel=0.05)
    parts = result.errors
    total = np.sqrt(parts.surrogate**2 + parts.hyperparameters**2 + parts.monte_carlo**2)
    assert result.log_evidence_sd == pytest.approx(total)


def test_posterior_draws_have_the_posteriors_moments(result):
    # conjugate for b: precision 1/1 + 1/0.25, mean 0.4·4/5
    assert result.samples.shape == (8192, 2)
    draws = np.vstack([result.samples, result.sample(4000, seed=1)])
    assert draws[:, 1].mean() == pytest.approx(0.32, abs=0.03)
    assert draws[:, 1].std() == pytest.approx(np.sqrt(0.2), abs=0.03)
    assert draws[:, 0].mean() == pytest.approx(0.4, abs=0.03)
    assert len(np.unique(draws[:, 0])) > 11500
    np.testing.assert_array_equal(result.sample(50, seed=3), result.sample(50, seed=3))
    assert result.sample(5, seed=0).shape == result.sample(5.0, seed=0).shape == (5, 2)
    assert result.sample(0).shape == (0, 2)
    for n in (-1, "x"):
        with pytest.raises(tbq.TbqError, match=rf"Result\.sample: n must be a whole number of at least 0; got {n!r}"):
            result.sample(n)


def test_density_is_normalised_and_right(result):
    density = lambda y, x: np.exp(result.log_density([x, y]))
    total, _ = integrate.dblquad(density, -2, 2, -3, 4, epsabs=1e-4)
    assert total == pytest.approx(1.0, abs=0.01)
    theta = np.array([[0.4, 0.3], [0.0, 0.0], [1.2, 1.0]])
    exact = log_likelihood(theta) + PRIOR.log_density(theta) - EXACT
    np.testing.assert_allclose(result.log_density(theta), exact, atol=0.1)
    sd = result.density_sd(theta)
    assert np.all(sd >= 0)
    assert result.density_sd(theta[0]) == pytest.approx(sd[0])
    assert result.log_density([5.0, 0.0]) == -np.inf
    assert result.density_sd([5.0, 0.0]) == 0.0


def test_moments_of_the_posterior_density_are_those_of_the_sampled_process(result):
    # without cap and inflation the surrogate is the plain log-normal process (eq:PostMomentsPosterior)
    plain = replace(result, surrogate=replace(result.surrogate, cap=np.inf, inflation=1.0))
    theta = PRIOR.sample(40, seed=5)
    points = plain.surrogate.at(PRIOR.to_working(theta))
    covariance = plain.surrogate.covariance(points, points)
    paths = np.random.default_rng(0).multivariate_normal(points.mean, covariance + 1e-12 * np.eye(40), 40_000)
    density = np.exp(paths + PRIOR.log_density(theta) - plain.log_evidence)
    np.testing.assert_allclose(np.exp(plain.log_density(theta)), density.mean(axis=0), rtol=1e-3)
    np.testing.assert_allclose(plain.density_sd(theta), density.std(axis=0), rtol=0.03, atol=1e-9)


def test_summary_reads_well(result):
    text = result.summary()
    assert str(result) == text
    for words in ("Converged after", "log evidence", "±", "error parts", "a  ", "b  ", "ok"):
        assert words in text
    assert max(len(line) for line in text.splitlines()) < 110


def test_evaluations_tell_their_story(result):
    assert result.n_evaluations == len(result.evaluations)
    assert [e.origin for e in result.evaluations[:12]] == ["initial"] * 12
    assert all(e.status is Status.OK for e in result.evaluations)
    assert all(np.isfinite(e.acquisition) for e in result.evaluations[12:])
    assert result.stages[0].gamma == 1.0
    assert result.stages[0].evaluations == result.n_evaluations
    assert result.history[-1].n_evaluations == result.n_evaluations


def test_executors_and_vectorised_likelihoods_give_the_same_run(result):
    theta = [e.theta for e in result.evaluations]
    for options in (
        {"vectorized": True},
        {"executor": ThreadPoolExecutor(2)},
        {"executor": ProcessPoolExecutor(1)},
    ):
        other = tbq.infer(log_likelihood, PRIOR, algorithm="bq", seed=0, **options)
        np.testing.assert_allclose([e.theta for e in other.evaluations], theta, atol=1e-6)
        if "executor" in options:
            options["executor"].shutdown()


def test_batches_need_fewer_iterations():
    problem = tbq.problems.get("u2")
    single = tbq.infer(problem.log_likelihood, problem.prior, seed=2, population=512)
    batch = tbq.infer(problem.log_likelihood, problem.prior, seed=2, population=512, batch_size=4)
    assert len(batch.history) < len(single.history)
    assert batch.evidence == pytest.approx(problem.reference.evidence, rel=0.15)


def test_correlated_and_constrained_priors():
    prior = tbq.Prior(
        {"a": stats.norm(), "b": stats.norm()},
        correlation=[[1, 0.5], [0.5, 1]],
        constraint=lambda theta: theta[0] < theta[1],
    )
    result = tbq.infer(log_likelihood, prior, seed=0)
    density = lambda y, x: np.exp(log_likelihood(np.array([x, y])) + prior.log_density([x, y]))
    exact, _ = integrate.dblquad(density, -4, 4, lambda x: x, 5, epsabs=1e-5)
    assert result.evidence == pytest.approx(exact, rel=0.03)
    assert np.all(result.samples[:, 0] < result.samples[:, 1])


def test_one_parameter_and_a_lognormal():
    prior = tbq.Prior({"k": stats.lognorm(0.5)})
    result = tbq.infer(lambda theta: -0.5 * ((theta[0] - 1.5) / 0.2) ** 2, prior, seed=0)
    exact, _ = integrate.quad(
        lambda x: np.exp(-0.5 * ((x - 1.5) / 0.2) ** 2) * stats.lognorm(0.5).pdf(x), 0, 10, points=[1.5]
    )
    assert result.evidence == pytest.approx(exact, rel=0.03)


def test_a_flat_likelihood_returns_the_prior():
    result = tbq.infer(lambda theta: 2.5, PRIOR, seed=0)
    assert result.log_evidence == pytest.approx(2.5, abs=1e-2)
    assert result.samples[:, 1].std() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda target, z: 1.0, r"acquisition must return one number for each of the \d+ points; got shape \(\)"),
        (lambda target, z: z, r"acquisition must return one number for each of the (\d+) points; got shape \(\1, 2\)"),
        (lambda target, z: "x", "acquisition must return numbers; got str"),
    ],
)
def test_a_callable_acquisition_function_that_returns_something_else_is_refused(wrong, message):
    with pytest.raises(tbq.TbqError, match=message):
        tbq.infer(log_likelihood, PRIOR, seed=0, acquisition=wrong, max_evaluations=16)


def test_a_callable_acquisition_function():
    def farthest(target, z):
        return np.linalg.norm(z, axis=1)

    result = tbq.infer(log_likelihood, PRIOR, seed=0, acquisition=farthest, max_evaluations=16, search="pool")
    assert result.evaluations[-1].origin == "farthest"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda theta: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda theta: np.inf, "returned inf"),
        (lambda theta: "high", "returned str, not a number"),
        (lambda theta: theta, r"returned shape \(2,\), not one number"),
        (lambda theta: None, "returned nan|NoneType"),
    ],
)
def test_what_a_bad_likelihood_returns_is_recorded(bad, message):
    result = tbq.infer(bad, PRIOR, seed=0, max_evaluations=13, outage_after=(np.inf, np.inf))
    assert len(result.evaluations) == 13
    assert all(e.status is Status.FAILED for e in result.evaluations)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(result.evaluations[0].message)


def test_minus_infinity_is_infeasible():
    result = tbq.infer(lambda theta: -np.inf, PRIOR, seed=0, max_evaluations=13)
    assert all(e.status is Status.INFEASIBLE for e in result.evaluations)
    assert "infeasible" in result.summary()


def test_a_wrong_vectorised_shape_is_recorded():
    result = tbq.infer(lambda theta: np.zeros((3, 3)), PRIOR, seed=0, max_evaluations=13, vectorized=True)
    assert "returned shape (3, 3), not (12,)" in result.evaluations[0].message


def _die(theta):
    import os

    os._exit(1)


def test_a_pool_that_breaks_ends_the_run_with_what_is_known():
    with ProcessPoolExecutor(1) as executor:
        result = tbq.infer(_die, PRIOR, seed=0, max_evaluations=12, executor=executor)
    assert result.stop is tbq.Stop.EXECUTOR


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "mcmc"}, "algorithm must be"),
        ({"acquisition": "ei"}, "acquisition must be one of 'puq', .* got 'ei'"),
        ({"search": "grid"}, "search must be one of 'pool', 'continuous', 'auto'; got 'grid'"),
        ({"kernel": "rbf"}, "kernel must be one of"),
        ({"tolerance": 4}, "tolerance must be a number between 0 and 1"),
        ({"n_initial": 0}, "n_initial must be a whole number of at least 1; got 0"),
        ({"population": 2.5}, "population must be a whole number"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1; got 0"),
        ({"population": 10}, "population must be a whole number of at least 96; got 10"),
        ({"progress": True}, "progress must be 'auto', 'rich', 'plain', 'notebook' or False; got True"),
        ({"seed": -1}, "seed must be a whole number of at least 0, or None; got -1"),
        ({"seed": np.random.default_rng(0)}, "seed must be a whole number of at least 0, or None; got Generator"),
        ({"seed": 1.5}, "seed must be a whole number of at least 0, or None; got 1.5"),
        ({"tolerance": [0.1, 0.2, 0.3]}, "tolerance must be a number between 0 and 1"),
        ({"tolerance": "abc"}, "tolerance must be a number between 0 and 1, .*; got 'abc'"),
        ({"tolerance": None}, "tolerance must be a number between 0 and 1, .*; got None"),
        ({"max_evaluations": "abc"}, "max_evaluations must be a whole number of at least 1; got 'abc'"),
        ({"max_evaluations": np.inf}, "max_evaluations must be a whole number of at least 1; got inf"),
        ({"max_evaluations": np.nan}, "max_evaluations must be a whole number of at least 1; got nan"),
        ({"max_evaluations": [20]}, r"max_evaluations must be a whole number of at least 1; got \[20\]"),
        ({"max_evaluations": True}, "max_evaluations must be a whole number of at least 1; got True"),
        ({"temper_cov": None}, "temper_cov must be a positive number; got None"),
        ({"temper_cov": 10**400}, "temper_cov must be a positive number; got 1000"),
        ({"batch_size": None}, "batch_size must be a whole number of at least 1; got None"),
        ({"batch_size": 1.5}, "batch_size must be a whole number of at least 1; got 1.5"),
        ({"retries": None}, "retries must be a whole number of at least 0; got None"),
        ({"timeout": "x"}, "timeout must be a positive number of seconds, or None; got 'x'"),
        ({"outage_after": 5}, "outage_after must be two whole numbers of at least 2, .*; got 5"),
        ({"outage_after": (1, 8)}, r"outage_after must be .*; got \(1, 8\)"),
        ({"outage_after": (5, 8.5)}, r"outage_after must be .*; got \(5, 8.5\)"),
        ({"outage_after": (5, None)}, "outage_after must be"),
        ({"patience": -1}, "patience must be a number of seconds that is not negative; got -1"),
        ({"patience": "long"}, "patience must be a number of seconds .*; got 'long'"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(tbq.TbqError, match=message):
        tbq.infer(log_likelihood, PRIOR, **options)


def test_whole_numbers_may_be_written_as_floats():
    likelihood = tbq.GaussianLikelihood(lambda theta: theta, [0.3, 0.6], 0.2)
    counts = {"n_initial": 11, "batch_size": 2, "chain_length": 5, "population": 128, "max_evaluations": 13}
    runs = [tbq.infer(likelihood, PRIOR, seed=0, **{k: of(v) for k, v in counts.items()}) for of in (int, float)]
    assert runs[0].log_evidence == runs[1].log_evidence
    assert [e.origin for e in runs[1].evaluations].count("initial") == 11


def test_wrong_first_arguments_are_named():
    with pytest.raises(tbq.TbqError, match="log_likelihood must be a function of theta; got int"):
        tbq.infer(3, PRIOR)
    with pytest.raises(tbq.TbqError, match=r"prior must be a tbq\.Prior; got dict"):
        tbq.infer(log_likelihood, {"a": stats.norm()})


def test_progress_tells_every_stage_or_nothing(capsys):
    tbq.infer(log_likelihood, PRIOR, seed=0, progress="plain")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("initial design of 12")
    assert len(lines) >= 3
    assert all(", stage " in line and "γ = " in line for line in lines[1:-1])
    assert lines[-1].endswith(tbq.Stop.CONVERGED.value)
    tbq.infer(log_likelihood, PRIOR, seed=0, progress="rich")
    for quiet in (False, "auto"):  # nobody watches a test
        capsys.readouterr()
        tbq.infer(log_likelihood, PRIOR, seed=0, progress=quiet)
        captured = capsys.readouterr()
        assert captured.err == captured.out == ""


def test_the_users_threads_are_left_alone():
    from threadpoolctl import threadpool_info

    blas = lambda: [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    before, seen = blas(), []

    def watching(theta):
        seen.append(blas())
        return log_likelihood(theta)

    tbq.infer(watching, PRIOR, seed=0, max_evaluations=14)
    assert all(threads == before for threads in seen)
    assert blas() == before
