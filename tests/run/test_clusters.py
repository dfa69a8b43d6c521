"""Real clusters: Dask with workers in processes of their own, one of which is killed, and MPI ranks."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from driving import infer, statuses, thetas
from likelihoods import Hanging, Moody, Slow, log_likelihood

from tbq.problem.evaluation import Status
from tbq.run import journal

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'tbq[dask]'")
    options = {"n_workers": 3, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.filterwarnings("ignore")
def test_dask_gives_the_same_run(client):
    result = infer(log_likelihood, 16, executor=client.get_executor())
    np.testing.assert_array_equal(thetas(result), thetas(infer(log_likelihood, 16)))


@pytest.mark.filterwarnings("ignore")
def test_a_call_that_is_tried_again_is_made_again(client, tmp_path):
    # Dask makes equal calls only once, and would return the old failure
    moody = Moody(tmp_path, 2, "not today")
    result = infer(moody, 12, executor=client.get_executor(pure=True), retries=2)
    assert set(statuses(result)) == {Status.OK}
    assert {moody.calls(e.theta) for e in result.evaluations} == {1, 3}


@pytest.mark.filterwarnings("ignore")
def test_a_dask_worker_that_is_killed_costs_nothing(client, tmp_path):
    killed = []

    def kill():
        pid = next(iter(client.run(os.getpid).values()))
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    timer = threading.Timer(1.0, kill)
    timer.start()
    result = infer(Slow(0.2), 30, executor=client.get_executor(), batch_size=3, journal=tmp_path)
    timer.join()
    assert len(killed) == 1
    assert result.n_evaluations == 30
    assert set(statuses(result)) == {Status.OK}
    again = infer(pytest.fail, 30, journal=tmp_path)
    assert again.log_evidence == result.log_evidence


@pytest.mark.filterwarnings("ignore")
def test_a_hung_run_on_dask_is_ended(client, tmp_path):
    result = infer(Hanging(tmp_path), 12, executor=client.get_executor(), timeout=2.0, batch_size=3)
    for e in result.evaluations:
        assert e.status is (Status.TIMEOUT if e.theta[0] > 1.0 else Status.OK)


def test_mpi_ranks_give_the_same_run(tmp_path):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed: pip install 'tbq[mpi]'")
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpiexec is None:
        pytest.skip("there is no mpiexec: pip install mpich")
    command = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(TESTS / "mpi_run.py"), str(tmp_path)]
    subprocess.run(command, check=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"})
    runs = [journal.read(tmp_path / name).evaluations for name in ("alone", "batch")]
    alone, batch = (sorted(run, key=lambda e: e.id) for run in runs)
    np.testing.assert_array_equal([e.theta for e in alone], thetas(infer(log_likelihood, 16)))
    assert len(batch) == 24
    assert {e.status for e in batch} == {Status.OK}
    assert {int(e.outputs[0]) for e in batch} == {1, 2}  # rank 0 leads and does not run
