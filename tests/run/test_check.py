"""The look before the night notices what would waste it."""

import itertools

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.run import check as rules

PRIOR = tbq.Prior({"k": stats.uniform(0.5, 1.0), "m": stats.norm(2.0, 0.1)})


def gaussian(model, observed=(1.0, 2.0), noise=0.1):
    return tbq.GaussianLikelihood(model, observed, noise)


def test_a_likelihood_without_fault_passes():
    found = tbq.check(gaussian(lambda t: t), PRIOR, workers=4)
    assert found.ok, found.warnings
    assert [run.theta.shape for run in found.runs] == [(2,)] * 4
    np.testing.assert_allclose(found.runs[0].theta, [1.0, 2.0])
    assert found.log_likelihoods[0] == pytest.approx(gaussian(lambda t: t)(np.array([1.0, 2.0])))
    assert "Nothing wrong was seen." in str(found)
    assert "the whole budget of 200 runs" in found.forecast


COUNTER = itertools.count()


def fails_at_draws(theta):
    if theta[0] != 1.0:
        raise ValueError("mesh tangled")
    return theta


@pytest.mark.parametrize(
    ("likelihood", "words"),
    [
        (gaussian(lambda t: np.array([t[0], 3.0]), (1.0, 3.0)), "Output y2 is the same at 3 different theta"),
        (gaussian(lambda t: np.array([1.0, 2.0])), "does the simulator read its parameters?"),
        (lambda t: -3.0, "gave the same log-likelihood"),
        (lambda t: -float(t[0]) - 1e-3 * next(COUNTER), "the model is not deterministic"),
        (lambda t: float(np.exp(-0.5 * np.sum((t - 3.0) ** 2) / 0.01)), "look like likelihoods: return their natural"),
        (lambda t: float(np.exp(-0.5 * np.sum((t - 1.0) ** 2))), "look like likelihoods"),
        (lambda t: t, "The log-likelihood returned 2 numbers, not one"),
        (lambda t: np.nan, "returned nan at 3 of 3 theta, which counts as a failed run"),
        (lambda t: -float(t[0]) if t[0] == 1.0 else np.inf, "returned inf at 2 of 3 theta"),
        (lambda t: -np.inf, "The likelihood is zero (log-likelihood −inf) at all 3 theta"),
        (gaussian(lambda t: t, (1.0, 2000.0)), "Datum y2 is far outside what the prior predicts"),
        (gaussian(lambda t: 1e3 * t[:1], (1.0,)), "All runs are very far from the data"),
        (gaussian(fails_at_draws), "The run at a draw of the prior failed: "),
    ],
)
def test_what_would_waste_the_night_is_said(likelihood, words):
    found = tbq.check(likelihood, PRIOR)
    assert not found.ok
    assert words in " ".join(found.warnings), found.warnings
    assert len(found.warnings) == (2 if "draw of the prior failed" in words else 1)


def test_log_likelihoods_that_are_positive_are_not_taken_for_likelihoods():
    assert tbq.check(lambda t: 5.0 - float(t[0]), PRIOR).ok
    assert tbq.check(lambda t: -float(t[0]), PRIOR).ok


def test_a_long_run_is_not_repeated(monkeypatch):
    monkeypatch.setattr(rules, "_PATIENCE", 0.0)
    assert len(tbq.check(lambda t: -float(t[0]), PRIOR).runs) == 3


def test_a_program_that_cuts_its_fields_is_noticed(tmp_path):
    script = tmp_path / "sim.py"
    script.write_text("import sys\nk = float(open('in.txt').read()[:12])\nprint(k)\n")
    (tmp_path / "in.txt").write_text("{k}")
    (tmp_path / "case.toml").write_text(
        f"""
[parameters]
k = {{distribution = "normal", mean = 1.2345678912e-9, sd = 1e-10}}
[model]
command = ["python3", "{script}"]
template = "in.txt"
output = "stdout.txt"
[data]
observed = [1e-9]
noise = 1e-10
"""
    )
    from typer.testing import CliRunner

    from tbq.cli.app import app

    done = CliRunner().invoke(app, ["check", str(tmp_path / "case.toml")])
    assert done.exit_code == 0, done.output
    assert "! Theta written with 6 digits instead of 12 gave other outputs" in done.output
    assert "Look at what begins with !" in done.output
    (tmp_path / "in.txt").write_text("{k:10.3e}")
    assert "Nothing wrong was seen." in CliRunner().invoke(app, ["check", str(tmp_path / "case.toml")]).output


def test_wrong_arguments_are_named():
    with pytest.raises(tbq.TbqError, match="log_likelihood must be a function of theta; got int"):
        tbq.check(3, PRIOR)
    with pytest.raises(tbq.TbqError, match=r"prior must be a tbq\.Prior"):
        tbq.check(lambda t: 0.0, {})
