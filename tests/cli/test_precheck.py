"""The look before a long run: what one run of the model means for the data."""

import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import tbq
from tbq.cli import precheck
from tbq.cli.app import app


def test_two_experiments_are_each_measured_by_their_own_noise():
    force = tbq.GaussianLikelihood(lambda theta: theta[:1] * [1.0, 2.0, 3.0], [1.0, 2.5, 3.0], 0.1)
    sag = tbq.GaussianLikelihood(lambda theta: theta[1:], [4.0, 6.0], [0.5, 1.0], scale=lambda theta: theta[0])
    theta = np.array([2.0, 5.0, 3.0])
    likelihood = force + sag
    _, outputs = likelihood.evaluate(theta)
    lines = "\n".join(precheck._compare(likelihood, theta, outputs)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.split() == ["output", "observed", "off", "by"]) + 1
    assert [line.split()[0] for line in lines[start : start + 5]] == ["y1", "y2", "y3", "y4", "y5"]
    found = np.array([line.split()[1:] for line in lines[start : start + 5]], dtype=float)
    np.testing.assert_allclose(found[:, 0], [2.0, 4.0, 6.0, 5.0, 3.0])
    np.testing.assert_allclose(found[:, 1], [1.0, 2.5, 3.0, 4.0, 6.0])
    np.testing.assert_allclose(found[:, 2], [10.0, 15.0, 30.0, 1.0, -1.5])
    assert any(f"log-likelihood is {likelihood(theta):.6g}" in line for line in lines)


def test_another_number_of_outputs_is_told():
    likelihood = tbq.GaussianLikelihood(np.sum, [1.0], 0.1) + tbq.GaussianLikelihood(np.sum, [2.0], 0.1)
    with pytest.raises(tbq.TbqError, match=r"returned 3 numbers, but data\.observed has 2"):
        list(precheck._compare(likelihood, np.ones(2), np.ones(3)))


def test_a_template_without_room_is_told_before_the_run_that_it_spoils(tmp_path):
    (tmp_path / "deck.inp").write_text("MAT1{k}{k}\n")
    (tmp_path / "sim.py").write_text("import sys; sys.exit('cannot read MAT1')\n")
    (tmp_path / "case.toml").write_text(
        f"""
        [parameters]
        k = {{distribution = "uniform", low = 0.0, high = 2.0}}
        [model]
        command = ["{sys.executable}", "sim.py"]
        template = "deck.inp"
        files = ["sim.py"]
        output = "out.txt"
        returns = "log_likelihood"
        """
    )
    done = CliRunner().invoke(app, ["check", str(tmp_path / "case.toml")])
    assert done.exit_code == 2
    assert "! deck.inp, line 1: {k} touches what stands beside it" in done.output
    assert "cannot read MAT1" in done.output


def test_a_run_at_the_prior_mean_that_fails_does_not_end_the_check(tmp_path):
    (tmp_path / "sim.py").write_text(
        """
import sys
k = float(open("k.txt").read())
if k == 1.0:
    sys.exit("singular matrix")
open("out.txt", "w").write(f"{-k * k}")
"""
    )
    (tmp_path / "k.txt").write_text("{k}\n")
    (tmp_path / "case.toml").write_text(
        f"""
        [parameters]
        k = {{distribution = "uniform", low = 0.0, high = 2.0}}
        [model]
        command = ["{sys.executable}", "sim.py"]
        template = "k.txt"
        files = ["sim.py"]
        output = "out.txt"
        returns = "log_likelihood"
        """
    )
    done = CliRunner().invoke(app, ["check", str(tmp_path / "case.toml")])
    assert done.exit_code == 0, done.output
    assert "At the prior mean it failed: " in done.output
    assert "singular matrix" in done.output
    assert "At draw 2: 1 number after" in done.output
    assert "! The run at the prior mean failed: " in done.output
    assert "Look at what begins with !" in done.output
