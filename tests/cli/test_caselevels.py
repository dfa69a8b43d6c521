"""A coarse model in a case file: what it may say, and what is said when it is wrong."""

import csv
import http.server
import json
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tbq
from tbq.cli import casefile
from tbq.cli.app import app
from tbq.problem.evaluation import Status

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


def test_what_is_done_with_a_result_is_done_with_the_fine_model(tmp_path):
    found = run_case(tmp_path, LEVELS + RUN)
    out, draws, runs, page = (str(tmp_path / name) for name in ("out", "draws.csv", "runs.csv", "page.html"))
    shutil.copytree(out, tmp_path / "other")
    for command in (
        ["verify", out, "--n", "4", "--seed", "1"],
        ["predict", out, "--n", "4", "--seed", "1", "--csv", draws],
        ["compare", out, str(tmp_path / "other")],
        ["export", out, "--runs", runs],
        ["report", out, "--out", page],
    ):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, (command, done.output)
    assert len(Path(draws).read_text().splitlines()) == 5
    rows = list(csv.DictReader(Path(runs).read_text().splitlines()))
    assert [row["level"] for row in rows].count("coarse") == found.n_coarse
    assert len(rows) == found.n_evaluations + found.n_coarse
    assert f"{found.n_coarse} coarse ones, which cost 0.02 each" in Path(page).read_text()


def test_an_old_study_of_the_coarse_model_is_worth_something(tmp_path):
    alone = LEVELS[: LEVELS.index("[model]")] + LEVELS[LEVELS.index("[data]") :]
    alone += '\n[model]\npython = "levels_of_a_test:coarse"\n'
    old = run_case(tmp_path, alone + RUN)
    shutil.move(tmp_path / "out", tmp_path / "old")
    found = run_case(tmp_path, LEVELS + RUN + 'warm_start = {coarse = "old"}\n')
    assert sum(e.origin == "earlier" for e in found.coarse) == old.n_evaluations
    assert found.n_evaluations <= 6
    again = casefile.load(tmp_path / "out" / "case.toml")
    assert again.run.warm_start == {"coarse": str(tmp_path / "old")}
    for wrong in ("3", "{fein = 'old'}", "{coarse = 3}"):
        with pytest.raises(casefile.CaseError, match=r"run.warm_start: must be the folder of an earlier run"):
            levels_case(tmp_path, LEVELS + RUN + f"warm_start = {wrong}\n")


def test_points_that_are_asked_for_by_hand_say_their_level(tmp_path):
    levels_case(tmp_path, LEVELS.replace("0.02", "1.0") + RUN)
    fine, coarse = (lambda theta: euler(theta, 1000)), (lambda theta: euler(theta, 2))
    folder, runner, levels = str(tmp_path / "lab"), CliRunner(), []
    asked = json.loads(runner.invoke(app, ["ask", folder, "--case", str(tmp_path / "case.toml"), "--json"]).stdout)
    while not asked["done"]:
        for point in asked["points"]:
            theta = np.array(list(point["theta"].values()))
            levels.append(point.get("level", "fine"))
            numbers = json.dumps(list((coarse if levels[-1] == "coarse" else fine)(theta)))
            told = runner.invoke(app, ["tell", folder, str(point["id"]), "--outputs", "-"], input=numbers)
            assert told.exit_code == 0, told.output
        asked = json.loads(runner.invoke(app, ["ask", folder, "--json"]).stdout)
    found = tbq.load(folder)
    assert levels.count("fine") == found.n_evaluations == 6
    assert levels.count("coarse") == found.n_coarse >= 6
    for e in found.coarse:
        np.testing.assert_allclose(e.outputs, coarse(e.theta))


# --- coarse models of other kinds ---------------------------------------------------------------------------

RUN = "\n[run]\nseed = 1\npopulation = 256\nmax_evaluations = 6\n"
SOLVER = """
import sys

a, k, steps = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
for t in (0.5, 1.0, 1.5):
    print(a * (1.0 + k * t / steps) ** -steps)
"""


def run_case(tmp_path, text):
    levels_case(tmp_path, text)
    done = CliRunner().invoke(app, ["run", str(tmp_path / "case.toml"), "--out", str(tmp_path / "out")])
    assert done.exit_code in (0, 3), done.output
    return tbq.load(tmp_path / "out")


def euler(theta, steps):
    return theta[0] * (1.0 + theta[1] * np.array([0.5, 1.0, 1.5]) / steps) ** -steps


def a_command(steps):
    return f'command = ["{sys.executable}", "solver.py", "{{a}}", "{{k}}", "{steps}"]\nfiles = ["solver.py"]\n'


@pytest.mark.parametrize("of_outputs", [False, True])
def test_both_levels_may_be_commands(tmp_path, of_outputs):
    (tmp_path / "solver.py").write_text(SOLVER)
    output = "" if of_outputs else 'output = "stdout.txt"\n'
    text = LEVELS.replace('python = "levels_of_a_test:fine"', a_command(1000) + output)
    text = text.replace('python = "levels_of_a_test:coarse"', a_command(2) + output).replace("0.02", "1.0")
    if of_outputs:
        read = '[[outputs]]\nname = "y"\nfile = "stdout.txt"\nobserved = [1.0, 0.6, 0.4]\nnoise = 0.05\n'
        text = text[: text.index("[data]")] + read
    found = run_case(tmp_path, text + RUN + "workers = 2\n")
    assert found.n_evaluations == 6
    assert found.n_coarse >= 5
    for e in (*found.evaluations, *found.coarse):
        np.testing.assert_allclose(e.outputs, euler(e.theta, 1000 if e.level == "fine" else 2), rtol=1e-9)
    places = [path.name for path in (tmp_path / "out").rglob("*") if path.is_dir() and path.name.startswith("tbq-run")]
    assert places == []  # directories of runs that succeeded are gone, at either level


def test_a_command_may_be_the_coarse_model_of_a_function(tmp_path):
    (tmp_path / "solver.py").write_text(SOLVER)
    text = LEVELS.replace('python = "levels_of_a_test:coarse"', a_command(2) + 'output = "stdout.txt"')
    found = run_case(tmp_path, text.replace("0.02", "1.0") + RUN)
    for e in found.coarse:
        np.testing.assert_allclose(e.outputs, euler(e.theta, 2), rtol=1e-9)
    assert found.n_coarse >= 5


def test_a_function_that_hangs_beside_a_command_is_ended(tmp_path):
    (tmp_path / "solver.py").write_text(SOLVER)
    text = LEVELS.replace('python = "levels_of_a_test:fine"', a_command(1000) + 'output = "stdout.txt"\ntimeout = 3')
    text = text.replace("levels_of_a_test:coarse", "hanging_in_a_test:coarse").replace("0.02", "1.0")
    hanging = MODELS.replace("def coarse(theta):", "def coarse(theta):\n    import time\n    time.sleep(600)")
    (tmp_path / "hanging_in_a_test.py").write_text(hanging)
    text += RUN + "timeout = 1.0\nworkers = 3\n"
    case = levels_case(tmp_path, text)
    assert case.arguments()["timeout"] == 3.0  # what the command may take
    found = run_case(tmp_path, text)
    assert {e.status for e in found.coarse} == {Status.TIMEOUT}
    assert {e.status for e in found.evaluations} == {Status.OK}


class Bridge(http.server.BaseHTTPRequestHandler):
    """A UM-Bridge server of the coarse model."""

    def do_GET(self):
        self.answer({"protocolVersion": 1.0, "models": ["coarse"]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/Evaluate":
            self.answer({"output": [list(euler(np.array(asked["input"][0]), 2))]})
        else:
            sizes = {"/InputSizes": {"inputSizes": [2]}, "/OutputSizes": {"outputSizes": [3]}}
            self.answer(sizes.get(self.path, {"support": {"Evaluate": True}}))

    def answer(self, content):
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def bridge():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bridge) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_model_on_a_server_may_be_the_coarse_one(tmp_path, bridge):
    text = LEVELS.replace('python = "levels_of_a_test:coarse"', f'url = "{bridge}"\nname = "coarse"')
    found = run_case(tmp_path, text.replace("0.02", "1.0") + RUN)
    for e in found.coarse:
        np.testing.assert_allclose(e.outputs, euler(e.theta, 2), rtol=1e-9)
    assert found.n_coarse >= 5
    text = text.replace('name = "coarse"', 'name = "corase"')
    levels_case(tmp_path, text)
    for command in (["check"], ["run", "--out", str(tmp_path / "other")]):
        done = CliRunner().invoke(app, [command[0], str(tmp_path / "case.toml"), *command[1:]])
        assert done.exit_code == 2
        assert "corase" in done.output


def test_a_look_before_the_run_is_at_the_coarse_model_too(tmp_path):
    levels_case(tmp_path)
    done = CliRunner().invoke(app, ["check", str(tmp_path / "case.toml")])
    assert done.exit_code == 0, done.output
    assert "coarse       levels_of_a_test:coarse" in done.output
    (tmp_path / "short_in_a_test.py").write_text(MODELS.replace("** (-4.0 * TIMES)", "** (-4.0 * TIMES[:2])"))
    levels_case(tmp_path, LEVELS.replace("levels_of_a_test:coarse", "short_in_a_test:coarse"))
    done = CliRunner().invoke(app, ["check", str(tmp_path / "case.toml")])
    said = "The coarse model's run at the prior mean failed: the model returned outputs of shape (2,), not (3,)"
    assert said in " ".join(done.output.split())
