"""Whole runs that learn outputs, against quadrature; and what happens where outputs cannot be learned."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

import tbq
from tbq.problem.evaluation import Status
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.outputs import Outputs

SQUARE = tbq.Prior({"a": stats.uniform(0, 1), "b": stats.uniform(0, 1)})


ROUGH = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/rough.py"))
smooth, DATA = ROUGH["smooth"], ROUGH["DATA"]


def exact(log_likelihood, prior, n=400):
    """The log-evidence on a grid of the prior's quantiles."""
    u = (np.arange(n) + 0.5) / n
    theta = np.stack(np.meshgrid(*(m.ppf(u) for m in prior.marginals.values()), indexing="ij"), axis=-1)
    return float(special.logsumexp(log_likelihood(theta)) - 2.0 * np.log(n))


def run(likelihood, prior=SQUARE, **options):
    return tbq.infer(likelihood, prior, seed=1, progress=False, **options)


def test_a_gaussian_likelihood_is_learned_by_its_outputs():
    likelihood = tbq.GaussianLikelihood(smooth, DATA, 0.05)
    result = run(likelihood)
    assert isinstance(result.surrogate, Outputs)
    assert result.converged
    assert result.n_evaluations <= 18  # 17 on average, docs/benchmarks/rough.md
    assert result.notes == ()
    assert result.log_evidence == pytest.approx(exact(likelihood, SQUARE), abs=3.0 * result.log_evidence_sd)
    assert result.log_evidence_sd < 0.02
    theta = result.samples[:50]
    density = likelihood(theta) - result.log_evidence  # the prior's density is one
    matter = density > density.max() - 6.0  # a draw further out, of which there is one in many, is off by more
    assert matter.sum() >= 48
    np.testing.assert_allclose(result.log_density(theta)[matter], density[matter], atol=0.2)
    assert np.all(result.density_sd(theta) >= 0.0)


def test_two_modes_of_the_two_storey_frame():
    problem = tbq.problems.get("dof2")
    result = run(problem.log_likelihood, problem.prior)
    assert result.converged
    assert result.n_evaluations <= 20
    assert result.evidence == pytest.approx(problem.reference.evidence, rel=0.02)
    for mode in problem.reference.modes:
        assert np.mean(mode.contains(result.samples)) == pytest.approx(mode.mass, abs=0.03)


def test_the_log_likelihood_can_be_chosen_and_outputs_need_a_gaussian_likelihood():
    likelihood = tbq.GaussianLikelihood(smooth, DATA, 0.3)
    result = run(likelihood, surrogate="log_likelihood", max_evaluations=16)
    assert isinstance(result.surrogate, LogNormal)
    with pytest.raises(tbq.TbqError, match="surrogate 'outputs' needs data and a simulator"):
        tbq.infer(lambda theta: 0.0, SQUARE, surrogate="outputs")
    with pytest.raises(tbq.TbqError, match="surrogate must be one of 'auto', 'outputs', 'log_likelihood'; got 'both'"):
        tbq.infer(likelihood, SQUARE, surrogate="both")  # type: ignore[arg-type]


def test_unknown_noise_as_a_parameter():
    times = np.linspace(0.0, 1.0, 12)
    data = 0.6 * np.exp(-times) + 0.1 * np.sin(40.0 * times)
    prior = tbq.Prior({"a": stats.uniform(0, 1), "sigma": stats.lognorm(0.5, scale=0.1)})
    line = lambda theta: theta[..., :1] * np.exp(-times * (0.5 + theta[..., :1]))
    likelihood = tbq.GaussianLikelihood(line, data, 1.0, scale=lambda theta: theta[1])

    def log_likelihood(theta):  # written out, for the grid
        misfit = (line(theta) - data) / theta[..., 1:]
        return np.sum(-0.5 * misfit**2 - np.log(theta[..., 1:] * np.sqrt(2.0 * np.pi)), axis=-1)

    result = run(likelihood, prior)
    assert result.converged
    assert result.log_evidence == pytest.approx(exact(log_likelihood, prior), abs=0.03)


def test_two_experiments_and_a_batch():
    first = tbq.GaussianLikelihood(smooth, DATA, 0.1 * np.eye(2) ** 2 + 0.002)
    second = tbq.GaussianLikelihood(lambda theta: theta[..., 0] * theta[..., 1], 0.25, 0.1)
    result = run(first + second, batch_size=3)
    assert result.converged
    reference = exact(lambda theta: first(theta) + second(theta), SQUARE)
    assert result.log_evidence == pytest.approx(reference, abs=0.03)


def test_runs_with_missing_outputs_still_teach():
    def lame(theta):
        outputs = smooth(theta)
        if theta[0] + theta[1] > 1.6:
            outputs[1] = np.nan
        return outputs

    result = run(tbq.GaussianLikelihood(lame, DATA, 0.1), n_initial=16)
    missing = [e for e in result.evaluations if e.status is Status.FAILED]
    assert missing
    assert all(e.message == "1 of 2 outputs are missing" for e in missing)
    first, second = result.surrogate.batch.values.seen.sum(axis=1)
    assert first == second + len(missing)
    reference = exact(tbq.GaussianLikelihood(smooth, DATA, 0.1), SQUARE)
    assert result.log_evidence == pytest.approx(reference, abs=max(3.0 * result.log_evidence_sd, 0.05))


@pytest.mark.parametrize("acquisition", ["puq", "pvc", "plur", "ensemble"])
def test_every_acquisition_function_runs_on_outputs(acquisition):
    likelihood = tbq.GaussianLikelihood(smooth, DATA, 0.1)
    result = run(likelihood, acquisition=acquisition, max_evaluations=18, population=512)
    assert result.log_evidence == pytest.approx(exact(likelihood, SQUARE), abs=0.05)


def test_bayesian_quadrature_without_stages():
    likelihood = tbq.GaussianLikelihood(smooth, DATA, 0.3)
    result = run(likelihood, algorithm="bq", population=2048)
    assert len(result.stages) == 1
    assert result.log_evidence == pytest.approx(exact(likelihood, SQUARE), abs=0.03)


# --- made to break it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["jump", "kink", "chaotic"])
def test_it_is_not_confidently_wrong_where_outputs_are_not_smooth(name):
    likelihood = tbq.GaussianLikelihood(ROUGH[name], DATA, 0.05)
    result = run(likelihood, max_evaluations=26, population=1024)
    error = abs(result.log_evidence - exact(likelihood, SQUARE, 1500))
    assert not (result.converged and error > 3.0 * result.log_evidence_sd)
    if name != "kink":
        assert not result.converged


@pytest.mark.parametrize("how", [{}, {"n_initial": 11, "batch_size": 5}], ids=["one by one", "fives from eleven on"])
def test_it_falls_back_where_only_the_outputs_are_rough(how):
    """Two outputs that change places, of equal data: the log-likelihood does not see it."""

    def swapped(theta):
        pair = np.stack([theta[..., 0], 4.0 / 3.0 * theta[..., 1]], axis=-1)
        swap = np.sin(40.0 * theta[..., 0] + 30.0 * theta[..., 1]) > 0
        return np.where(swap[..., None], pair[..., ::-1], pair)

    likelihood = tbq.GaussianLikelihood(swapped, [0.5, 0.5], 0.1)
    result = run(likelihood, max_evaluations=60, population=512, **how)
    assert isinstance(result.surrogate, LogNormal)
    assert "the log-likelihoods were learned instead" in result.notes[0]
    assert "learned instead" in result.summary()
    assert result.converged
    assert result.log_evidence == pytest.approx(exact(likelihood, SQUARE), abs=3.0 * result.log_evidence_sd)


# --- the same behind ask and tell, and behind a journal -----------------------------------------------------


def test_a_session_that_is_told_outputs_learns_them(tmp_path):
    likelihood = tbq.GaussianLikelihood(smooth, DATA, 0.1)
    session = tbq.Session(SQUARE, seed=1, likelihood=likelihood, population=512)
    while not session.done:
        for p in session.ask(2 if session.evaluations else 10):
            value, outputs = likelihood.evaluate(p.theta)
            session.tell(p.id, log_likelihood=value, outputs=outputs)
    result = session.result()
    assert isinstance(result.surrogate, Outputs)
    assert result.log_evidence == pytest.approx(exact(likelihood, SQUARE), abs=0.03)
    assert result.likelihood is likelihood
    result.save(tmp_path / "a.tbq")
    loaded = tbq.load(tmp_path / "a.tbq", likelihood=likelihood)
    assert loaded.log_density([0.4, 0.3]) == pytest.approx(result.log_density([0.4, 0.3]), rel=1e-9)
    assert loaded.predict(n=5, seed=0).draws.shape == (5, len(DATA))


def test_a_warm_start_raises_the_budget_of_both_surrogates():
    likelihood = tbq.GaussianLikelihood(smooth, DATA, 0.1)
    first = run(likelihood, population=512, max_evaluations=12)
    session = tbq.Session(SQUARE, likelihood=likelihood, warm_start=first, max_evaluations=20)
    settings = session.state.settings
    assert settings.max_evaluations == settings.otherwise.max_evaluations == 32


def test_an_interrupted_run_goes_on_with_the_outputs_of_its_journal(tmp_path):
    likelihood = tbq.GaussianLikelihood(smooth, DATA, 0.1)
    whole = run(likelihood, population=512)
    calls = []

    def dying(theta):
        calls.append(theta)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return smooth(theta)

    with pytest.raises(KeyboardInterrupt):
        run(tbq.GaussianLikelihood(dying, DATA, 0.1), population=512, journal=tmp_path)
    resumed = run(likelihood, population=512, journal=tmp_path)
    assert resumed.n_evaluations == whole.n_evaluations
    assert resumed.log_evidence == pytest.approx(whole.log_evidence, rel=1e-12)


def test_a_second_data_set_needs_few_new_runs():
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples/new_data.py"))
    first, second = example["main"]()
    assert sum(e.origin != "earlier" for e in second.evaluations) <= 5
    assert second.n_evaluations >= first.n_evaluations
    for result in (first, second):  # amplitude and level in closed form, well inside their ranges; the rate on a grid
        observed, noise = result.likelihood.observed, example["NOISE"]
        rates, logs = np.linspace(0.2, 2.0, 2001), []
        for rate in rates:
            X = np.column_stack([np.exp(-rate * example["TIMES"]), np.ones(20)])
            _, misfit, _, _ = np.linalg.lstsq(X, observed, rcond=None)
            width = np.log(2 * np.pi * noise**2) - 0.5 * np.linalg.slogdet(X.T @ X)[1]
            logs.append(width - 0.5 * misfit[0] / noise**2 - 10 * np.log(2 * np.pi * noise**2))
        exact = np.log(np.trapezoid(np.exp(np.array(logs) - max(logs)), rates) / 1.8 / 1.5) + max(logs)
        assert result.log_evidence == pytest.approx(exact, abs=min(3 * result.log_evidence_sd, 0.05))
