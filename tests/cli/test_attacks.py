"""Hostile case files and folders: what is loaded or looked at runs nothing, and what is wrong is said."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w
from fuzz_cases import CASES
from scipy import stats
from typer.testing import CliRunner

import tbq
from tbq.cli import casefile
from tbq.cli.app import app

SCRIPT = Path(__file__).parents[1] / "fuzz_cases.py"


def cli(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def folder(tmp_path):
    """A folder of a run whose model leaves a mark wherever it is imported or run."""
    (tmp_path / "hostile_model.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\ndef force(theta): return theta\n"
    )
    (tmp_path / "noise.csv").write_text("sd\n0.1\n0.2\n")
    (tmp_path / "case.toml").write_text(tomli_w.dumps(CASES[0]))
    case = casefile.load(tmp_path / "case.toml")
    likelihood = case.log_likelihood(lambda theta: theta)
    with tbq.Session(case.prior(), seed=3, journal=tmp_path, likelihood=likelihood, max_evaluations=40) as session:
        for p in session.ask(4):
            value, outputs = likelihood.evaluate(p.theta)
            session.tell(p.id, log_likelihood=value, outputs=outputs)
    return tmp_path


def test_looking_at_a_folder_runs_nothing(folder):
    for command in ("status", "report"):
        done = cli(command, folder)
        assert done.exit_code == 0, done.output
    assert (folder / "report.html").exists()
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("name", ["test", "rv_continuous", "gaussian_kde", "__class__", "poisson", "qmc"])
def test_distributions_are_chosen_from_a_list(folder, name):
    text = (folder / "case.toml").read_text().replace("uniform", name)
    (folder / "case.toml").write_text(text)
    with pytest.raises(casefile.CaseError, match=rf"parameters\.k: distribution '{name}' is not known"):
        casefile.load(folder / "case.toml")


@pytest.mark.parametrize("output", ["../journal.jsonl", "/etc/passwd", "a/../../b"])
def test_outputs_lie_within_the_directory_of_the_run(tmp_path, output):
    model = {"command": ["true", "{k}"], "output": output, "returns": "log_likelihood"}
    parameters = {"k": {"distribution": "uniform", "low": 0, "high": 1}}
    (tmp_path / "case.toml").write_text(tomli_w.dumps({"parameters": parameters, "model": model}))
    with pytest.raises(casefile.CaseError, match=r"model\.output must be a file inside the run's directory"):
        casefile.load(tmp_path / "case.toml").simulator()


@pytest.mark.parametrize(
    ("changes", "data", "message"),
    [
        ({"files": ["x" * 5000]}, {}, r"model\.files: there is no file"),
        ({"template": "x" * 5000}, {}, r"model\.template: there is no file"),
        ({"command": ["true", "{k}\0"]}, {}, r"model\.command: no argument may hold a zero byte"),
        ({}, {"observed": {"file": "x" * 5000}, "noise": [1.0]}, r"data\.observed: there is no file"),
    ],
)
def test_names_of_files_that_no_system_takes_are_refused(tmp_path, changes, data, message):
    model = {"command": ["true", "{k}"], "output": "stdout.txt", **changes}
    parameters = {"k": {"distribution": "uniform", "low": 0, "high": 1}}
    case = {"parameters": parameters, "model": model, "data": data or {"observed": [1.0], "noise": [1.0]}}
    (tmp_path / "case.toml").write_text(tomli_w.dumps(case))
    with pytest.raises(casefile.CaseError, match=message):
        casefile.load(tmp_path / "case.toml").simulator()


def test_a_parameter_name_is_not_a_format(tmp_path):
    name = "k.__class__"
    model = {
        "command": ["echo", f"{{{name}}}", "{k}", "$(touch ran)", "%s"],
        "output": "stdout.txt",
        "pattern": r"(\S+) {k}",
    }
    parameters = {name: {"distribution": "uniform", "low": 0, "high": 1}}
    case = {"parameters": parameters, "model": {**model, "returns": "log_likelihood"}}
    (tmp_path / "case.toml").write_text(tomli_w.dumps(case))
    simulator = casefile.load(tmp_path / "case.toml").simulator(tmp_path / "work")
    assert simulator([0.25]).tolist() == [0.25]
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.parametrize("number", ["1" + "0" * 400, "nan", "inf"])
def test_numbers_that_are_none_are_refused(folder, number):
    text = (folder / "case.toml").read_text().replace("high = 2.0", f"high = {number}")
    (folder / "case.toml").write_text(text)
    with pytest.raises(casefile.CaseError, match=r"parameters\.k: high must be a finite number"):
        casefile.load(folder / "case.toml")


def test_names_and_units_that_steer_a_terminal_are_refused(folder):
    for old, new in (("[parameters.k]", r'[parameters."k\u001b[2J"]'), ("N/m", r"N\u0007")):
        text = tomli_w.dumps(CASES[0])
        assert old in text
        (folder / "case.toml").write_text(text.replace(old, new))
        done = cli("check", folder / "case.toml")
        assert done.exit_code == 2
        assert "text on one line" in done.output
        assert "\x1b" not in done.output


def test_no_mutation_of_a_case_gets_anything_but_a_case_or_words():
    # the long version: python tests/fuzz_cases.py 5000 SEED
    done = subprocess.run([sys.executable, str(SCRIPT), "200", "7"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["other"] == []
    assert found["refused"] + found["accepted"] == 200
    assert min(found["refused"], found["accepted"]) > 5


def test_a_report_of_hostile_names_and_messages_is_inert(tmp_path):
    name = '"><script>alert(1)</script>'
    prior = tbq.Prior({name: stats.uniform(0, 1)}, units={name: "</td><img src=x onerror=alert(1)>"})

    def log_likelihood(theta):
        if theta[0] > 0.8:
            raise ValueError("</script><script>alert(2)</script>")
        return -theta[0]

    tbq.infer(log_likelihood, prior, seed=0, max_evaluations=14, population=100).report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<script>alert" not in page
    assert "<img src=x" not in page
