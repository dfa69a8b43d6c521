"""Queues: a real Slurm of one node, whose jobs are cancelled, whose node is drained and whose driver is killed."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import Executor
from pathlib import Path

import numpy as np
import pytest
import slurm_node
from driving import infer, statuses, thetas
from likelihoods import Dying, log_likelihood

from tbq import clusters
from tbq.common.errors import ArgumentError
from tbq.problem.evaluation import Status
from tbq.run import journal

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
RUNS = 18
NEEDS_JOBQUEUE = pytest.mark.skipif(  # looked for, not imported: an import changes what Ctrl-C does
    importlib.util.find_spec("dask_jobqueue") is None,
    reason="dask-jobqueue is not installed: pip install 'tbq[cluster]'",
)


@pytest.fixture
def slurm(tmp_path):
    if NEEDS_JOBQUEUE.args[0]:
        pytest.skip(NEEDS_JOBQUEUE.kwargs["reason"])
    if why := slurm_node.missing():
        pytest.skip(why)
    with slurm_node.slurm(tmp_path / "slurm") as environment:
        yield environment


@pytest.fixture
def no_slurm(tmp_path, monkeypatch):
    """Programs of that name, which do nothing: for what is asked before a job is submitted."""
    for name in ("sbatch", "qsub"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


class Driver:
    """A run in a process of its own."""

    def __init__(self, folder, environment):
        command = [sys.executable, str(TESTS / "slurm_run.py"), str(folder), str(RUNS)]
        environment = {**environment, "PYTHONPATH": f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        self.folder, self.process = folder, subprocess.Popen(command, env=environment)

    def told(self):
        return journal.read(self.folder / "run").evaluations if (self.folder / "run" / journal.FILE).exists() else ()

    def wait_for(self, ready, seconds=120):
        deadline = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < deadline, "nothing happens"
            assert self.process.poll() is None or ready()
            time.sleep(0.1)


def test_no_finished_run_is_lost_or_repeated_whatever_befalls_the_queue(slurm, tmp_path):
    ask = lambda *command: subprocess.run(command, env=slurm, check=True, capture_output=True, text=True).stdout
    jobs = lambda: ask("squeue", "-h", "-t", "R", "-o", "%A").split()
    calls = lambda: [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    first = Driver(tmp_path, slurm)
    first.wait_for(lambda: len(first.told()) >= 4)
    at_work = calls()[-1][1]
    ask("scancel", at_work)
    first.wait_for(lambda: len(first.told()) >= 8 and len(jobs()) == 2)  # another job took its place
    assert at_work not in jobs()
    host = ask("hostname").strip().partition(".")[0]
    ask("scontrol", "update", f"NodeName={host}", "State=DRAIN", "Reason=test")
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    finished = {e.id: e.theta[0] for e in first.told()}
    ask("scancel", *jobs())  # the orphans, which would end by themselves a minute later
    second = Driver(tmp_path, slurm)
    second.wait_for(lambda: ask("squeue", "-h", "-t", "PD", "-o", "%A").split() != [])
    assert len(second.told()) == len(finished)
    ask("scontrol", "update", f"NodeName={host}", "State=RESUME")
    assert second.process.wait(180) == 0
    told = second.told()
    assert len(told) == RUNS
    assert {e.status for e in told} == {Status.OK}
    assert len({e.id for e in told}) == RUNS
    times = Counter(theta for theta, _ in calls())
    lost = [theta for theta in times if times[theta] > 1]
    assert len(lost) <= 1 + 2  # that of the cancelled job, and those that were out when the driver was killed
    again = [repr(theta) for theta in finished.values() if times[repr(theta)] > 1]
    assert len(again) <= 1  # that of the cancelled job, before it was finished
    assert second.process.poll() == 0
    assert jobs() == []  # none outlives the run


def test_the_script_of_the_page_runs(slurm, tmp_path):
    page = (ROOT / "docs/howto/cluster.md").read_text()
    for name, text in re.findall(r"^```python\n# file: (\S+)\n(.*?)^```", page, re.M | re.S):
        (tmp_path / name).write_text(text)
    environment = {**slurm, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "on_slurm.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.stdout == "10 runs\n", done.stderr
    assert {e.status for e in journal.read(tmp_path / "runs/slurm").evaluations} == {Status.OK}
    printed = [log.read_text() for log in (tmp_path / "logs").glob("*.out")]
    assert printed
    assert set(printed) == {"here modules are loaded\n"}


@NEEDS_JOBQUEUE
def test_jobs_are_asked_for_as_one_says(no_slurm):
    options = {"walltime": "02:00:00", "cores": 4, "memory": "8GB", "queue": "long", "account": "bridge"}
    options["prelude"] = ["module load calculix"]
    for make, lines in (
        (clusters.slurm, ["-p long", "-A bridge", "--cpus-per-task=4", "--mem=8G", "-t 02:00:00"]),
        (clusters.pbs, ["-q long", "-A bridge", "select=1:ncpus=4:mem=8GB", "-l walltime=02:00:00"]),
    ):
        cluster = make(8, **options).cluster()
        script = cluster.job_script()
        cluster.close()
        for line in lines:
            assert re.search(rf"^#(SBATCH|PBS) .*{re.escape(line)}", script, re.M), script
        assert script.index("module load calculix") < script.index("--nthreads 1")  # one run at a time


@NEEDS_JOBQUEUE
def test_ctrl_c_is_left_as_it_was(no_slurm, monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    for name in [name for name in sys.modules if name.startswith("dask_jobqueue")]:
        monkeypatch.delitem(sys.modules, name)  # its import changes what SIGINT does
    clusters.slurm(1, walltime="1:00", memory="1GB").cluster().close()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("arguments", "changes", "message"),
    [
        ((0,), {}, "slurm: jobs must be a whole number of at least 1; got 0"),
        ((2,), {"cores": 0}, "slurm: cores must be a whole number of at least 1; got 0"),
        ((2,), {"minimum": 3}, "slurm: minimum must be at most jobs = 2; got 3"),
        ((2,), {"prelude": "module load x"}, "slurm: prelude must be a list of commands; got 'module load x'"),
    ],
)
def test_what_cannot_be_is_refused(no_slurm, arguments, changes, message):
    with pytest.raises(ArgumentError, match=re.escape(message)):
        clusters.slurm(*arguments, walltime="1:00", **changes)


def test_a_machine_without_a_queue_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ArgumentError, match="slurm: there is no sbatch here; run this where jobs can be submitted"):
        clusters.slurm(2, walltime="1:00")
    with pytest.raises(ArgumentError, match="pbs: there is no qsub here"):
        clusters.pbs(2, walltime="1:00")


# --- submitit -----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_submitit_gives_the_same_run_and_a_job_that_dies_is_made_again(tmp_path, monkeypatch):
    submitit = pytest.importorskip("submitit", reason="submitit is not installed: pip install submitit")
    monkeypatch.setenv("PYTHONPATH", f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    jobs = clusters.submitit(submitit.LocalExecutor(folder=tmp_path / "logs"), places=2)
    assert isinstance(jobs, Executor)
    result = infer(Dying(tmp_path), 6, n_initial=4, executor=jobs)
    assert set(statuses(result)) == {Status.OK}
    np.testing.assert_array_equal(thetas(result), thetas(infer(log_likelihood, 6, n_initial=4)))
    with pytest.raises(ArgumentError, match="executor must be a submitit executor; got int"):
        clusters.submitit(3)
