"""The runner: the same run on every executor, and nothing that a worker does stops it."""

import itertools
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from driving import infer, statuses, thetas
from likelihoods import Hanging, Moody, Slow, WithOutputs, log_likelihood

import tbq
from tbq.problem.evaluation import Status
from tbq.run import journal
from tbq.simulate import worker

NEVER = (np.inf, np.inf)  # failures alike that are an outage


@pytest.fixture(scope="module")
def plain():
    return infer(log_likelihood, 16)


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2) as pool:
        yield pool


# --- executors ----------------------------------------------------------------------------------------------


def test_one_at_a_time_the_executor_does_not_matter(plain, processes):
    with ThreadPoolExecutor(3) as threads:
        for options in (
            {"executor": threads},
            {"executor": processes},
            {"executor": partial(ThreadPoolExecutor, 2)},
            {"vectorized": True, "executor": threads},
            {"timeout": 30.0, "executor": partial(ThreadPoolExecutor, 3)},
        ):
            f = (lambda t: np.array([log_likelihood(row) for row in t])) if "vectorized" in options else log_likelihood
            other = infer(f, 16, **options)
            np.testing.assert_array_equal(thetas(other), thetas(plain))
            assert other.log_evidence == plain.log_evidence


def test_places_are_filled_as_they_become_free(tmp_path):
    lock, out, most, overlapped = threading.Lock(), set(), [0], threading.Event()
    numbers = itertools.count()

    def uneven(theta):
        with lock:
            mine = next(numbers)
            out.add(mine)
            most[0] = max(most[0], len(out))
            if any(other < mine - 4 for other in out):  # a slow one outlives four that began later
                overlapped.set()
        overlapped.wait(20.0) if mine == 6 else time.sleep(0.02)
        with lock:
            out.discard(mine)
        return log_likelihood(theta)

    options = {"batch_size": 4, "n_initial": 4, "journal": tmp_path, "tolerance": 1e-9}  # which is never met
    with ThreadPoolExecutor(4) as threads:
        result = infer(uneven, 30, executor=threads, **options)
    assert result.n_evaluations == 30
    assert most[0] == 4
    assert overlapped.is_set()
    gaps = np.linalg.norm(thetas(result)[:, None] - thetas(result)[None, :], axis=-1)[np.triu_indices(30, 1)]
    assert gaps.min() > 1e-6  # nothing is run twice, pending or not
    again = infer(pytest.fail, 30, **options)  # what asynchrony decided is replayed
    assert again.log_evidence == result.log_evidence
    np.testing.assert_array_equal(again.samples, result.samples)


def test_the_benchmark_of_utilisation_measures(capsys):
    benchmark = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/utilisation.py"))
    share = benchmark["main"](workers=2, runs=14, mean=0.1, spare=0, seed=0, problem="u2")
    assert 0.0 < share <= 1.0
    printed = capsys.readouterr().out
    assert f"2 workers: {100 * share:.1f} % busy" in printed
    assert "14 runs of" in printed


def test_the_end_does_not_wait_for_runs_that_are_out():
    begun, release = itertools.count(), threading.Event()

    def flat(theta):  # known after the design and one run more
        number = next(begun)
        if number == 12:
            time.sleep(1.5)
        elif number > 12:
            release.wait(60)
        return 1.0

    with ThreadPoolExecutor(4) as threads:
        start = time.perf_counter()
        result = infer(flat, 60, executor=threads, batch_size=4)
        release.set()
    assert time.perf_counter() - start < 40
    assert result.converged
    assert result.n_evaluations < next(begun)


def test_the_ensemble_is_asked_for_as_a_whole():
    with ThreadPoolExecutor(4) as threads:
        result = infer(log_likelihood, 20, executor=threads, acquisition="ensemble")
    assert [e.origin for e in result.evaluations[12:]] == ["puq", "pvc", "plur", "peur"] * 2


def test_closures_reach_other_processes(processes):
    shift = 3.0
    result = infer(lambda theta: log_likelihood(theta) + shift, executor=processes)
    assert set(statuses(result)) == {Status.OK}
    assert result.evaluations[0].log_likelihood == log_likelihood(result.evaluations[0].theta) + shift


def test_what_cannot_be_sent_is_refused_with_a_hint(processes, monkeypatch):
    lock = threading.Lock()

    def locked(theta):
        with lock:
            return log_likelihood(theta)

    for options in ({"executor": processes}, {"timeout": 1.0}):
        with pytest.raises(tbq.TbqError, match=r"log_likelihood cannot be sent to another process .*lock"):
            infer(locked, **options)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(tbq.TbqError, match=r"with cloudpickle installed \(pip install 'tbq\[parallel\]'\)"):
        infer(lambda theta: 0.0, executor=processes)
    with ThreadPoolExecutor(1) as threads:  # nothing is sent
        assert set(statuses(infer(locked, executor=threads))) == {Status.OK}


def test_outputs_travel_too(processes, tmp_path):
    for i, options in enumerate(({}, {"executor": processes}, {"timeout": 30.0, "executor": processes})):
        infer(WithOutputs(), 12, journal=tmp_path / str(i), **options)
        for e in journal.read(tmp_path / str(i)).evaluations:
            assert e.log_likelihood == log_likelihood(e.theta)
            np.testing.assert_array_equal(e.outputs, [e.theta[0], e.theta[1] ** 2])


def test_the_outputs_of_a_vectorised_likelihood_are_told_apart():
    model = lambda theta: np.stack([theta[:, 0], theta[:, 1] ** 2], axis=1)
    result = infer(tbq.GaussianLikelihood(model, [0.3, 0.2], 0.3), 12, vectorized=True)
    for e in result.evaluations:
        np.testing.assert_array_equal(e.outputs, [e.theta[0], e.theta[1] ** 2])


class Odd:
    """Returns outputs that are none."""

    def __init__(self, outputs):
        self.outputs = outputs

    def __call__(self, theta):
        return 0.0

    def evaluate(self, theta):
        return 0.0, self.outputs


@pytest.mark.parametrize(
    ("outputs", "message"), [(np.zeros((2, 2)), r"outputs have shape \(2, 2\)"), ("ab", "outputs are str, not numbers")]
)
def test_odd_outputs_are_failures(outputs, message):
    result = infer(Odd(outputs), 12, outage_after=NEVER)
    assert set(statuses(result)) == {Status.FAILED}
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(result.evaluations[0].message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0.0}, "timeout must be a positive number of seconds, or None; got 0.0"),
        ({"retries": -1}, "retries must be a whole number of at least 0; got -1"),
        ({"executor": 3}, r"executor must be a concurrent\.futures\.Executor, or a function .*; got int"),
        ({"executor": lambda: 3}, r"executor must return a concurrent\.futures\.Executor; got int"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(tbq.TbqError, match=message):
        infer(log_likelihood, **options)


# --- time and failure ---------------------------------------------------------------------------------------


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"


@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor, ProcessPoolExecutor])
def test_a_hung_run_is_ended_with_all_that_it_started(tmp_path, executor):
    start = time.perf_counter()
    result = infer(Hanging(tmp_path), 12, timeout=2.0, executor=executor and partial(executor, 3), journal=tmp_path)
    assert time.perf_counter() - start < 60
    late = [e for e in result.evaluations if e.theta[0] > 1.0]
    assert len(late) == 3
    assert {e.status for e in late} == {Status.TIMEOUT}
    assert {e.message for e in late} == {"no answer within 2 s"}
    assert all(e.seconds > 1.9 for e in late)  # how long starting and ending a process takes is the machine's
    assert statuses(result).count(Status.OK) == 9
    assert "3 timeout" in result.summary()
    pids = [int(pid) for file in tmp_path.glob("[0-9]*") for pid in file.read_text().split()]
    assert len(pids) == 6
    assert not any(alive(pid) for pid in pids)
    assert [e.status for e in journal.read(tmp_path).evaluations].count(Status.TIMEOUT) == 3


def test_waiting_in_a_queue_does_not_count():
    with ThreadPoolExecutor(2) as threads:  # the last of twelve waits for longer than it may run
        result = infer(Slow(0.4), 12, executor=threads, batch_size=12, timeout=2.0)
    assert set(statuses(result)) == {Status.OK}
    assert all(e.seconds < 2.0 for e in result.evaluations)


@pytest.mark.parametrize(("retries", "status"), [(2, Status.OK), (1, Status.FAILED), (0, Status.FAILED)])
@pytest.mark.parametrize("threads", [0, 2])
def test_failures_are_tried_again(tmp_path, retries, status, threads):
    moody = Moody(tmp_path, 2, "not today")
    result = infer(moody, 12, retries=retries, executor=partial(ThreadPoolExecutor, threads) if threads else None)
    for e in result.evaluations:
        assert e.status is (status if e.theta[0] > 1.0 else Status.OK)
        assert moody.calls(e.theta) == (retries + 1 if e.theta[0] > 1.0 else 1)
    assert result.evaluations[0].id == 0


def test_a_worker_that_dies_takes_no_other_run_with_it(tmp_path):
    # of twelve points three kill their worker, once: the pool is made anew and all are run again
    result = infer(Moody(tmp_path, 1, "kill"), 12, executor=partial(ProcessPoolExecutor, 2), batch_size=4)
    assert set(statuses(result)) == {Status.OK}


def test_a_point_that_always_kills_is_lost_and_no_other(tmp_path):
    moody = Moody(tmp_path, 99, "kill")
    result = infer(moody, 13, executor=partial(ProcessPoolExecutor, 2), batch_size=4)
    assert result.n_evaluations == 13
    for e in result.evaluations:
        assert e.status is (Status.LOST if e.theta[0] > 1.0 else Status.OK)
    assert {e.message for e in result.evaluations if e.status is Status.LOST} == {
        "its process ended with exit status -9"
    }


def test_a_broken_executor_that_cannot_be_made_anew_ends_the_run_resumably(tmp_path):
    moody = Moody(tmp_path, 1, "kill")
    with ProcessPoolExecutor(1) as pool:
        result = infer(moody, executor=pool, journal=tmp_path / "journal")
    assert result.stop is tbq.Stop.EXECUTOR
    assert "give a function that makes one" in result.summary()
    assert result.n_evaluations < 12
    assert all(e.status is Status.OK for e in result.evaluations)
    resumed = infer(moody, executor=partial(ProcessPoolExecutor, 1), journal=tmp_path / "journal")
    assert set(statuses(resumed)) == {Status.OK}
    np.testing.assert_array_equal(thetas(resumed), thetas(infer(log_likelihood)))


def test_a_point_that_kills_the_whole_run_is_passed_over_with_a_timeout(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from pathlib import Path; from likelihoods import Moody; from driving import infer\n"
        f"infer(Moody(Path({str(tmp_path)!r}), 99, 'kill'), 13, journal={str(tmp_path / 'journal')!r})"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    resumed = infer(Moody(tmp_path, 99, "kill"), 13, journal=tmp_path / "journal", timeout=30.0)
    for e in resumed.evaluations:
        assert e.status is (Status.LOST if e.theta[0] > 1.0 else Status.OK)
    np.testing.assert_array_equal(thetas(resumed)[:12], thetas(infer(log_likelihood, 12)))


class Forgetful(Executor):
    """Cancels the first work that it is given."""

    def __init__(self):
        self.given = 0

    def submit(self, fn, /, *args, **kwargs):
        self.given += 1
        future = Future()
        if self.given == 1:
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_work_that_somebody_cancelled_is_done_again():
    assert set(statuses(infer(log_likelihood, executor=Forgetful()))) == {Status.OK}


def test_an_exit_is_a_failure():
    result = infer(lambda theta: sys.exit("licence expired"), 12, outage_after=NEVER)
    assert {e.message for e in result.evaluations} == {"SystemExit: licence expired"}


def test_what_a_process_of_its_own_cannot_return_is_said():
    answer = worker.call(
        worker.Portable(lambda theta: threading.Lock()), np.zeros(2), 20.0, True, worker.Ticket("run", 0)
    )
    assert answer.error == "the log-likelihood returned lock, not a number"


INTERRUPTED = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background it is ignored
from concurrent.futures import ThreadPoolExecutor
from functools import partial
sys.path.insert(0, {tests!r})
from driving import infer
from likelihoods import log_likelihood

def slow(theta):
    time.sleep(0.2)
    os.write(2, b"one\\n")
    return log_likelihood(theta)

executor = partial(ThreadPoolExecutor, 2) if {threads} else None
infer(slow, executor=executor, batch_size=2, timeout={timeout}, journal={folder!r})
"""


@pytest.mark.parametrize(("threads", "timeout"), [(False, None), (True, None), (True, 60.0)])
def test_control_c_ends_cleanly_and_leaves_a_journal_to_resume(tmp_path, threads, timeout):
    code = INTERRUPTED.format(
        tests=str(Path(__file__).parents[1]), threads=threads, timeout=timeout, folder=str(tmp_path)
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as process:
        for _ in range(3):
            assert process.stderr.readline().strip() == "one"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    done = journal.read(tmp_path).evaluations
    assert 2 <= len(done) < 12
    assert all(e.status is Status.OK for e in done)
    calls = []

    def counted(theta):
        calls.append(tuple(theta))
        return log_likelihood(theta)

    resumed = infer(counted, batch_size=2, journal=tmp_path)
    assert resumed.n_evaluations == 14
    assert len(calls) == 14 - len(done)
    assert not {tuple(e.theta) for e in done} & set(calls)
