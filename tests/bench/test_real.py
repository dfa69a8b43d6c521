"""The study of real posteriors: what it writes, reads again and makes tables of."""

import numpy as np
import pytest
from typer.testing import CliRunner

import tbq
from tbq.bench import real
from tbq.cli.app import app

RUNNER = CliRunner()


def row(problem="series2", seed=0, budget=160, calls=160, converged=True, log_error=0.1, sd=0.1):
    return real.Run(problem, seed, budget, calls, converged, log_error, sd, 3.0, "CONVERGED")


@pytest.fixture
def tiny(monkeypatch):
    """Budgets so small that a study of the plane's easiest problem takes seconds."""
    monkeypatch.setattr(real, "BUDGETS", (14, 16, 50))
    monkeypatch.setattr(real, "most_runs", lambda d: 18)
    return tbq.problems.get("u2")


def test_a_study_looks_on_the_way_is_written_and_goes_on_where_it_stopped(tiny, tmp_path):
    progress = []
    runs = real.study(["u2"], [0], 1, tmp_path, progress.append)
    assert progress == [0, 1]
    assert [(r.budget, r.calls) for r in runs] == [(14, 14), (16, 16), (18, 18)]
    assert [r.stop for r in runs] == ["UNFINISHED", "UNFINISHED", "BUDGET"]
    assert runs[0].seconds < runs[-1].seconds
    stored = (tmp_path / "real_runs.csv").read_text()
    again = real.study(["u2"], [0], 1, tmp_path, progress.append)
    assert progress[2:] == [1]
    assert (tmp_path / "real_runs.csv").read_text() == stored
    assert [r.log_error for r in again] == pytest.approx([r.log_error for r in runs], rel=1e-5)
    assert "| u2 | 2 | 1 | 18 ± 0 | 0.00 |" in (tmp_path / "real.md").read_text()


def test_looks_on_the_way_change_nothing(tiny):
    *_, end = real.run("u2", 3)
    result = tbq.infer(tiny.log_likelihood, tiny.prior, seed=3, max_evaluations=18, progress=False)
    assert end.log_error == result.log_evidence - tiny.reference.log_evidence
    assert end.log_evidence_sd == result.log_evidence_sd


def test_a_run_that_has_ended_says_the_same_at_larger_budgets(monkeypatch):
    monkeypatch.setattr(real, "most_runs", lambda d: 200)
    rows = real.run("u1", 0)
    assert [r.budget for r in rows] == [20, 40, 80, 160, 200]
    assert not rows[0].converged
    assert rows[-1].converged
    ended = [r for r in rows if r.budget >= rows[-1].calls]
    assert {(r.calls, r.log_error, r.log_evidence_sd, r.converged) for r in ended} == {
        (rows[-1].calls, rows[-1].log_error, rows[-1].log_evidence_sd, True)
    }
    assert len(ended) >= 2


def test_tables_are_of_ends_and_of_budgets():
    runs = [row(), row(seed=1, log_error=-0.4), row(budget=20, calls=20, converged=False, log_error=5.0, sd=50.0)]
    runs += [row("line3", budget=200, calls=120, converged=False, log_error=3.0, sd=2.0)]
    runs += [row("line3", budget=160, calls=120, converged=False, log_error=3.0, sd=1.0)]
    series, line, everything = real.table_rows(runs)
    assert series == [
        "series2",
        "2",
        "2",
        "160 ± 0",
        "1.00",
        "0.25",
        "0.4",
        "0.1",
        f"{np.sqrt(8.5):.2f}",
        "0.50",
        "1",
        "3",
    ]
    assert line[:6] == ["line3", "3", "1", "120 ± 0", "0.00", "3"]
    assert everything[2:5] == ["3", "147 ± 19", "0.67"]
    assert real.budget_rows(runs) == [
        ["series2", "1.00", "", "", "0.50", "0.50"],
        ["line3", "", "", "", "0.00", "1.00"],
        ["all", "1.00", "", "", "0.33", "0.67"],
    ]


def test_who_states_nothing_is_not_wrong():
    nothing = row(converged=False, log_error=np.nan, sd=np.inf)
    assert nothing.covered
    assert not nothing.confidently_wrong


def test_the_command_line(tmp_path, monkeypatch):
    monkeypatch.setattr(real, "run", lambda name, seed: [row(name, seed)])
    options = ["--runs", "2", "--seed", "4", "--jobs", "1", "--out", str(tmp_path)]
    done = RUNNER.invoke(app, ["bench", "real", "--problem", "series2", *options])
    assert done.exit_code == 0, done.output
    assert "real posteriors" in done.output
    assert [r.seed for r in real.studies.read_rows(real.Run, tmp_path / "real_runs.csv")] == [4, 5]
    wrong = RUNNER.invoke(app, ["bench", "real", "--problem", "u1", *options])
    assert wrong.exit_code == 2


def test_calibration_keeps_to_its_own_problems(tmp_path, monkeypatch):
    from tbq.bench import calibration

    asked = []
    monkeypatch.setattr(calibration, "study", lambda names, *_: asked.extend(names) or [])
    monkeypatch.setattr(calibration, "table_rows", lambda _: [])
    assert RUNNER.invoke(app, ["bench", "calibration", "--out", str(tmp_path)]).exit_code == 0
    assert len(asked) == 21
    assert not set(asked) & set(tbq.problems.real_names())
    assert "battery" not in asked
