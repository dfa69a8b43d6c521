"""Runs that are made elsewhere: ``tbq ask``, ``tell`` and ``fail`` are one session, however many processes it is in."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import tbq
from tbq.cli import telling
from tbq.cli.app import app
from tbq.cli.casefile import load
from tbq.run import journal

CASE = """
[parameters]
a = {distribution = "uniform", low = 0, high = 2}

[[outputs]]
name = "f"
observed = 1.0
noise = 0.2

[[outputs]]
name = "u"
observed = [0.5, 2.0]
noise = 0.3

[run]
seed = 4
n_initial = 3
max_evaluations = 6
population = 128
"""


def outputs_at(a):
    return {"f": a, "u": [a**2, 2 * a]}


@pytest.fixture
def tbq_command(tmp_path):
    (tmp_path / "case.toml").write_text(CASE)

    def run(*arguments, fails=None, stdin=None):
        done = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
        assert done.exit_code == (fails or 0), done.output
        return done.output if fails else json.loads(done.stdout) if "--json" in arguments else done.stdout

    run.folder = tmp_path / "lab"
    run.case = tmp_path / "case.toml"
    return run


def tell(tbq_command, point):
    file = tbq_command.folder.parent / "o.json"
    file.write_text(json.dumps(outputs_at(point["theta"]["a"])))
    return tbq_command("tell", tbq_command.folder, point["id"], "--outputs", file, "--seconds", "2.5", "--json")


def test_a_run_over_many_processes_is_the_run_of_one_session(tbq_command):
    asked = tbq_command("ask", tbq_command.folder, "--case", tbq_command.case, "--json")
    thetas = []
    while not asked["done"]:
        (point,) = asked["points"]
        thetas.append(point["theta"]["a"])
        told = tell(tbq_command, point)
        assert (told["status"], told["told"], told["out"]) == ("ok", len(thetas), [])
        asked = tbq_command("ask", tbq_command.folder, "--json")
    assert asked["stop"] == tbq.load(tbq_command.folder).stop.value
    case = load(tbq_command.folder / "case.toml", by_hand=True)
    likelihood = tbq.GaussianLikelihood(
        lambda theta: [theta[0], theta[0] ** 2, 2 * theta[0]], [1, 0.5, 2], [0.2, 0.3, 0.3]
    )
    session = tbq.Session.of(case.prior(), case.settings(), seed=4, likelihood=likelihood)
    expected = []
    while not session.done:
        (p,) = session.ask(1)
        expected.append(p.theta[0])
        value, outputs = likelihood.evaluate(p.theta)
        session.tell(p.id, log_likelihood=value, outputs=outputs)
    np.testing.assert_array_equal(thetas, expected)
    left = tbq.load(tbq_command.folder)
    assert left.log_evidence == session.result().log_evidence
    assert [e.seconds for e in left.evaluations] == [2.5] * len(thetas)
    assert (tbq_command.folder / "summary.txt").exists()
    assert "The run is done: " in tbq_command("ask", tbq_command.folder)


def test_points_that_are_out_stay_out_and_new_ones_are_given(tbq_command):
    first = tbq_command("ask", tbq_command.folder, "--case", tbq_command.case, "-n", "2", "--json")
    second = tbq_command("ask", tbq_command.folder, "-n", "8", "--json")
    assert [p["id"] for p in first["points"]] == [0, 1]
    assert [p["id"] for p in second["points"]] == [2]  # of the initial design
    assert second["out"] == [0, 1, 2]
    again = tbq_command("ask", tbq_command.folder, "--again", "--json")
    assert again["points"] == [*first["points"], *second["points"]]
    more = [len(tbq_command("ask", tbq_command.folder, "-n", "8", "--json")["points"]) for _ in range(2)]
    assert more == [3, 0]  # the budget is out
    waits = "Nothing new until one of the points that are out is told: 0, 1, 2, 3, 4, 5\n"
    assert tbq_command("ask", tbq_command.folder) == waits
    tell(tbq_command, second["points"][0])  # in any order
    told = tbq_command("fail", tbq_command.folder, 0, "--why", "out of the oven's range")
    assert told == "Point 0: failed (out of the oven's range). 2 told, 4 out.\n"
    assert "these are: 1, 3, 4, 5" in tbq_command("fail", tbq_command.folder, 9, fails=2)
    assert "point 2 was told already" in tbq_command("fail", tbq_command.folder, 2, fails=2)
    runs = {e.id: e for e in journal.read(tbq_command.folder).evaluations}
    assert (runs[0].status, runs[0].message, runs[2].status) == ("failed", "out of the oven's range", "ok")


def test_outputs_come_in_any_form(tbq_command, tmp_path):
    points = tbq_command("ask", tbq_command.folder, "--case", tbq_command.case, "-n", "3", "--json")["points"]
    (tmp_path / "o.json").write_text("[1.0, [0.5, 2.0]]")
    tbq_command("tell", tbq_command.folder, 0, "--outputs", tmp_path / "o.json")
    (tmp_path / "o.csv").write_text("1.0, 0.5\n2.0\n", encoding="utf-16")  # as Windows' shell does
    tbq_command("tell", tbq_command.folder, 1, "--outputs", tmp_path / "o.csv")
    missing = '{"u": [null, 2.0], "f": 1.0}'
    told = tbq_command("tell", tbq_command.folder, 2, "--outputs", "-", "--json", stdin=missing)
    assert (told["status"], told["log_likelihood"], told["message"]) == ("failed", None, "1 of 3 outputs are missing")
    runs = sorted(journal.read(tbq_command.folder).evaluations, key=lambda e: e.id)
    np.testing.assert_array_equal([e.outputs for e in runs], [[1, 0.5, 2], [1, 0.5, 2], [1, np.nan, 2]])
    assert len(points) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tell", "FOLDER", "7", "--outputs", "o.json"], "point 7 is not out; these are: 0"),
        (["tell", "FOLDER", "0"], "the case has data: give --outputs FILE, and no --log-likelihood"),
        (["tell", "FOLDER", "0", "--outputs", "gone.json"], "--outputs: gone.json cannot be read"),
        (["tell", "FOLDER", "0", "--outputs", "o.json"], "must be an object of f, u; got an object of f, w"),
        (["tell", "FOLDER", "0", "--outputs", "n.json"], "f has 2 numbers, and 1 were observed"),
        (["tell", "FOLDER", "0", "--outputs", "b.json"], "b.json must hold numbers: true and false are none"),
        (["tell", "FOLDER", "0", "--outputs", "huge.json"], "huge.json must hold numbers: int too large"),
        (["tell", "FOLDER", "0", "--outputs", "deep.json"], "deep.json is not JSON: maximum recursion depth"),
        (["tell", "FOLDER", "0", "--outputs", "comma.txt"], "comma.txt, line 1: '1,5' may be one number or two"),
        (["tell", "FOLDER", "0", "--outputs", "bytes.txt"], "bytes.txt, line 1: this is not UTF-8"),
        (["tell", "FOLDER", "0", "--outputs", "."], "--outputs: . cannot be read: [Errno 21]"),
        (["tell", "FOLDER", "0", "--outputs", "3.txt", "--seconds", "inf"], "seconds must be a finite number"),
        (["tell", "FOLDER", "0", "--outputs", "o.txt"], "o.txt has 2 numbers, and the data 3"),
        (["tell", "FOLDER", "0", "--outputs", "x.txt"], "x.txt must hold numbers: could not convert string"),
        (["fail", "FOLDER", "3"], "point 3 is not out; these are: 0"),
        (["ask", "FOLDER", "--case", "case.toml"], "there is a run here already; leave --case out"),
        (["ask", "elsewhere"], "nothing was begun here; `tbq ask elsewhere --case case.toml` begins"),
    ],
)
def test_what_cannot_be_told_is_refused_and_changes_nothing(tbq_command, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    tbq_command("ask", tbq_command.folder, "--case", tbq_command.case, "--json")
    files = {"o.json": '{"f": 1, "w": 2}', "o.txt": "1 2", "x.txt": "1 2 x", "3.txt": "1 2 3", "comma.txt": "1,5;2"}
    files |= {"n.json": '{"f": [1, 2], "u": 3}', "b.json": "[true, 1, 2]", "huge.json": f"[{10**400}, 1, 2]"}
    for name, text in {**files, "deep.json": "[" * 10**5}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "bytes.txt").write_bytes(b"1 2 \xff")
    before = (tbq_command.folder / journal.FILE).read_bytes()
    arguments = [str(tbq_command.folder) if a == "FOLDER" else a for a in arguments]
    assert message in " ".join(tbq_command(*arguments, fails=2).split())
    assert (tbq_command.folder / journal.FILE).read_bytes() == before


def test_a_case_without_data_is_told_log_likelihoods(tbq_command):
    tbq_command.case.write_text(CASE.partition("[[outputs]]")[0] + "[run]" + CASE.partition("[run]")[2])
    tbq_command("ask", tbq_command.folder, "--case", tbq_command.case, "-n", 3, "--json")
    assert "log-likelihood -1.5. 1 told" in tbq_command("tell", tbq_command.folder, 0, "--log-likelihood", "-1.5")
    assert "infeasible" in tbq_command("tell", tbq_command.folder, 1, "--log-likelihood", "-inf", "--json")["status"]
    assert "the case has no data" in tbq_command("tell", tbq_command.folder, 2, fails=2)


def test_a_run_without_a_model_cannot_be_run_here(tbq_command):
    assert "model is missing" in tbq_command("run", tbq_command.case, fails=2)


def test_commands_take_turns(tbq_command, monkeypatch):
    tbq_command("ask", tbq_command.folder, "--case", tbq_command.case, "-n", "3", "--json")
    other = journal.Journal(tbq_command.folder)
    looks = []

    def sleep(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            other.close()

    monkeypatch.setattr(telling, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    tbq_command("fail", tbq_command.folder, 0)
    assert len(looks) == 3
