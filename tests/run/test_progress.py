"""A run that can be watched: a panel, lines in a log, a notebook's output, and the logger of programs."""

import io
import logging
import re
import sys
import time
import types
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from scipy import stats
from test_standing import belief, log_likelihood, run, standing

import tbq
from tbq.common.words import value_and_sd
from tbq.problem.evaluation import Status
from tbq.run import progress

PRIOR = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.norm(0, 1)})
SMALL = {"seed": 0, "population": 256, "max_evaluations": 14, "tolerance": 1e-5}


def drawn(now, width, environment):
    console = Console(file=io.StringIO(), width=width, force_terminal=True, _environ=environment)
    console.print(progress.panel(now, 1200.0, "tbq runs/a", width))
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_panel_fits_its_terminal_and_says_all(width):
    failed = run(3, Status.FAILED, message="ValueError: mesh tangled")
    now = standing(20, 2, belief(0.3, 0.2))
    text = drawn(replace(now, failures=(failed,)), width, {"NO_COLOR": "1", "TERM": "xterm"})
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert max(map(len, lines)) <= min(width, 100)
    words = " ".join(" ".join(line.strip("│ ").split()) for line in lines)
    for part in ("tbq runs/a", "20 of at most 40: 20 ok; 2 running", "3, γ = 0.3 of 1", "not known before γ = 1"):
        assert part in words or width == 40
    assert "mesh tangled" in words


def test_without_colour_there_is_none():
    text = drawn(standing(5, 2), 80, {"NO_COLOR": "1", "TERM": "xterm"})
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", text)
    assert re.search(r"\x1b\[[0-9;]*3[0-9]", drawn(standing(5, 2), 80, {"TERM": "xterm"}))


def test_a_log_has_a_line_at_every_stage_at_the_end_and_every_few_minutes():
    lines = progress.Lines()
    assert lines.due(standing(), 0.0)
    assert lines.due(standing(3), 1.0) is None
    assert lines.due(standing(3), 1.0 + progress._EVERY)
    assert lines.due(standing(12, known=belief(0.1, stage=1)), 200.0)
    assert lines.due(standing(13, known=belief(0.1, stage=1)), 201.0) is None
    assert lines.due(standing(14, known=belief(0.3, stage=2)), 202.0)
    assert lines.due(standing(15, known=belief(0.2, stage=1)), 203.0) is None  # outputs climb all stages anew
    ended = standing(20, known=belief(), stop=tbq.Stop.CONVERGED)
    assert lines.due(ended, 204.0) is None  # until it is known what was found
    ended = replace(ended, found=(-4.0, 0.02))
    found = "log evidence -4.000 ± 0.020"
    assert lines.due(ended, 204.0) == f"20 of at most 40 runs (20 ok), {found}. {tbq.Stop.CONVERGED.value}"
    assert lines.due(ended, 9999.0) is None


def test_a_run_that_takes_long_is_told_of_meanwhile(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_EVERY", 0.1)
    monkeypatch.setitem(progress._TICK, "plain", 0.02)
    said, deadline = [], time.monotonic() + 60

    def slow(theta):
        while len(said) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
            said.extend(line for line in capsys.readouterr().err.splitlines() if line.startswith(first))
        return log_likelihood(theta)

    first = "0 of at most 14 runs (1 running, 11 queued)"
    tbq.infer(slow, PRIOR, progress="plain", **SMALL)
    assert len(said) >= 2


def test_programs_listen_to_the_logger(caplog):
    with caplog.at_level(logging.INFO, logger="tbq"):
        tbq.infer(log_likelihood, PRIOR, progress=False, **SMALL)
    said = [r.getMessage() for r in caplog.records if r.name == "tbq"]
    assert said[0].startswith("0 of at most 14 runs")
    assert any(", stage " in line for line in said)
    assert said[-1].endswith(tbq.Stop.BUDGET.value)


def test_going_on_says_what_is_replayed(tmp_path, capsys, caplog, monkeypatch):
    tbq.infer(log_likelihood, PRIOR, journal=tmp_path, progress=False, **SMALL)
    with caplog.at_level(logging.INFO, logger="tbq"):
        tbq.infer(log_likelihood, PRIOR, journal=tmp_path, progress="plain", **SMALL)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Going on: 0 of 14 finished runs are taken in again. None of them is made again."
    assert lines[1].startswith("Going on: 14 of 14")
    assert "14 of 14 runs of the journal are taken in again" in caplog.text
    monkeypatch.setenv("FORCE_COLOR", "1")  # draw as on a terminal
    tbq.infer(log_likelihood, PRIOR, journal=tmp_path, progress="rich", **SMALL)
    assert "Going on: 14 of 14 finished runs" in capsys.readouterr().err


def test_the_last_panel_has_what_was_found_and_that_of_a_pause_what_it_waits_for(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # draw as on a terminal
    monkeypatch.setenv("COLUMNS", "80")
    result = tbq.infer(log_likelihood, PRIOR, progress="rich", **SMALL)
    last = capsys.readouterr().err.rpartition("log evidence")[2]
    assert value_and_sd(result.log_evidence, result.log_evidence_sd) in last

    def away(theta):
        raise tbq.Transient("no licence")

    tbq.infer(away, PRIOR, progress="rich", patience=0.0, **SMALL)
    last = capsys.readouterr().err.rpartition(" tbq ")[2]
    assert "0 of at most 14: 12 waiting" in last
    assert "no licence" in last
    assert "paused" in last


def test_nothing_is_said_of_a_journal_without_runs(tmp_path, capsys):
    tbq.Session(PRIOR, journal=tmp_path, seed=0, population=256, max_evaluations=14).close()
    tbq.infer(log_likelihood, PRIOR, journal=tmp_path, progress="plain", **SMALL)
    assert "Going on" not in capsys.readouterr().err


class Notebook(types.ModuleType):
    """As much of IPython as a notebook's output needs, in its own words."""

    def __init__(self, kernel=True):
        super().__init__("IPython")
        self.outputs = []
        self.get_ipython = lambda: types.SimpleNamespace(**({"kernel": 1} if kernel else {}))
        self.display = types.ModuleType("IPython.display")
        self.display.HTML = str
        self.display.display = self._display

    def _display(self, content, display_id):
        assert display_id
        self.outputs.append([content])
        return types.SimpleNamespace(update=self.outputs[-1].append)


def test_a_notebook_has_one_output_that_changes(monkeypatch, capsys):
    notebook = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook.display)
    assert progress.in_notebook()
    tbq.infer(log_likelihood, PRIOR, **SMALL)
    (output,) = notebook.outputs
    assert len(output) > 14
    assert "14 of at most 14" in output[-1]
    assert "<script" not in output[-1]
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(sys.modules, "IPython", Notebook(kernel=False))
    assert not progress.in_notebook()


def test_what_a_simulator_says_is_text_in_a_notebook():
    failed = run(3, Status.FAILED, message="<script>alert(1)</script>")
    text = progress.as_html(replace(standing(4), failures=(failed,)), 1000.0)
    assert "&lt;script&gt;" in text
    assert "<script>" not in text


def test_a_thread_that_shows_leaves_nothing_behind():
    import threading

    before = set(threading.enumerate())
    tbq.infer(log_likelihood, PRIOR, progress="plain", **SMALL)
    with pytest.raises(KeyboardInterrupt):
        tbq.infer(_interrupted, PRIOR, progress="plain", **SMALL)
    assert set(threading.enumerate()) == before


def _interrupted(theta):
    raise KeyboardInterrupt


def test_evidences_are_unchanged_by_being_watched():
    quiet = tbq.infer(log_likelihood, PRIOR, progress=False, **SMALL)
    loud = tbq.infer(log_likelihood, PRIOR, progress="plain", **SMALL)
    np.testing.assert_array_equal(quiet.log_evidence, loud.log_evidence)
