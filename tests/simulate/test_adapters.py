"""Programs and servers as models: what they return, and every way in which they can fail."""

import json
import os
import pickle
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.common import errors
from tbq.simulate.command import CommandModel
from tbq.simulate.placeholders import fill, tight_places
from tbq.simulate.readers import Numbers, Pattern

THETA = np.array([1.5, -2.0, 0.25])


def reader(name, pattern):
    return Numbers(name) if pattern is None else Pattern(name, pattern)


# --- numbers into text and out of it ------------------------------------------------------------------------


def test_a_template_is_filled_with_twelve_digits_and_other_braces_stay():
    text = '{"E": {E}, "nested": {"nu": {nu:.3f}, "nu2": {nu2}}, "other": {x}} {E:12.4e}|'
    filled = fill(text, {"E": 1 / 3, "nu": 0.3, "nu2": 2.0})
    assert filled == '{"E": 0.333333333333, "nested": {"nu": 0.300, "nu2": 2.0}, "other": {x}}   3.3333e-01|'
    assert json.loads(filled.replace("{x}", "0").split("}  ")[0] + "}")["E"] == pytest.approx(1 / 3, rel=1e-11)


@pytest.mark.parametrize("number", [1.0, -2.5e-7, 1e22, 123456789012345.0, 0.1 + 0.2, -1 / 3])
def test_a_value_has_twelve_digits_at_most_and_is_no_integer(number):
    text = fill("{x}", {"x": number})
    assert float(text) == pytest.approx(number, rel=1e-11)
    assert len(re.sub(r"e.*|[-.]", "", text).strip("0")) <= 12
    assert "." in text or "e" in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("MAT1    1       {E}             {nu}    7.85E-9", "line 2: this looks like fields of 8 columns"),
        ("{E}{nu}", r"line 2: {E} touches what stands beside it"),
        ("E={E}, nu = {nu};", ""),
        ("1 {E} {nu} 7.85", ""),
        ("MAT1    1       {E:8.2e}        {nu:8.2e}7.85E-9", ""),
        ('{"E": {E}, "nu": [{nu}]}', ""),
    ],
)
def test_fields_without_room_are_noticed(line, message):
    found = tight_places(f"$ a comment\n{line}\n", ["E", "nu"])
    assert found[0].startswith(message) if message else found == [], found


def test_a_format_that_does_not_exist_is_refused():
    with pytest.raises(errors.ArgumentError, match=r"\{E:6q\} is not a number format; write \{E:.6e\}, say"):
        fill("{E:6q}", {"E": 1.0})


@pytest.mark.parametrize(
    ("name", "text", "pattern", "expected"),
    [
        ("a.txt", "1 2.5\n# 7\n-3e-2 # 8\n", None, [1, 2.5, -0.03]),
        ("a.csv", "1, 2;3\n", None, [1, 2, 3]),
        ("fortran.out", " 1.25D+03 -2.D-1 3d2", None, [1250, -0.2, 300]),
        ("a.json", '{"f": [1, 2.5], "g": 3}', None, [1, 2.5, 3]),
        ("log", "f1 = 3.1 Hz\nstep 4\nf2 = 9.8 Hz\n", r"^f\d = (\S+)", [3.1, 9.8]),
        ("a.txt", "1 -inf", None, [1, -np.inf]),
        ("a.txt", "\ufeff1 2", None, [1, 2]),
    ],
)
def test_numbers_are_read_in_order(tmp_path, name, text, pattern, expected):
    (tmp_path / name).write_text(text)
    np.testing.assert_array_equal(reader(name, pattern).read(tmp_path).values, expected)


@pytest.mark.parametrize(
    ("name", "text", "pattern", "message"),
    [
        ("a.txt", "1 2\n3 *****\n", None, r"a.txt, line 2: '\*\*\*\*\*' is not a number"),
        ("a.txt", "# only words\n", None, "a.txt has no numbers"),
        ("log", "f = 1\nf = x\n", r"f = (\S+)", "log, line 2: 'x' is not a number"),
        ("log", "g = 1", r"f = (\S+)", r"log has no numbers that match 'f = "),
        ("a.json", '{"f": "x"}', None, 'a.json cannot be read as JSON numbers: "x" is not a number'),
        ("a.json", '{"f": ', None, "a.json cannot be read as JSON numbers: Expecting value"),
        ("a.json", "[true]", None, "true is not a number"),
        ("a.json", f"[1{'0' * 400}]", None, "10000.* is too large for a float"),
        ("a.json", "[" * 100_000, None, "a.json cannot be read as JSON numbers: maximum recursion depth"),
    ],
)
def test_what_is_not_a_number_is_named_with_its_line(tmp_path, name, text, pattern, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(errors.OutputError, match=message):
        reader(name, pattern).read(tmp_path)


# --- commands -----------------------------------------------------------------------------------------------


@pytest.fixture
def make(tmp_path):
    """A CommandModel around a Python script, whose directories go to ``tmp_path / "work"``."""

    def model(script, **changes):
        (tmp_path / "sim.py").write_text(script)
        (tmp_path / "in.txt").write_text("a = {a}\nb = {b}\nc = {c}\n")
        arguments = {
            "names": ("a", "b", "c"),
            "command": (sys.executable, "sim.py", "in.txt"),
            "output": "out.txt",
            "template": tmp_path / "in.txt",
            "files": (tmp_path / "sim.py",),
            "folder": tmp_path / "work",
        }
        return CommandModel(**arguments | changes)

    return model


READ = "import sys; values = dict(line.split(' = ') for line in open(sys.argv[1])); "
GOOD = READ + "open('out.txt', 'w').write(' '.join(v.strip() for v in values.values()))"


def test_a_command_gets_theta_and_returns_its_output_to_twelve_digits(make, tmp_path):
    theta = np.array([1 / 3, -1e-17, 12345678.9])
    np.testing.assert_array_equal(make(GOOD)(theta), [0.333333333333, -1e-17, 12345678.9])
    assert list((tmp_path / "work").iterdir()) == []


def test_directories_are_kept_when_asked(make, tmp_path):
    make(GOOD, keep=True)(THETA)
    (kept,) = (tmp_path / "work").iterdir()
    assert sorted(p.name for p in kept.iterdir()) == ["in.txt", "out.txt", "sim.py", "stderr.txt", "stdout.txt"]


def test_parameters_can_be_arguments_and_stdout_the_output(make):
    command = (sys.executable, "-c", "import sys; print(*sys.argv[1:])", "{a}", "{b:.1f}", "{c}")
    np.testing.assert_array_equal(make("", command=command, template=None, output="stdout.txt")(THETA), THETA)


def test_a_program_may_lie_relative_to_where_we_are(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sim.sh").write_text("#!/bin/sh\necho $*\n")
    Path("sim.sh").chmod(0o755)
    model = make(
        "", command=("./sim.sh", "{a}", "{b}", "{c}"), output="stdout.txt", template=None, files=(), folder="w"
    )
    np.testing.assert_array_equal(model(THETA), THETA)


def test_no_shell_reads_the_command(make):
    command = (sys.executable, "-c", "import sys; print(sys.argv[1] == '$(echo 7); `id` {a}'.format(a=1.5), 1)")
    model = make("", command=(*command, "$(echo 7); `id` {a}"), output="stdout.txt", pattern=r"True (\d)")
    np.testing.assert_array_equal(model(THETA), [1])


def test_commands_can_be_sent_to_other_processes(make):
    model = make(GOOD)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(THETA), THETA)
    with ProcessPoolExecutor(2) as pool:
        thetas = [THETA, 2 * THETA, 3 * THETA]
        np.testing.assert_array_equal(list(pool.map(model, thetas)), thetas)


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        (
            "import sys; print('step 7'); sys.exit('mesh tangled')",
            errors.ProgramError,
            r"the program ended with exit code 1 \(.*sim.py in.txt\)\nIts stderr ends with:\n  mesh tangled\nIts dir",
        ),
        ("print('all is well')", errors.OutputError, "out.txt is missing; the directory has in.txt, sim.py, std"),
        ("open('out.txt', 'w').write('1 2 x')", errors.OutputError, "out.txt, line 1: 'x' is not a number"),
        ("open('out.txt', 'w')", errors.OutputError, "out.txt has no numbers\nIt printed nothing."),
        (
            "import os; os.kill(os.getpid(), 11)",
            errors.ProgramError,
            "the program was ended by signal 11, Segmentation fault",
        ),
    ],
)
def test_failures_are_typed_and_say_what_was_seen(make, tmp_path, script, kind, message):
    with pytest.raises(kind, match=message) as caught:
        make(script)(THETA)
    assert isinstance(caught.value, tbq.TbqError)
    kept = Path(str(caught.value).rpartition("Its directory is kept: ")[2])
    assert kept.parent == tmp_path / "work"
    assert (kept / "in.txt").read_text() == "a = 1.5\nb = -2.0\nc = 0.25\n"


def test_only_the_last_lines_of_stderr_are_told(make):
    with pytest.raises(errors.ProgramError) as caught:
        make("import sys; [print('line', i, file=sys.stderr) for i in range(100_000)]; sys.exit(3)")(THETA)
    assert "  line 99999\n" in str(caught.value)
    assert "line 99980" not in str(caught.value)


def test_a_timeout_ends_the_program_and_its_children(make, tmp_path):
    (tmp_path / "sim.sh").write_text("sleep 60 & echo $! > pid; echo started; sleep 60")
    program = {"command": ("sh", "sim.sh", "{a}", "{b}", "{c}"), "files": (tmp_path / "sim.sh",)}
    with pytest.raises(errors.SimulatorTimeoutError, match=r"ended after 1 s (.|\n)*  started\n") as caught:
        make("", timeout=1.0, **program)(THETA)
    assert isinstance(caught.value, TimeoutError)
    pid = int((Path(str(caught.value).rpartition("kept: ")[2]) / "pid").read_text())
    _assert_ends(pid)


def test_the_timeout_of_a_run_ends_the_program_too(make, tmp_path):
    (tmp_path / "sim.sh").write_text("echo $$ > pid; exec sleep 60")
    model = make("", command=("sh", "sim.sh", "{a}", "{b}", "{c}"), files=(tmp_path / "sim.sh",))
    prior = tbq.Prior({name: stats.uniform(0, 1) for name in "abc"})
    result = tbq.infer(model, prior, seed=0, n_initial=1, max_evaluations=1, population=128, timeout=2.0)
    assert [e.status for e in result.evaluations] == ["timeout"]
    (pid,) = (tmp_path / "work").glob("*/pid")
    _assert_ends(int(pid.read_text()))


def _assert_ends(pid):
    deadline = time.monotonic() + 60
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(pid)


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"command": "python3 sim.py"}, r"command must be a list of program and arguments, .* got 'python3 sim.py'"),
        ({"command": ()}, "command must be a list"),
        ({"command": ("no-such-program",)}, "command: there is no program 'no-such-program'"),
        ({"template": "nowhere.in"}, "template: there is no file 'nowhere.in'"),
        ({"files": ("nowhere.msh",)}, "files: there is no file 'nowhere.msh'"),
        ({"names": ("a", "b", "d")}, r"d: the parameter does not appear in the template or the command; write \{d\}"),
        ({"template": None}, "a: the parameter does not appear in the command"),
        ({"pattern": "f = ("}, "pattern is not a regular expression: missing"),
        ({"pattern": "f = .*"}, "pattern must have one group .* got 0"),
        ({"output": "/etc/passwd"}, "output must be a file inside the run's directory"),
        ({"output": "../out.txt"}, "output must be a file inside the run's directory"),
        ({"timeout": 0.0}, "timeout must be a positive number of seconds; got 0.0"),
    ],
)
def test_wrong_commands_are_refused_before_they_run(make, changes, message):
    with pytest.raises(errors.ArgumentError, match=message):
        make(GOOD, **changes)


def test_failed_programs_are_outcomes_of_a_run(make):
    model = make(READ + "assert float(values['a']) < 0.5, 'a is too large'; print(values['a'])", output="stdout.txt")
    likelihood = tbq.GaussianLikelihood(model, 0.3, 0.2)
    prior = tbq.Prior({"a": stats.uniform(0, 1), "b": stats.uniform(0, 1), "c": stats.uniform(0, 1)})
    result = tbq.infer(likelihood, prior, seed=0, n_initial=12, max_evaluations=12, population=128)
    failed = [e for e in result.evaluations if e.status == "failed"]
    assert all((e.theta[0] >= 0.5) == (e in failed) for e in result.evaluations)
    assert len(failed) == 6  # of a Latin hypercube
    assert "AssertionError: a is too large" in failed[0].message
