"""Runs with unknown noise: models, brute force, and what the study makes of them."""

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.bench import noise
from tbq.bench.noise_models import CASES, Case


def test_every_case_has_a_stored_reference_of_all_its_parameters():
    stored = noise.references()
    assert stored.keys() == CASES.keys()
    for name, make in CASES.items():
        case = make()
        names = () if case.likelihood.noise_prior is None else case.likelihood.noise_prior.names
        assert len(stored[name].mean) == len(stored[name].sd) == case.prior.dim + len(names)
        assert stored[name].log_evidence_sd < 0.01


def test_brute_force_is_the_integral_of_a_mean_with_unknown_noise():
    data = np.array([0.3, 0.9, 0.4, 0.7, 0.1])
    lik = tbq.GaussianLikelihood(lambda theta: np.repeat(theta, 5, axis=-1), data, stats.loguniform(0.1, 2.0))
    found = noise.reference(Case("mean", tbq.Prior({"m": stats.norm(0, 1)}), lik, 0), n=500, steps=4, final=8000)

    m, log_s = np.linspace(-1.5, 2.5, 801)[:, None], np.linspace(np.log(0.1), np.log(2.0), 401)
    squares = np.sum((data - m) ** 2, axis=1)[:, None]
    density = np.exp(-0.5 * squares * np.exp(-2.0 * log_s) - 5 * (log_s + 0.5 * np.log(2 * np.pi)))
    density *= stats.norm(0, 1).pdf(m) / np.log(20.0)
    exact = np.trapezoid(np.trapezoid(density, log_s, axis=1), m[:, 0])
    assert found.log_evidence == pytest.approx(np.log(exact), abs=5.0 * found.log_evidence_sd)
    assert found.log_evidence_sd < 0.02


def test_brute_force_takes_the_outputs_that_the_data_are_of():
    def model(theta):
        return np.concatenate([100.0 + theta, theta, 2.0 * theta], axis=-1)

    data, prior = np.array([0.4, 1.1, 0.6]), tbq.Prior({"m": stats.norm(0, 1)})
    known = stats.uniform(0.299, 0.002)  # as good as
    found = noise.reference(
        Case("some", prior, tbq.GaussianLikelihood(model, data, known, index=[1, 2, 1]), 0), n=500, steps=4, final=4000
    )
    covariance = 0.3**2 * np.eye(3) + np.outer([1.0, 2.0, 1.0], [1.0, 2.0, 1.0])
    exact = stats.multivariate_normal(np.zeros(3), covariance).logpdf(data)
    assert found.log_evidence == pytest.approx(exact, abs=0.02)


def test_a_study_is_kept_goes_on_and_is_reported(tmp_path, monkeypatch):
    row = noise.study(["decay"], [1], tmp_path)[0]
    assert (row.parameters, row.noise, row.converged) == (2, 1, True)
    assert abs(row.error) < 3.0 * row.stated
    assert row.off < 0.3
    monkeypatch.setattr(noise, "run", None)  # nothing is missing
    assert noise.study(["decay"], [1], tmp_path)[0].calls == row.calls
    assert f"| decay | 2 | 1 | 1 | {row.calls:.1f}" in (tmp_path / "noise.md").read_text()
