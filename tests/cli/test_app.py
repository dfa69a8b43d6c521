"""The command line as a user meets it: check, run, resume, status, in this process and from other terminals."""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import tbq
from tbq.cli import casefile, status
from tbq.cli.app import app
from tbq.common.words import duration
from tbq.problem.evaluation import Status
from tbq.run import journal, outage
from tbq.simulate.textfiles import read_csv

ROOT = Path(__file__).parents[2]
TBQ = str(Path(sys.executable).with_name("tbq"))

CASE = """
title = "A spring"

[parameters]
k = {distribution = "uniform", low = 0.0, high = 2.0}

[model]
python = "MODULE:force"

[data]
observed = [1.2]
noise = 0.1

[run]
seed = 3
surrogate = "log_likelihood"
population = 256
max_evaluations = 40
"""
COUNT = "file = open('calls', 'a'); file.write('.'); file.close(); return theta"
EXACT = stats.norm.cdf([-1.2, 0.8], 0, 0.1) @ [-1, 1] / 2  # the force is k itself


@pytest.fixture
def spring(tmp_path, monkeypatch):
    """Write a case around a body of ``force(theta)``; returns the path of its file."""
    module = f"spring_{tmp_path.name.replace('-', '_')}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(body="return theta", *changes):
        (tmp_path / f"{module}.py").write_text(
            f"import time\nfrom pathlib import Path\n\n\ndef force(theta):\n    {body}\n"
        )
        text = CASE.replace("MODULE", module)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "spring.toml").write_text(text)
        return tmp_path / "spring.toml"

    return write


def cli(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def evidence_of(folder):
    return re.search(r"log evidence   (\S+) ± (\S+)", (folder / "summary.txt").read_text()).groups()


# --- check --------------------------------------------------------------------------------------------------


def test_check_explains_what_it_saw(spring):
    done = cli("check", spring())
    assert done.exit_code == 0, done.output
    assert re.search(r"k +1 +0.5774 +0.1 +1.9\n", done.output)
    assert "data         1 number, noise standard deviation 0.1" in done.output
    assert re.search(r"At the prior mean it returned 1 number after \S+ s.", done.output)
    assert re.search(r"At draw 2: 1 number after \S+ s\n", done.output)
    assert re.search(r" 1 +1.2 +-2\n", done.output)
    assert f"Its log-likelihood is {stats.norm.logpdf(1.2, 1.0, 0.1):.6g}." in done.output
    assert "initial design takes" in done.output
    assert "Nothing wrong was seen." in done.output


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return [1.0, 2.0]", "the model returned 2 numbers, but data.observed has 1"),
        ("return float('nan')", "the model's output 1 of 1 is nan"),
        ("return 'strong'", "all 3 runs failed; the first said: the model returned str, not numbers"),
        (
            "raise ValueError('too soft')",
            r"all 3 runs failed; the first said: the model raised ValueError: too soft \(.*\.py, line 6\)",
        ),
    ],
)
def test_check_says_what_is_wrong_with_the_run(spring, body, message):
    done = cli("check", spring(body))
    assert done.exit_code == 2
    assert re.search(f"spring.toml: {message}", done.output)
    assert "Nothing wrong" not in done.output


def test_check_notices_wrong_units(spring):
    assert "! All runs are very far from the data" in cli("check", spring("return 1000 * theta")).output


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("return -theta[0]", 0, "The log-likelihood is -1."),
        ("return -float('inf')", 0, "The log-likelihood is −inf: the prior mean has zero likelihood."),
        ("return float('inf')", 2, "the log-likelihood is inf"),
        ("return [1, 2]", 2, "returned 2 numbers, but model.returns = 'log_likelihood' means one"),
    ],
)
def test_check_of_a_log_likelihood(spring, body, code, message):
    no_data = ("[data]\nobserved = [1.2]\nnoise = 0.1\n", "")
    done = cli("check", spring(body, no_data, (':force"', ':force"\nreturns = "log_likelihood"')))
    assert done.exit_code == code
    assert message in done.output


def test_check_of_a_case_that_is_wrong(spring, tmp_path):
    done = cli("check", spring("return theta", ("noise", "niose"), ("[run]", "[rnu]")))
    assert done.exit_code == 2
    assert "spring.toml:\n  data.niose is not a key; did you mean 'noise'?\n" in done.output
    assert "rnu is not a key; did you mean 'run'?" in done.output
    assert "Traceback" not in done.output
    assert "the file cannot be read" in cli("check", tmp_path / "nowhere.toml").output


# --- run and resume -----------------------------------------------------------------------------------------


def test_run_leaves_everything_in_its_folder(spring, tmp_path):
    done = cli("run", spring())
    assert done.exit_code == 0, done.output
    folder = tmp_path / "runs/spring"
    assert "A spring\nRunning in runs/spring" in done.output
    assert "Converged after" in done.output
    log_evidence, sd = map(float, evidence_of(folder))
    assert log_evidence == pytest.approx(np.log(EXACT), abs=3 * sd)
    assert casefile.load(folder / "case.toml") == casefile.load(tmp_path / "spring.toml").resolved(3)
    samples = np.genfromtxt(folder / "samples.csv", delimiter=",", names=True)
    assert samples["k"].mean() == pytest.approx(1.2, abs=0.02)
    assert cli("status", folder).output.startswith(f"{folder} ended. The surrogate's error of the evidence met")

    again = cli("run", tmp_path / "spring.toml")
    assert again.exit_code == 2
    assert "runs/spring has a run already; `tbq resume runs/spring` goes on with it" in again.output


def test_samples_have_the_names_of_their_parameters(spring, tmp_path):
    name = "k, 'E/E0'"
    path = spring("return theta", ("k = {dist", f'"{name}" = {{dist'), ("max_evaluations = 40", "max_evaluations = 12"))
    assert cli("run", path).exit_code == 3
    draws = read_csv(tmp_path / "runs/spring/samples.csv", name)
    assert np.mean(draws) == pytest.approx(1.2, abs=0.05)


def test_a_finished_run_is_not_run_again(spring, tmp_path):
    cli("run", spring(COUNT), "--out", tmp_path / "a")
    calls, before = len((tmp_path / "calls").read_text()), (tmp_path / "a/summary.txt").read_text()
    assert cli("resume", tmp_path / "a").exit_code == 0
    assert len((tmp_path / "calls").read_text()) == calls
    assert (tmp_path / "a/summary.txt").read_text() == before


def test_progress_in_a_log_is_a_line_per_stage(spring):
    path = spring("return theta", ("max_evaluations = 40", "max_evaluations = 14\ntolerance = 1e-5"))
    done = subprocess.run([TBQ, "run", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    first, *stages, last, hint = done.stderr.splitlines()[2:]
    assert first == "0 of at most 14 runs (none yet), initial design of 12"
    assert stages
    known = r"log evidence (not known before γ = 1 \(\S+ at γ = \S+\)|about \S+; its error is not yet estimated)"
    for line in stages:
        runs = r"\d+ of at most 14 runs \(\d+ ok; choosing the next\)"
        assert re.match(rf"{runs}, stage \d+, γ = \S+, {known}, .* s a run, .* so far", line)
    assert re.fullmatch(r"14 of at most 14 runs \(14 ok\), log evidence \S+ ± \S+\. The budget .*", last)
    assert hint == "`tbq resume runs/spring --max-evaluations 28` gives it more runs."
    assert "after 14 evaluations." in done.stdout


def test_failed_programs_leave_their_directories(spring, tmp_path):
    script = "case $1 in 0.[0-3]*) echo too soft >&2; exit 1;; 1.[89]*) sleep 60;; esac\necho $1\n"
    (tmp_path / "sim.sh").write_text(script)
    command = 'command = ["sh", "sim.sh", "{k}"]\nfiles = ["sim.sh"]\noutput = "stdout.txt"'
    settings = ("max_evaluations = 40", "max_evaluations = 12\nworkers = 2\ntimeout = 2")
    done = cli("run", spring("", (f'python = "{_module(tmp_path)}:force"', command), settings))
    assert done.exit_code == 3, done.output
    evaluations = journal.read(tmp_path / "runs/spring").evaluations
    failed = [e for e in evaluations if e.status is Status.FAILED]
    late = [e for e in evaluations if e.status is Status.TIMEOUT]
    assert all((e in failed) == (e.theta[0] < 0.4) and (e in late) == (e.theta[0] >= 1.8) for e in evaluations)
    assert failed
    assert late
    assert len(list((tmp_path / "runs/spring/work").iterdir())) == len(failed) + len(late)
    kept = Path(failed[0].message.rpartition("Its directory is kept: ")[2])
    assert kept.name == f"tbq-run-{failed[0].id:04d}"
    account = cli("status", tmp_path / "runs/spring").output
    directory = f"{kept.parent}/tbq-run-{failed[-1].id:04d}"
    assert re.search(rf"failed +runs? .*{failed[-1].id}: .*exit code 1.*: too soft; see {directory}", account)
    assert (kept / "stderr.txt").read_text() == "too soft\n"
    assert "timeout" in done.output


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_model_that_closes_our_output_loses_nothing(spring, tmp_path, stream):
    path = spring(f"import sys; sys.{stream}.close(); return theta", ("max_evaluations = 40", "max_evaluations = 12"))
    done = subprocess.run([TBQ, "run", str(path)], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "after 12 evaluations" in (tmp_path / "runs/spring/summary.txt").read_text()
    assert (tmp_path / "runs/spring/samples.csv").stat().st_size > 0


def test_what_a_program_prints_steers_no_terminal(spring, tmp_path):
    (tmp_path / "sim.sh").write_text("printf '\\033[2Jgone\\007' >&2; exit 1\n")
    command = 'command = ["sh", "sim.sh", "{k}"]\nfiles = ["sim.sh"]\noutput = "stdout.txt"'
    path = spring(
        "",
        (f'python = "{_module(tmp_path)}:force"', command),
        ("A spring", r"A \u001b]0;spring\u0007"),
        ("max_evaluations = 40", "max_evaluations = 10"),
    )
    check, run = cli("check", path), cli("run", path)
    status = cli("status", tmp_path / "runs/spring")
    report = cli("report", tmp_path / "runs/spring", "--out", tmp_path / "r.html")
    for said in (check.output, run.output, status.output):
        assert r"\x1b[2Jgone\x07" in said
        assert "\x1b" not in said
    assert r"A \x1b]0;spring\x07" in run.output
    assert report.exit_code == 0
    assert "\x1b" not in (tmp_path / "r.html").read_text()


def _module(tmp_path):
    return f"spring_{tmp_path.name.replace('-', '_')}"


# --- other terminals ----------------------------------------------------------------------------------------


STUCK = COUNT.replace("return", "time.sleep(60 if len(Path('calls').read_text()) == 15 else 0); return")


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def listen_to_interrupts():
    """Where the tests run in the background, interrupts are ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
def test_a_run_that_is_stopped_goes_on_as_if_it_had_not_been(spring, tmp_path, how):
    strict = ("max_evaluations = 40", "max_evaluations = 40\ntolerance = 0.0003")
    run = [TBQ, "run", str(spring(STUCK, strict)), "--out", "stopped"]
    with subprocess.Popen(run, stderr=subprocess.PIPE, text=True, preexec_fn=listen_to_interrupts) as process:  # noqa: PLW1509
        wait_for(lambda: (tmp_path / "calls").exists() and len((tmp_path / "calls").read_text()) == 15)
        during = cli("status", tmp_path / "stopped").output
        assert "stopped runs; the last news is" in during
        assert "runs           14 of at most 40: 14 ok; 1 running" in during
        assert re.search(r"stage          \d, γ = ", during)
        refused = cli("resume", tmp_path / "stopped")
        assert "is in use by another run" in refused.output
        process.send_signal(how)
        _, said = process.communicate(timeout=60)
    if how != signal.SIGKILL:
        assert process.returncode == 130
        assert "Interrupted. All finished runs are safe; `tbq resume stopped` goes on." in said
    assert "was interrupted; `tbq resume " in cli("status", tmp_path / "stopped").output

    spring(COUNT, strict)
    assert cli("resume", tmp_path / "stopped").exit_code == 0
    calls = len((tmp_path / "calls").read_text())
    assert cli("run", tmp_path / "spring.toml", "--out", tmp_path / "whole").exit_code == 0
    assert evidence_of(tmp_path / "stopped") == evidence_of(tmp_path / "whole")
    assert calls == len(journal.read(tmp_path / "whole").evaluations) + 1  # the one that was out is made again


def test_a_closed_terminal_that_nohup_has_us_ignore_is_ignored(spring, tmp_path):
    path = spring("import os, signal; os.kill(os.getpid(), signal.SIGHUP); return 2 * theta")
    with subprocess.Popen(["nohup", TBQ, "run", str(path), "--out", "a"], stderr=subprocess.DEVNULL) as process:
        assert process.wait(timeout=60) == 0
    assert "ended. " in cli("status", tmp_path / "a").output


def test_stopping_ends_the_programs_of_all_workers(spring, tmp_path):
    (tmp_path / "sim.py").write_text("import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    command = (
        f'command = ["{sys.executable}", "sim.py", "{{k}}"]\nfiles = ["sim.py"]\noutput = "stdout.txt"\ntimeout = 50'
    )
    path = spring("", (f'python = "{_module(tmp_path)}:force"', command), ("[run]", "[run]\nworkers = 2"))
    with subprocess.Popen([TBQ, "run", str(path), "--out", "a"], stderr=subprocess.DEVNULL) as process:
        printed = lambda: [
            int(p.read_text()) for p in (tmp_path / "a" / "work").glob("*/stdout.txt") if p.read_text().strip()
        ]
        wait_for(lambda: len(printed()) == 2)
        programs = printed()
        process.terminate()
        assert process.wait(timeout=20) == 130
    wait_for(lambda: not any(Path(f"/proc/{pid}/exe").exists() and _alive(pid) for pid in programs), 5)


def test_stopping_ends_python_workers(spring, tmp_path):
    path = spring("Path(f'started{theta[0]}').touch(); time.sleep(60)", ("[run]", "[run]\nworkers = 2"))
    with subprocess.Popen([TBQ, "run", str(path), "--out", "a"], stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: len(list(tmp_path.glob("started*"))) == 2)
        process.terminate()
        assert process.wait(timeout=20) == 130


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_status_follows_a_run_until_it_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(status, "_PATIENCE", 0.0)
    prior = tbq.Prior({"k": stats.uniform(0, 2)})
    with tbq.Session(prior, seed=0, journal=tmp_path, max_evaluations=20) as session:
        accounts = status.follow(tmp_path)
        first = next(accounts).lines()
        assert "runs; the last news" in first[0]
        assert first[2:5] == [
            "design         0 of 12 initial runs are back",
            "runs           0 of at most 20: none yet",
            "missing        12 runs of the initial design; then the likelihood is learned",
        ]
        one, two = session.ask(2)
        session.tell(one.id, log_likelihood=-1.5, seconds=3.0)
        session.fail(two.id, "mesh tangled")
        assert next(accounts).lines()[2:] == [
            "design         2 of 12 initial runs are back",
            "runs           2 of at most 20: 1 ok, 1 failed",
            "missing        10 of the 12 runs of the initial design; then the likelihood is learned",
            "time           1.5 s a run; initial design in 15 s; whole budget in 27 s",
            "in force       tolerance 0.04, at most 20 runs, seed 0",
            f"best run       log-likelihood -1.5 at k = {one.theta[0]:.4g}",
            "failed         run 1: mesh tangled",
        ]
    assert "was interrupted" in next(accounts).lines()[0]
    assert list(accounts) == []


def test_status_follows_a_run_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(status, "_PATIENCE", 0.0)
    prior = tbq.Prior({"k": stats.uniform(0, 2)})
    with tbq.Session(prior, seed=0, journal=tmp_path, population=128, max_evaluations=13) as session:
        accounts = status.follow(tmp_path)
        while not session.done:
            for p in session.ask(1):
                next(accounts)
                session.tell(p.id, log_likelihood=-0.5 * p.theta[0] ** 2)
        (look,) = accounts
        last = look.lines()
    assert last[0].startswith(f"{tmp_path} ended. {session.result().stop.value}")
    assert re.fullmatch(r"stage +\d+, γ = \S+", last[3])
    watched = cli("status", tmp_path, "--watch")
    assert watched.output.splitlines()[0] == last[0]


def test_status_and_resume_say_when_there_is_nothing(tmp_path):
    assert "there is no case.toml here; give the folder of a run" in cli("resume", tmp_path).output
    nothing = cli("status", tmp_path)
    assert nothing.exit_code == 2
    assert "there is none in" in nothing.output
    (tmp_path / "case.toml").write_text(CASE)
    assert "nothing was begun here" in cli("resume", tmp_path).output


def test_status_says_how_to_go_on(tmp_path):
    with tbq.Session(tbq.Prior({"x": stats.norm()}), journal=tmp_path / "asked", seed=0) as session:
        session.ask(2)
        by_hand = "waits to be told of 2 points that are out"
    assert f"{by_hand}; tbq.Session goes on with it" in cli("status", tmp_path / "asked").output
    (tmp_path / "asked/case.toml").touch()
    assert f"{by_hand}; `tbq ask {tmp_path}/asked --again` lists them" in "".join(status.lines(tmp_path / "asked"))
    with tbq.Session(tbq.Prior({"x": stats.norm()}), journal=tmp_path / "run", seed=0) as session:
        session.ask()
        session.note_begin(1, 1)
    assert "was interrupted; the same call of tbq.infer goes on with it" in cli("status", tmp_path / "run").output
    (tmp_path / "run/case.toml").touch()
    assert f"was interrupted; `tbq resume {tmp_path}/run` goes on with it" in "".join(status.lines(tmp_path / "run"))


def test_durations():
    assert [duration(s) for s in (0.0123, 9.0, 45.2, 150, 9000, 400_000)] == [
        "0.012 s",
        "9 s",
        "45 s",
        "2.5 min",
        "2.5 h",
        "4.6 days",
    ]


# --- outages ------------------------------------------------------------------------------------------------

AWAY = "import os\n    if os.path.exists('away'):\n        raise {error}\n    return theta"


@pytest.fixture
def quickly(monkeypatch):
    monkeypatch.setattr(outage, "_FIRST", 0.01)


def test_a_disk_that_is_full_in_the_end_leaves_no_half_tables_and_words(spring, tmp_path):
    path = spring("return theta", ("population = 256", "population = 2000"))
    with subprocess.Popen(
        [TBQ, "run", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),  # noqa: PLW1509
    ) as process:
        found, said = process.communicate(timeout=60)
    assert process.returncode == 75
    assert "log evidence" in found
    assert "result.tbq cannot be written: File too large. When they can, `tbq resume runs/spring` does" in said
    assert "Traceback" not in said
    assert not list((tmp_path / "runs/spring").glob("samples*"))
    assert cli("resume", tmp_path / "runs/spring").exit_code == 0
    assert len((tmp_path / "runs/spring/samples.csv").read_text().splitlines()) > 900


def test_a_run_whose_licence_is_away_is_paused_and_resumed(spring, tmp_path, quickly):
    import_tbq = AWAY.format(error="__import__('tbq').Transient('no licence')")
    path = spring(import_tbq, ("[run]", "[run]\npatience = 0.05"))
    (tmp_path / "away").touch()
    paused = cli("run", path)
    assert paused.exit_code == 75
    assert "Transient: no licence" in paused.output
    assert "When that is repaired, `tbq resume runs/spring` goes on." in paused.output
    account = cli("status", tmp_path / "runs/spring").output
    assert "was paused: Transient: no licence. When that is repaired, `tbq resume" in account
    assert "runs           0 of at most 40: 12 not back" in account
    assert re.search(r"outages        \d waits; the last .* ago: Transient: no licence", account)
    assert cli("report", tmp_path / "runs/spring").exit_code == 0
    page = (tmp_path / "runs/spring/report.html").read_text()
    assert tbq.Stop.PAUSED.value in page
    assert "Paused for: Transient: no licence" in page
    (tmp_path / "away").unlink()
    assert cli("resume", tmp_path / "runs/spring").exit_code == 0
    (tmp_path / "runs/spring").rename(tmp_path / "a")
    assert cli("run", path).exit_code == 0
    assert evidence_of(tmp_path / "a") == evidence_of(tmp_path / "runs/spring")


def test_failures_are_forgotten_on_request(spring, tmp_path):
    path = spring(AWAY.format(error="ValueError('no licence')"), ("[run]", "[run]\noutage_after = [inf, inf]"))
    (tmp_path / "away").touch()
    done = cli("run", path)
    assert done.exit_code == 4
    assert "40 failed" in done.output
    assert done.output.endswith(
        "When the model is repaired, `tbq resume runs/spring --retry-failed` runs them again.\n"
    )
    account = cli("status", tmp_path / "runs/spring").output
    assert "40 runs in a row, 0 to 39, failed alike (ValueError: no licence)." in account
    assert f"If that was an outage, `tbq resume {tmp_path}/runs/spring --retry-failed` runs them again" in account
    (tmp_path / "away").unlink()
    assert "40 failed" in cli("resume", tmp_path / "runs/spring").output
    again = cli("resume", tmp_path / "runs/spring", "--retry-failed")
    assert again.exit_code == 3  # all of the budget went out before anything was learned
    assert "40 ok" in again.output
    assert "failed" not in again.output
    log_evidence, sd = map(float, evidence_of(tmp_path / "runs/spring"))
    assert log_evidence == pytest.approx(np.log(EXACT), abs=3 * sd)


def test_exit_codes_may_be_named_as_transient(spring, tmp_path, quickly):
    (tmp_path / "sim.sh").write_text("test -e FOLDER/away && exit 75\necho $1\n".replace("FOLDER", str(tmp_path)))
    command = 'command = ["sh", "sim.sh", "{k}"]\nfiles = ["sim.sh"]\noutput = "stdout.txt"\ntransient = [75]'
    settings = ("[run]", "[run]\npatience = 0.0")
    path = spring("", (f'python = "{_module(tmp_path)}:force"', command), settings)
    (tmp_path / "away").touch()
    paused = cli("run", path)
    assert paused.exit_code == 75
    assert "exit code 75, which is transient" in paused.output
    (tmp_path / "away").unlink()
    done = cli("resume", tmp_path / "runs/spring")
    assert done.exit_code == 0
    assert "Converged after" in done.output


def test_a_server_that_is_not_there_is_to_be_tried_again_later(spring, tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    path = spring("", (f'python = "{_module(tmp_path)}:force"', f'url = "{url}"\nname = "m"\nretries = 0'))
    for command in ("check", "run"):
        done = cli(command, path)
        assert done.exit_code == 75
        assert "could not be reached" in done.output


def test_a_run_that_waits_says_so_from_another_terminal(tmp_path, monkeypatch):
    with tbq.Session(tbq.Prior({"x": stats.norm()}), journal=tmp_path, seed=0) as session:
        (p,) = session.ask()
        session.note_outage("no licence.\nReally not.", [p.id], 120.0)
        assert re.search(r"is paused, and tries again in (2.0 min|1\d\d s): no licence$", status.lines(tmp_path)[0])
        session.note_outage("no licence", [p.id], 0.0)
        assert "was paused, and tries again now: no licence" in status.lines(tmp_path)[0]
        session.note_outage("no licence", [p.id], None)  # given up, and resumed
        assert "runs; the last news" in status.lines(tmp_path)[0]
        session.tell(p.id, log_likelihood=0.0)
        assert status.lines(tmp_path)[-1].startswith("outages        3 waits; the last ")
