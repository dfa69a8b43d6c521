"""A coarse model in a case file: what it may say, and what is said when it is wrong."""

import numpy as np
import pytest
from typer.testing import CliRunner

import tbq
from tbq.cli import casefile
from tbq.cli.app import app

LEVELS = """
[parameters]
a = {distribution = "uniform", low = 0.2, high = 3.0}
k = {distribution = "uniform", low = 0.1, high = 3.0}

[model]
python = "levels_of_a_test:fine"

[model.coarse]
python = "levels_of_a_test:coarse"
cost = 0.02

[data]
observed = [1.0, 0.6, 0.4]
noise = 0.05
"""

MODELS = """
import numpy as np

TIMES = np.array([0.5, 1.0, 1.5])


def fine(theta):
    return theta[0] * np.exp(-theta[1] * TIMES)


def coarse(theta):
    return theta[0] * (1.0 + 0.25 * theta[1]) ** (-4.0 * TIMES)
"""


def levels_case(tmp_path, text=LEVELS):
    (tmp_path / "levels_of_a_test.py").write_text(MODELS)
    (tmp_path / "case.toml").write_text(text)
    return casefile.load(tmp_path / "case.toml")


def test_a_case_may_have_a_coarse_model(tmp_path):
    case = levels_case(tmp_path)
    likelihood = case.log_likelihood(case.simulator(), case.simulator(level="coarse"))
    assert likelihood.cost == 0.02
    theta = np.array([1.3, 0.8])
    fine, coarse = (likelihood.at(level).evaluate(theta)[1] for level in ("fine", "coarse"))
    np.testing.assert_allclose(fine, 1.3 * np.exp(-0.8 * np.array([0.5, 1.0, 1.5])))
    np.testing.assert_allclose(coarse, 1.3 * 1.2 ** -np.array([2.0, 4.0, 6.0]))
    assert case.settings().coarse
    assert case.settings().n_initial == 5
    again = tmp_path / "again.toml"
    again.write_text(case.to_toml())
    assert casefile.load(again).model.coarse == case.model.coarse


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (LEVELS.replace("cost = 0.02", "cost = 2.0"), "model.coarse.cost"),
        (LEVELS.replace("cost = 0.02", "costs = 0.02"), "model.coarse.costs is not a key; did you mean 'cost'?"),
        (LEVELS.replace("[model.coarse]", "cost = 0.1\n[model.coarse]"), "model.cost has no use here"),
        (LEVELS.replace("cost = 0.02", 'returns = "log_likelihood"'), "model.coarse must return outputs"),
        (LEVELS.replace('python = "levels_of_a_test:coarse"', ""), "model.coarse must have one of the keys"),
    ],
)
def test_what_is_wrong_with_a_coarse_model_is_named(tmp_path, wrong, said):
    with pytest.raises(casefile.CaseError) as error:
        levels_case(tmp_path, wrong)
    assert said in str(error.value)


def test_a_case_with_a_coarse_model_is_run_and_gone_on_with(tmp_path):
    levels_case(tmp_path, LEVELS + "\n[run]\nseed = 1\ntolerance = [0.2, 0.04]\nmax_evaluations = 6\n")
    runner = CliRunner()
    done = runner.invoke(app, ["run", str(tmp_path / "case.toml"), "--out", str(tmp_path / "out")])
    assert done.exit_code in (0, 3), done.output
    text = " ".join((tmp_path / "out" / "summary.txt").read_text().split())
    assert "fine runs and" in text
    assert "coarse ones, which cost 0.02 each" in text
    result = tbq.load(tmp_path / "out")
    assert result.n_coarse >= 16
    shown = runner.invoke(app, ["status", str(tmp_path / "out")])
    assert f"{result.n_coarse} of the coarse model" in " ".join(shown.output.split())
