"""A folder is a result: read, steered, compared, predicted from, verified and exported, in Python and by commands."""

import csv
import json
import re
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from test_app import COUNT, EXACT, cli, spring  # noqa: F401 - the fixture
from typer.testing import CliRunner

import tbq
from tbq.cli.app import app
from tbq.run import journal

PRIOR = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.lognorm(0.5, scale=2.0)})


def log_likelihood(theta):
    return -0.5 * float(np.sum(((theta - [0.3, 2.0]) / [0.3, 0.4]) ** 2))


def loaded(output):
    return json.loads(output[output.index("{") :])


# --- reading ------------------------------------------------------------------------------------------------


def test_a_finished_folder_is_its_result(spring, tmp_path, monkeypatch):  # noqa: F811
    assert cli("run", spring()).exit_code == 0
    folder = tmp_path / "runs/spring"
    stored, from_folder = tbq.load(folder / "result.tbq"), tbq.load(folder)
    assert stored.log_evidence == from_folder.log_evidence
    assert from_folder.converged
    (folder / "result.tbq").unlink()
    replayed = tbq.load(str(folder))
    assert replayed.log_evidence == stored.log_evidence
    np.testing.assert_array_equal(replayed.samples, stored.samples)
    assert replayed.predict(n=5, seed=0).outputs.shape == (5, 1)  # its model is loaded when it is needed


def test_a_folder_whose_data_were_changed_is_refused(spring, tmp_path):  # noqa: F811
    assert cli("run", spring()).exit_code == 0
    folder = tmp_path / "runs/spring"
    case = (folder / "case.toml").read_text()
    changed = re.sub(r"(observed = \[\s*)[0-9.]+", r"\g<1>1.3", case)
    assert changed != case
    (folder / "case.toml").write_text(changed)
    for command in ("resume", "report", "verify", "predict"):
        done = cli(command, folder)
        assert done.exit_code == 2, command
        assert "was made with other data or another noise: the outputs of run 0 had the log-likelihood" in done.output
    (folder / "case.toml").write_text(case)
    assert cli("resume", folder).exit_code == 0


def test_reading_a_folder_runs_nothing_of_it(spring, tmp_path):  # noqa: F811
    assert cli("run", spring()).exit_code == 0
    module = next(tmp_path.glob("spring_*.py"))
    sys.modules.pop(module.stem)
    module.write_text("raise SystemExit('I was run')\n")
    assert tbq.load(tmp_path / "runs/spring").converged


def test_a_folder_that_went_on_is_not_what_it_was(spring, tmp_path):  # noqa: F811
    assert cli("run", spring("return theta", ("max_evaluations = 40", "max_evaluations = 12"))).exit_code == 3
    folder = tmp_path / "runs/spring"
    old = (folder / "result.tbq").read_bytes()
    assert cli("resume", folder, "--max-evaluations", 40).exit_code == 0
    new = tbq.load(folder)
    (folder / "result.tbq").write_bytes(old)
    assert tbq.load(folder).n_evaluations == new.n_evaluations > 12
    (folder / "result.tbq").write_bytes(b"PK")
    assert tbq.load(folder).n_evaluations == new.n_evaluations


def test_a_folder_of_python_that_is_not_finished(tmp_path):
    with tbq.Session(PRIOR, journal=tmp_path, seed=0, population=256) as session:
        for p in session.ask(14):
            session.tell(p.id, log_likelihood=log_likelihood(p.theta))
        session.ask()
        known = session.result()
    result = tbq.load(tmp_path)
    assert result.stop is tbq.Stop.UNFINISHED
    assert result.log_evidence == known.log_evidence
    np.testing.assert_array_equal(result.prior.log_density(result.samples), PRIOR.log_density(result.samples))


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (tbq.Prior(PRIOR.marginals, constraint=lambda t: t[0] < 1.5), "has a constraint, which no file holds; give it"),
        (tbq.Prior({**PRIOR.marginals, "b": stats.norm(1, 3)}), ""),
    ],
)
def test_what_a_journal_does_not_hold_is_asked_for(tmp_path, prior, message):
    with tbq.Session(prior, journal=tmp_path, seed=0) as session:
        session.ask()
    if message:
        with pytest.raises(tbq.TbqError, match=message):
            tbq.load(tmp_path)
    assert tbq.load(tmp_path, prior=prior).n_evaluations == 0
    with pytest.raises(tbq.TbqError, match="prior must be that of"):
        tbq.load(tmp_path, prior=PRIOR)


def test_outputs_need_their_likelihood(tmp_path):
    likelihood = tbq.GaussianLikelihood(lambda theta: theta, [0.3, 2.0], [0.3, 0.4])
    result = tbq.infer(likelihood, PRIOR, journal=tmp_path, seed=0, population=256)
    with pytest.raises(tbq.TbqError, match=r"learned the outputs .*; give it: tbq.load\(path, likelihood=...\)"):
        tbq.load(tmp_path)
    assert tbq.load(tmp_path, likelihood=likelihood).log_evidence == result.log_evidence


def test_what_is_in_force_is_the_same_everywhere(tmp_path):
    likelihood = tbq.GaussianLikelihood(lambda theta: theta, [0.3, 2.0], [0.3, 0.4])
    options = {"journal": tmp_path, "seed": 0, "population": 256}
    tbq.infer(likelihood, PRIOR, tolerance=0.08, **options)
    result = tbq.infer(likelihood, PRIOR, tolerance=0.04, **options)
    assert result.options["tolerance"] == pytest.approx([np.inf, 0.04])
    assert result.options["tolerance_in_use"] == pytest.approx([np.inf, 0.01])
    assert "tolerance 0.04 (0.01 where outputs are learned), at most 200 runs" in " ".join(result.summary().split())
    account = cli("status", tmp_path).output
    assert "in force       tolerance 0.04 (0.01 where outputs are learned), at most 200 runs, seed 0" in account
    result.save(tmp_path / "r.tbq")
    assert tbq.load(tmp_path / "r.tbq").options == result.options


# --- steering -----------------------------------------------------------------------------------------------


def test_resume_steers_and_the_case_file_says_so(spring, tmp_path):  # noqa: F811
    path = spring(COUNT, ("max_evaluations = 40", "max_evaluations = 12"))
    assert cli("run", path).exit_code == 3
    folder = tmp_path / "runs/spring"
    done = cli("resume", folder, "--max-evaluations", 60, "--tolerance", 0.001, "--workers", 2)
    assert done.exit_code in (0, 3), done.output
    assert len((tmp_path / "calls").read_text()) == len(journal.read(folder).evaluations) > 12
    text = (folder / "case.toml").read_text()
    assert "max_evaluations = 60" in text
    assert "workers = 2" in text
    assert "tolerance = 0.001\n" in text
    assert "tolerance 0.001, at most 60 runs" in cli("status", folder).output
    again = cli("resume", folder)
    assert again.exit_code == done.exit_code  # what was steered stays
    refused = cli("resume", folder, "--tolerance", 2)
    assert refused.exit_code == 2
    assert "run.tolerance must be a number between 0 and 1" in refused.output


def test_a_refused_change_is_not_in_the_case_file(spring, tmp_path):  # noqa: F811
    assert cli("run", spring("return theta", ("max_evaluations = 40", "max_evaluations = 12"))).exit_code == 3
    folder = tmp_path / "runs/spring"
    before = tomllib.loads((folder / "case.toml").read_text())
    other = journal.Journal(folder)
    refused = cli("resume", folder, "--tolerance", 0.2, "--workers", 2)
    other.close()
    assert refused.exit_code == 2
    assert "is in use by another run" in refused.output
    assert tomllib.loads((folder / "case.toml").read_text()) == before
    assert "tolerance 0.04, " in cli("status", folder).output


def test_a_budget_below_the_runs_made_is_explained(spring, tmp_path):  # noqa: F811
    assert cli("run", spring("return theta", ("max_evaluations = 40", "max_evaluations = 12"))).exit_code == 3
    done = cli("resume", tmp_path / "runs/spring", "--max-evaluations", 5)
    assert "12 runs were made and count: with --max-evaluations 5 no other is." in done.output


def test_a_changed_case_is_refused_by_the_one_thing_that_differs(spring, tmp_path):  # noqa: F811
    cli("run", spring("return theta", ("max_evaluations = 40", "max_evaluations = 12")))
    case = tmp_path / "runs/spring/case.toml"
    case.write_text(case.read_text().replace("high = 2.0", "high = 2.5"))
    refused = cli("resume", case.parent)
    assert refused.exit_code == 2
    words = "the prior of k was uniform(loc = 0.0, scale = 2.0), is uniform(loc = 0.0, scale = 2.5)"
    assert words in refused.output
    assert "tuning" not in refused.output


# --- using --------------------------------------------------------------------------------------------------


@pytest.fixture
def two(spring, tmp_path):  # noqa: F811
    """Two models of the same datum: of a right and of a wrong scale."""
    for name, body in (("good", "return theta"), ("bad", "return 3.0 * theta + 1.0")):
        sys.modules.pop(f"spring_{tmp_path.name.replace('-', '_')}", None)
        assert cli("run", spring(body), "--out", tmp_path / name).exit_code == 0
    return tmp_path / "good", tmp_path / "bad"


def test_folders_are_compared(two):
    done = cli("compare", *two)
    assert done.exit_code == 0, done.output
    assert re.search(r"^good +-0.69\d ± ", done.output, re.M)
    assert "The evidence for good over bad is" in done.output
    found = loaded(cli("compare", *two, "--json").output)
    assert found["models"]["good"]["log_evidence"] == pytest.approx(np.log(EXACT), abs=0.05)
    assert found["models"]["good"]["probability"] > 0.5
    alone = cli("compare", two[0])
    assert alone.exit_code == 2
    assert "give the folders of two or more runs, each once" in alone.output


def test_predict_verify_and_export(spring, tmp_path):  # noqa: F811
    good = tmp_path / "good"
    assert cli("run", spring(), "--out", good).exit_code == 0
    predicted = cli("predict", good, "-n", 20, "--seed", 1, "--csv", tmp_path / "draws.csv")
    assert predicted.exit_code == 0, predicted.output
    assert "20 posterior draws, with the likelihood's noise" in predicted.output
    assert len((tmp_path / "draws.csv").read_text().splitlines()) == 21
    found = loaded(cli("predict", good, "-n", 20, "--json").output)
    assert found["outputs"]["y1"]["mean"] == pytest.approx(1.2, abs=0.2)
    verified = loaded(cli("verify", good, "-n", 10, "--seed", 1, "--json").output)
    assert verified["agrees"]
    assert "10 true runs agree with the surrogate" in cli("verify", good, "-n", 10, "--seed", 1).output
    files = {name: tmp_path / f"out.{name}" for name in ("csv", "json", "runs")}
    exported = cli("export", good, *(x for name, path in files.items() for x in (f"--{name}", path)))
    assert exported.exit_code == 0, exported.output
    result = tbq.load(good)
    draws = np.genfromtxt(files["csv"], delimiter=",", names=True)
    np.testing.assert_array_equal(draws["k"], result.samples[:, 0])
    runs = list(csv.DictReader(files["runs"].read_text().splitlines()))
    assert [float(r["k"]) for r in runs] == [e.theta[0] for e in result.evaluations]
    found = json.loads(files["json"].read_text())
    assert found["log_evidence"] == result.log_evidence
    assert found["parameters"]["k"]["mean"] == pytest.approx(1.2, abs=0.05)
    assert loaded(cli("export", good, "--json", "-").output)["n_evaluations"] == result.n_evaluations
    nothing = cli("export", good)
    assert nothing.exit_code == 2
    assert "give --csv FILE" in nothing.output


def test_netcdf(two, tmp_path):
    xarray = pytest.importorskip("xarray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cli("export", two[0], "--netcdf", tmp_path / "r.nc").exit_code == 0
        tree = xarray.open_datatree(tmp_path / "r.nc", engine="h5netcdf")
    assert tree["posterior"]["k"].size > 100
    tree.close()


def test_commands_that_report_speak_json(two, tmp_path):
    folder = two[0]
    status = loaded(cli("status", folder, "--json").output)
    assert (status["state"], status["stop"], status["runs"]["running"]) == ("converged", "converged", 0)
    again = CliRunner().invoke(app, ["resume", str(folder), "--json"])
    found = loaded(again.stdout)
    assert again.exit_code == found["exit_code"] == 0
    assert found["converged"]
    assert found["findings"]
    report = loaded(cli("report", folder, "--json").output)
    assert Path(report["report"]).exists()
    assert loaded(cli("problems", "--json").output)["u1"]["parameters"]


def test_the_version():
    assert cli("--version").output == f"tbq {tbq.__version__}\n"
