"""Numbers at the ends of what floats can hold: summaries and reports say them, and what was lost."""

import re

import numpy as np
import pytest
from scipy import stats

import tbq

OPTIONS = {"seed": 0, "max_evaluations": 14, "population": 200, "progress": False}


def prior(scale=1.0):
    return tbq.Prior({"a": stats.uniform(0, scale), "b": stats.norm(0, scale)})


def bowl(theta, scale=1.0):
    return -12.5 * (theta[0] / scale - 0.5) ** 2 - 2.0 * (theta[1] / scale) ** 2


def failed(result):
    return {f.name: f for f in tbq.diagnostics.findings(result) if not f.ok}


@pytest.mark.parametrize("scale", [1e160, 1e-300])
def test_parameters_of_any_scale_are_summarised_as_those_of_scale_one(scale, tmp_path):
    wanted = tbq.infer(bowl, prior(), **OPTIONS)
    result = tbq.infer(lambda theta: bowl(theta, scale), prior(scale), **OPTIONS)
    assert result.log_evidence == pytest.approx(wanted.log_evidence, abs=1e-6)
    for row, expected in zip(tbq.summary.marginals(result), tbq.summary.marginals(wanted), strict=True):
        for name in ("mean", "sd", "low", "median", "high", "mode"):
            assert getattr(row, name) / scale == pytest.approx(getattr(expected, name), abs=2e-3)
    assert "inf" not in result.summary().replace("inference", "")
    assert "nan" not in result.summary()
    result.report(tmp_path / "r.html")


@pytest.mark.parametrize("value", [1e99, -1e99])
def test_an_evidence_beyond_all_floats_is_said(value, tmp_path):
    result = tbq.infer(lambda theta: value, prior(), **OPTIONS)
    text = result.summary()
    assert max(map(len, text.splitlines())) < 200
    assert f"log evidence   {value:.10g} ± 0.00" in text
    assert f"evidence       10^({value / np.log(10.0):.4g}), coefficient of variation 0." in text
    result.report(tmp_path / "r.html")
    assert f"{value:.10g}" in (tmp_path / "r.html").read_text()
    assert {"digits", "constant"} <= set(failed(result))


@pytest.mark.parametrize(("offset", "lost"), [(0.0, False), (-1e6, False), (1e12, False), (1e14, True), (-1e17, True)])
def test_digits_that_an_offset_takes_are_said(offset, lost):
    result = tbq.infer(lambda theta: offset + bowl(theta), prior(), **OPTIONS)
    found = failed(result)
    assert ("digits" in found) == lost
    if lost:
        apart = f"{np.spacing(abs(offset)):.2g}"
        assert f"The best log-likelihood is {offset:.3g}, where floats lie {apart} apart" in found["digits"].sentence
        assert "Do not rely on this yet" in result.summary()
        assert "its digits are lost. Leave out a constant of the log-likelihood" in " ".join(result.summary().split())


def test_a_simulator_that_returns_one_number_whatever_it_is_given_is_told():
    result = tbq.infer(lambda theta: -3.25, prior(), **OPTIONS)
    text = result.summary()
    words = "constant: Every run returned the same number, -3.25, whatever theta was. Does the simulator read theta?"
    assert words in " ".join(text.split())
    assert "Look twice: 1 of" in text
    same = tbq.GaussianLikelihood(lambda theta: [1.0, 2.0], [1.5, 2.0], 0.3, scale=lambda theta: 1.0 + theta[0])
    result = tbq.infer(same, prior(), **OPTIONS)  # log-likelihoods differ by the noise alone
    assert len({e.log_likelihood for e in result.evaluations}) > 1
    assert failed(result)["constant"].sentence == "Every run returned the same numbers, whatever theta was."
    one = tbq.infer(lambda theta: -3.25 if theta[0] < 0.9 else -3.26, prior(), **OPTIONS)
    assert "constant" not in failed(one)


@pytest.mark.parametrize("outputs", [True, False])
def test_thirty_parameters_run(outputs):
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(4, 30)) / np.sqrt(30.0)
    many = tbq.Prior({f"x{i}": stats.norm(0, 1) for i in range(30)})
    likelihood = tbq.GaussianLikelihood(lambda theta: slopes @ theta, np.full(4, 0.5), 0.3)
    exact = stats.multivariate_normal(np.zeros(4), slopes @ slopes.T + 0.09 * np.eye(4)).logpdf(np.full(4, 0.5))
    budget = {"max_evaluations": 40} if outputs else {"n_initial": 35, "max_evaluations": 35, "population": 600}
    result = tbq.infer(likelihood if outputs else likelihood.__call__, many, seed=0, **budget)
    assert len(re.findall(r"^x\d+ ", result.summary(), re.M)) == 30
    if outputs:
        assert result.converged
        assert result.log_evidence == pytest.approx(exact, abs=4.0 * result.log_evidence_sd)
    else:
        assert result.log_evidence_sd > 0.3  # and it says so: so few runs do not tell
        assert "Do not rely on this yet" in result.summary()
