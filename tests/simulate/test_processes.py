"""Nothing outlives us: however the one who started them ends, simulators and all that they started end with it."""

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import outliving
import pytest
from driving import infer
from likelihoods import log_likelihood
from outliving import TOKEN, left, started, wait_until

import tbq
from tbq.simulate import guard, processes

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")

SCRIPT = Path(outliving.__file__)
ALL = {  # processes that begin, at least
    "here": 4,
    "family": 3,
    "apart": 4,
    "command": 4,
    "command, on threads": 8,
    "forked pool": 8,
    "spawned pool": 2,
    "served pool": 8,
    "stuck pool": 2,
    "given pool": 8,
    "pool, apart": 8,
}


@pytest.fixture
def begin(tmp_path):
    """A run in a process of its own, whose simulators have begun; with the token of all that it starts."""
    token, folder = uuid.uuid4().hex, tmp_path / "started"
    folder.mkdir()
    run = []

    def start(scenario, *guards):
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), scenario, str(folder), *guards],
            env={**os.environ, TOKEN: token, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        )
        run.append(process)
        assert wait_until(lambda: len(started(folder)) >= ALL[scenario] or process.poll() is not None, 60)
        assert process.poll() is None
        return process, token

    yield start
    for process in run:
        process.kill()
        process.wait()
    for pid, _ in left(token):
        guard.kill(pid)


def check_ended(process, token, how):
    assert len(left(token)) > 1
    process.send_signal(how)
    process.wait(20)
    assert wait_until(lambda: not left(token), 5), left(token)


@pytest.mark.parametrize("scenario", ALL)
def test_nothing_is_left_when_we_are_killed(begin, scenario):
    check_ended(*begin(scenario), signal.SIGKILL)


@pytest.mark.parametrize(
    ("scenario", "how"),
    [
        ("here", signal.SIGTERM),
        ("forked pool", signal.SIGTERM),
        ("command, on threads", signal.SIGHUP),
        ("given pool", signal.SIGHUP),
        *(
            (scenario, signal.SIGINT)
            for scenario in ("here", "command, on threads", "forked pool", "given pool", "apart")
        ),
    ],
)
def test_nothing_is_left_when_we_are_ended(begin, scenario, how):
    check_ended(*begin(scenario), how)


WITHOUT_PROC = """
import os, sys
sys.path.insert(0, {folder!r})
import guard
guard._PROC = "/nowhere"
del os.pidfd_open
guard.main()
"""


def test_where_there_is_no_proc_announcements_and_ps_have_to_do(begin, tmp_path):
    script = tmp_path / "guard_elsewhere.py"
    script.write_text(WITHOUT_PROC.format(folder=str(Path(guard.__file__).parent)))
    check_ended(*begin("stuck pool", str(script)), signal.SIGKILL)


def test_ps_and_proc_tell_the_same_tree(monkeypatch):
    with subprocess.Popen(["sh", "-c", "sleep 30 & sleep 30"]) as process:
        wait_until(lambda: len(guard.descendants([process.pid])) == 2, 5)
        found = guard.descendants([process.pid])
        monkeypatch.setattr(guard, "_PROC", "/nowhere")
        assert guard.descendants([process.pid]) == found
        assert len(found) == 2
        assert guard.birth(process.pid) == "unknown"
        assert guard.marked() == []
        guard.end_tree([process.pid])
        process.wait(5)
        monkeypatch.undo()
        assert wait_until(lambda: not any(guard.birth(pid) for pid in found), 5)


# --- resuming -----------------------------------------------------------------------------------------------


def test_no_theta_is_run_beside_its_own_orphan(begin, tmp_path):
    process, token = begin("forked pool")
    with pytest.raises(tbq.TbqError, match="still under way, and none is made beside itself"):
        processes.wait_for_orphans(tmp_path / "journal", 0.0)
    process.kill()
    processes.wait_for_orphans(tmp_path / "journal", 10.0)
    assert left(token) == [] or [pid for pid, _ in left(token)] == [process.pid]  # a body, not waited for


def test_also_where_the_guard_was_killed_with_us(begin, tmp_path):
    process, token = begin("here")
    for pid, command in left(token):
        if pid == process.pid or "guard.py" in command:
            os.kill(pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.2)
    assert len(left(token)) >= 4
    processes.wait_for_orphans(tmp_path / "journal", 5.0)
    assert wait_until(lambda: not left(token), 5)


def test_runs_that_a_thread_still_makes_are_waited_for(tmp_path, caplog):
    release, begun = threading.Event(), []

    def slow(theta):
        begun.append(tuple(theta))
        if len(begun) == 2:
            release.wait(30)
        return log_likelihood(theta)

    with ThreadPoolExecutor(2) as threads:
        # the second run is still out when the first ends the run
        first = infer(slow, 1, n_initial=1, executor=threads, journal=tmp_path / "a")
        assert first.n_evaluations == 1
        runner = threads.submit(infer, slow, 3, n_initial=1, journal=tmp_path / "b")
        wait_until(lambda: len(begun) == 2, 10)
        with pytest.raises(tbq.TbqError, match="still under way"):
            processes.wait_for_orphans(tmp_path / "b", 0.05)
        processes.wait_for_orphans(tmp_path / "a", 0.0)  # another journal
        threading.Timer(1.5, release.set).start()
        processes.wait_for_orphans(tmp_path / "b", 30.0)
        assert "waiting for interrupted runs" in caplog.text
        runner.result()


# --- the environment ----------------------------------------------------------------------------------------


def test_the_mark_is_there_while_runs_are_made_and_gone_afterwards(monkeypatch):
    seen = []

    def looks(theta):
        seen.append(os.environ.get(guard.VARIABLE))
        return log_likelihood(theta)

    infer(looks, 12)
    assert len(set(seen)) == 1
    assert guard.VARIABLE not in os.environ
    monkeypatch.setenv(guard.VARIABLE, "outer/1//")
    infer(looks, 12, executor=partial(ThreadPoolExecutor, 2))
    assert all(value.startswith("outer/1//") for value in seen[12:])
    assert os.environ[guard.VARIABLE] == "outer/1//"


def test_what_a_finished_program_left_behind_ends_with_the_process(tmp_path):
    code = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from tbq.adapters import CommandModel\n"
        "script = Path(sys.argv[1]) / 'sim.sh'; script.write_text('sleep 600 & echo $! > ../pid; echo 1 # {a}')\n"
        "model = CommandModel(('a',), ['sh', 'sim.sh', '{a}'], 'stdout.txt', files=[script], folder=sys.argv[1])\n"
        "print(model(np.zeros(1)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True)
    assert done.stdout == "[1.]\n"
    assert guard.birth(int((tmp_path / "pid").read_text())) == ""


def test_without_a_guard_runs_are_made_all_the_same(monkeypatch, tmp_path):
    own = processes._Own()
    monkeypatch.setattr(processes, "_own", own)
    monkeypatch.setattr(processes.multiprocessing.spawn, "get_executable", lambda: "/opt/blender")
    assert infer(log_likelihood, 12, journal=tmp_path).n_evaluations == 12
    assert own.guard is not None
    assert own.guard.process is None
