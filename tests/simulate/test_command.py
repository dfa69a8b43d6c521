"""What programs need besides a template: several of them, links, variables, a prelude, a place to work, licences."""

import os
import re
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.adapters import CommandModel, Licences
from tbq.common import errors


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A model of one parameter around a shell script, whose directories go to ``tmp_path / "work"``."""
    monkeypatch.setenv("HOME", str(tmp_path))  # login shells read what the one who tests has there

    def model(script, **changes):
        (tmp_path / "sim.sh").write_text(script)
        arguments = {
            "names": ("a",),
            "command": ("sh", "sim.sh", "{a}"),
            "output": "stdout.txt",
            "files": (tmp_path / "sim.sh",),
            "folder": tmp_path / "work",
        }
        return CommandModel(**arguments | changes)

    return model


def test_several_templates_are_filled_and_a_parameter_may_be_in_any(make, tmp_path):
    (tmp_path / "steps.inc").write_text("{a*1e3:.1f}\n")
    (tmp_path / "model.inp").write_text("{b}\n")
    templates = [tmp_path / "model.inp", tmp_path / "steps.inc"]
    model = make("cat steps.inc model.inp", names=("a", "b"), command=("sh", "sim.sh"), template=templates)
    np.testing.assert_array_equal(model([1.5, -2.0]), [1500, -2])
    assert model.inputs([0.5, 1.0]) == {"model.inp": "1.0\n", "steps.inc": "500.0\n"}
    with pytest.raises(errors.ArgumentError, match="c: the parameter does not appear in the template or the command"):
        make("", names=("a", "b", "c"), template=templates)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/model.inp").write_text("{a}")
    with pytest.raises(errors.ArgumentError, match=r"two are called 'model.inp', and one would take its place"):
        make("", template=[*templates, tmp_path / "other/model.inp"])


def test_a_value_too_long_for_its_field_names_the_file_and_the_line(make, tmp_path):
    (tmp_path / "model.inp").write_text("*MATERIAL\n{a:8.2e}\n")
    model = make("cat model.inp | tail -1", template=tmp_path / "model.inp")
    np.testing.assert_array_equal(model([2.0]), [2])
    with pytest.raises(errors.SimulatorError, match=r"model.inp, line 2: \{a:8.2e\} is -2.00e\+00, of 9 char"):
        model([-2.0])


def test_large_files_are_linked_and_folders_too(make, tmp_path):
    (tmp_path / "mesh.txt").write_text("7\n")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/t.txt").write_text("8\n")
    script = "test -L mesh.txt && test -L tables && cat mesh.txt tables/t.txt"
    model = make(script, links=[tmp_path / "mesh.txt", tmp_path / "tables"])
    np.testing.assert_array_equal(model([1.0]), [7, 8])
    assert (tmp_path / "tables/t.txt").exists()  # the directory was removed, what was linked was not
    with pytest.raises(errors.ArgumentError, match=r"links: there is no file 'no\.msh'"):
        make("", links=["no.msh"])


def test_variables_are_set_beside_those_there_are_and_may_hold_parameters(make, monkeypatch):
    monkeypatch.setenv("TBQ_TEST_OUTER", "5")
    variables = {"THREADS": "3", "VALUE": "{a*2}"}
    model = make("echo $THREADS $TBQ_TEST_OUTER $VALUE", command=("sh", "sim.sh"), environment=variables)
    np.testing.assert_array_equal(model([1.5]), [3, 5, 3])
    assert "THREADS" not in os.environ
    for wrong in (["A=1"], {"A": 1}, {"A=B": "1"}, {"": "1"}, {"A": "\0"}):
        with pytest.raises(errors.ArgumentError, match="environment must be a table of variables and their texts"):
            make("", environment=wrong)


def test_a_prelude_is_read_by_a_shell_and_the_command_is_not(make, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/solver").write_text("#!/bin/sh\necho $FACTOR; test \"$1\" = '$FACTOR' && echo 1\n")
    (tmp_path / "bin/solver").chmod(0o755)
    prelude = [f"export PATH={tmp_path}/bin:$PATH", "FACTOR=$((3 * 4)); export FACTOR  # a comment", "echo loaded"]
    model = make("", command=("solver", "$FACTOR", "{a}"), prelude=prelude)
    np.testing.assert_array_equal(model([1.5]), [12, 1])  # what it printed is not among the outputs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prelude": ["true", "echo no such module >&2; false", "true"]}, "the prelude failed (.|\n)*no such module"),
        ({"prelude": ["exit 0"]}, "the prelude failed before the program was started"),
        ({"prelude": ["true"], "command": ("no-such-solver", "{a}")}, "could not start the program: exit code 127"),
        ({"prelude": ["true"], "transient": [75]}, "the program ended with exit code 75, which is transient"),
    ],
)
def test_a_prelude_that_fails_has_nothing_to_do_with_theta(make, changes, message):
    with pytest.raises(tbq.Transient, match=message):
        make("exit 75", **changes)([1.0])


def test_a_program_that_fails_after_its_prelude_is_a_failure(make, tmp_path):
    with pytest.raises(errors.ProgramError, match="exit code 3") as caught:
        make("echo mesh tangled >&2; exit 3", prelude=["true"])([1.0])
    assert not isinstance(caught.value, tbq.Transient)
    assert "mesh tangled" in str(caught.value)
    start = time.monotonic()
    with pytest.raises(errors.SimulatorTimeoutError):
        make("sleep 60", prelude=["true"], timeout=0.5)([1.0])
    assert time.monotonic() - start < 20


def test_the_place_to_work_may_be_that_of_the_machine(make, tmp_path, monkeypatch):
    monkeypatch.setenv("TBQ_TEST_SCRATCH", str(tmp_path / "scratch"))
    model = make("pwd >&2; echo 1", folder="$TBQ_TEST_SCRATCH/runs", keep=True)
    np.testing.assert_array_equal(model([1.0]), [1])
    (kept,) = (tmp_path / "scratch/runs").iterdir()
    assert (kept / "stderr.txt").read_text().strip() == str(kept)
    monkeypatch.delenv("TBQ_TEST_SCRATCH")
    with pytest.raises(tbq.Transient, match=r"folder: \$TBQ_TEST_SCRATCH of .* is not set here"):
        model([1.0])


# --- licences -----------------------------------------------------------------------------------------------

COUNTING = "touch {at}/in-$$; ls {at} | grep -c in- ; sleep 0.2; rm {at}/in-$$"


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_no_more_runs_than_licences_are_under_way(make, tmp_path, pool):
    (tmp_path / "at").mkdir()
    model = make(COUNTING.replace("{at}", str(tmp_path / "at")), licences=2)
    with pool(5) as workers:
        seen = [int(n[0]) for n in workers.map(model, np.arange(8.0)[:, None])]
    assert max(seen) == 2


def test_two_models_share_the_licences_of_a_folder(make, tmp_path):
    (tmp_path / "at").mkdir()
    licences = Licences(1, tmp_path / "shared")
    script = COUNTING.replace("{at}", str(tmp_path / "at"))
    models = [make(script, licences=licences, folder=tmp_path / name) for name in "ab"]
    with ThreadPoolExecutor(4) as workers:
        seen = [f.result()[0] for f in [workers.submit(models[i % 2], [1.0]) for i in range(6)]]
    assert seen == [1] * 6


def test_a_licence_that_failed_runs_held_is_free_again(make):
    model = make("exit 3", licences=1)
    for _ in range(3):
        with pytest.raises(errors.ProgramError):
            model([1.0])


def test_who_waits_for_a_licence_when_a_run_is_interrupted_starts_nothing_more(make, tmp_path):
    (tmp_path / "at").mkdir()
    script = f"touch {tmp_path}/at/$$; sleep 60"
    model = make(script, licences=1)
    prior = tbq.Prior({"a": stats.uniform(0, 1)})

    def interrupt():
        while not list((tmp_path / "at").iterdir()):
            time.sleep(0.02)
        time.sleep(0.2)
        os.kill(os.getpid(), 2)

    thread = threading.Thread(target=interrupt)
    thread.start()
    start = time.monotonic()
    with ThreadPoolExecutor(3) as pool, pytest.raises(KeyboardInterrupt):
        tbq.infer(model, prior, executor=pool, batch_size=3, seed=0)
    thread.join()
    assert time.monotonic() - start < 30
    assert len(list((tmp_path / "at").iterdir())) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"licences": 0}, "licences must be a whole number of at least 1; got 0"),
        ({"licences": 2, "folder": None}, "licences: give a folder that all runs see"),
        ({"licences": 2, "folder": "$TMPDIR/x"}, "licences: give a folder that all runs see"),
        ({"prelude": "module load x"}, "prelude must be a list of commands; got 'module load x'"),
    ],
)
def test_what_cannot_be_is_refused_before_a_run(make, changes, message):
    with pytest.raises(errors.ArgumentError, match=re.escape(message)):
        make("", **changes)


def test_a_case_file_has_all_of_it(tmp_path, monkeypatch):
    from tbq.cli import casefile

    for name, text in {"in.txt": "{a:10}\n", "two.txt": "{b*2}\n", "big.msh": "1\n"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "case.toml").write_text(
        "[parameters]\n"
        'a = {distribution = "uniform", low = 1, high = 2}\nb = {distribution = "uniform", low = 1, high = 2}\n'
        f"[model]\ncommand = [{sys.executable!r}, '-c', 'print(open(\"in.txt\").read(), open(\"two.txt\").read())']\n"
        'template = ["in.txt", "two.txt"]\nlinks = ["big.msh"]\noutput = "stdout.txt"\nprelude = ["export X=1"]\n'
        'workdir = "scratch"\nlicences = {limit = 2, folder = "lic"}\n[model.environment]\nOMP_NUM_THREADS = "1"\n'
        "[data]\nobserved = [1, 2]\nnoise = 0.1\n"
    )
    case = casefile.load(tmp_path / "case.toml")
    model = case.simulator(tmp_path / "work")
    assert isinstance(model, CommandModel)
    assert model.licences == Licences(2, str(tmp_path / "lic"))
    assert model.folder == str(tmp_path / "scratch")
    np.testing.assert_array_equal(model([1.5, 1.25]), [1.5, 2.5])
    (tmp_path / "again").mkdir()
    (tmp_path / "again/case.toml").write_text(case.to_toml())
    assert casefile.load(tmp_path / "again/case.toml") == case
    text = (tmp_path / "case.toml").read_text()
    for wrong in ("0", "true", "{limit = 2}", '"two"'):
        (tmp_path / "case.toml").write_text(re.sub("licences = .*", f"licences = {wrong}", text))
        with pytest.raises(casefile.CaseError, match=r"^model\.licences: must be a whole number of at least 1, or"):
            casefile.load(tmp_path / "case.toml")
    (tmp_path / "case.toml").write_text(re.sub("licences = .*", "licences = 3", text))
    model = casefile.load(tmp_path / "case.toml").simulator(Path("runs/work"))
    assert model.licences == Licences(3, Path("runs/work/licences"))


@pytest.mark.parametrize("kind", ["template", "files", "links"])
@pytest.mark.parametrize("name", ["stdout.txt", "stderr.txt", "prelude.done", "out.txt"])
def test_what_is_there_before_a_run_is_not_taken_for_its_output(tmp_path, kind, name):
    (tmp_path / name).write_text("1.0")
    message = "output: 'out.txt' is there before the run" if name == "out.txt" else f"'{name}' is a name that tbq needs"
    with pytest.raises(tbq.TbqError, match=message):
        CommandModel(["a"], ["true", "{a}"], "out.txt", **{kind: [tmp_path / name]})
