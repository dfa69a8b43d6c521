"""The command line and the reproduction study, on its cheapest rows."""

import numpy as np
import pytest
from typer.testing import CliRunner

import tbq
from tbq.bench import paper
from tbq.cli.app import app

RUNNER = CliRunner()


def test_the_papers_tables_are_all_there():
    rows = paper.paper_rows()
    assert len(rows) == 53
    assert {r.table for r in rows} >= {"Result2D_BQ", "Result2D_TBQ", "Result10D", "Result3Dof", "Result2DOF"}
    best = next(r for r in rows if r.method == "TBQ-PEUR" and r.problem == "u3")
    assert (best.n_call, best.relative_error, best.cov) == (53.1, 0.0399, 0.0393)


def test_cases_can_be_filtered():
    assert len(paper.cases("Result2D_BQ", settings=("paper",))) == 16
    assert {c.acquisition for c in paper.cases("Result10D")} == {"puq", "pvc", "plur", "peur", "interval"}
    assert [c.problem for c in paper.cases(problem="u2", acquisition="peur", settings=("default",))] == ["u2", "u2"]
    assert [c.method for c in paper.cases("ResultBattery", settings=("paper",))][-1] == "TBQ-PEUR"
    with pytest.raises(tbq.TbqError, match=r"table must be one of .* got 'Result9'"):
        paper.cases("Result9")


def test_a_study_is_written_and_picked_up_where_it_stopped(tmp_path):
    cases = paper.cases("Result2D_TBQ", "u2", "puq")
    progress = []
    runs = paper.study(cases, range(1), 1, tmp_path, progress.append)
    assert progress == [0, 1, 2]
    assert [r.setting for r in runs] == ["paper", "default"]
    assert all(abs(r.relative_error) < 0.25 and r.converged for r in runs)
    stored = paper.read_runs(tmp_path / "paper_runs.csv")
    assert [paper.key(r) for r in stored] == [paper.key(r) for r in runs]
    assert stored[0].evidence == pytest.approx(runs[0].evidence, rel=1e-5)

    before = (tmp_path / "paper_runs.csv").read_text()
    again = paper.study(cases, range(1), 1, tmp_path, progress.append)
    assert progress[3:] == [2]
    assert [r.calls for r in again] == [r.calls for r in runs]
    assert (tmp_path / "paper_runs.csv").read_text() == before
    table = (tmp_path / "paper.md").read_text()
    assert "| u2 | TBQ-PUQ | paper | 31.9 | 0.1246 | 2.6 % |" in table
    assert "as printed, 1 runs" in table
    assert "default, 1 runs" in table


def test_the_command_line(tmp_path):
    listed = RUNNER.invoke(app, ["problems"])
    assert listed.exit_code == 0
    assert "u3" in listed.output
    arguments = ["bench", "paper", "--problem", "u2", "--table", "Result2D_BQ", "--acquisition", "puq"]
    options = ["--settings", "paper", "--repeats", "1", "--jobs", "1", "--out", str(tmp_path)]
    done = RUNNER.invoke(app, arguments + options)
    assert done.exit_code == 0, done.output
    assert "BQ-PUQ" in done.output
    assert "as printed, 1 runs" in done.output
    wrong = RUNNER.invoke(app, ["bench", "paper", "--table", "Result9"])
    assert wrong.exit_code == 2
    empty = RUNNER.invoke(app, ["bench", "paper", "--problem", "u9"])
    assert empty.exit_code == 2


def test_mode_errors_and_missing_numbers_are_written_plainly():
    assert paper._n(np.nan, ".3f") == ""
    assert paper._percent(0.0123) == "1.2 %"
    assert paper._percent(np.nan) == ""
