"""An outage is not a property of theta: the run waits, tries again, or stops where it can go on, and learns nothing."""

import errno
import logging
import socket
import sys
import threading
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from driving import infer, statuses, thetas
from likelihoods import log_likelihood

import tbq
from tbq import adapters
from tbq.problem.evaluation import Status
from tbq.run import journal, outage
from tbq.run.outage import Kind, Outage

NEVER = (np.inf, np.inf)


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """Nobody waits for a second."""
    monkeypatch.setattr(outage, "_FIRST", 0.001)
    monkeypatch.setattr(outage, "_LONGEST", 0.01)


@pytest.fixture(scope="module")
def plain():
    return infer(log_likelihood, 20)


def records(folder):
    return journal.read(folder).records


def kinds(folder):
    return [r["kind"] for r in records(folder)]


class Away:
    """Works, but for the calls whose numbers are in ``gone``; those raise."""

    def __init__(self, gone, error):
        self.gone, self.error, self.calls = gone, error, []

    def __call__(self, theta):
        self.calls.append(tuple(theta))
        if len(self.calls) - 1 in self.gone:
            raise self.error
        return log_likelihood(theta)


def test_waits_grow_to_a_limit(monkeypatch):
    monkeypatch.setattr(outage, "_FIRST", 1.0)
    monkeypatch.setattr(outage, "_LONGEST", 300.0)
    found, waits = Outage(Kind.SEEN, "x"), []
    for _ in range(12):
        waits.append(found.wait)
        found = found.after(found.wait)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert found.waited == sum(waits)


def test_what_an_outage_says_is_shown_and_not_obeyed():
    assert r": \x1b[2Jno licence (next try" in Outage(Kind.NAMED, "\x1b[2Jno licence").sentence(1.0)


# --- waiting and trying again -------------------------------------------------------------------------------

OUTAGES = [tbq.Transient("no licence"), ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")]


@pytest.mark.parametrize("error", OUTAGES, ids=["named", "seen"])
def test_a_run_that_an_outage_stops_is_made_again_and_says_nothing_of_theta(plain, tmp_path, caplog, error):
    away = Away({3, 4, 5, 15}, error)
    result = infer(away, 20, journal=tmp_path)
    np.testing.assert_array_equal(thetas(result), thetas(plain))
    assert result.log_evidence == plain.log_evidence
    assert set(statuses(result)) == {Status.OK}
    assert len(away.calls) == 24
    assert len(set(away.calls)) == 20
    assert away.calls[15] == away.calls[16]
    found = [r for r in records(tmp_path) if r["kind"] == "outage"]
    assert [r["ids"][0] for r in found] == [3, 3, 3, 12]
    assert str(error) in found[0]["message"]
    assert "next try in" in caplog.text
    assert "go on" in caplog.text
    again = infer(pytest.fail, 20, journal=tmp_path)
    assert again.log_evidence == plain.log_evidence


@pytest.mark.parametrize("threads", [0, 3])
def test_a_run_that_nobody_repairs_ends_with_its_journal_ready_to_go_on(plain, tmp_path, threads):
    executor = partial(ThreadPoolExecutor, threads) if threads else None
    away = Away(range(14, 10**9), tbq.Transient("no licence"))
    result = infer(away, 20, journal=tmp_path, executor=executor, batch_size=max(threads, 1), patience=0.05)
    assert result.stop is tbq.Stop.PAUSED
    assert result.n_evaluations == 14
    assert set(statuses(result)) == {Status.OK}
    assert result.outage == "Transient: no licence"
    contents = journal.read(tmp_path)
    assert contents.stop is None
    assert contents.outage["wait"] is None
    assert 1 <= len(contents.pending) <= max(threads, 1)
    resumed = infer(log_likelihood, 20, journal=tmp_path)
    assert resumed.n_evaluations == 20
    if not threads:
        np.testing.assert_array_equal(thetas(resumed), thetas(plain))


def test_what_is_still_out_comes_in_before_a_run_is_given_up(tmp_path):
    release, begun = threading.Event(), []

    def uneven(theta):
        begun.append(0)
        if len(begun) == 1:
            release.wait(20)
            return log_likelihood(theta)
        threading.Timer(0.3, release.set).start()
        raise tbq.Transient("no licence")

    with ThreadPoolExecutor(2) as threads:
        result = infer(uneven, 20, executor=threads, batch_size=2, n_initial=2, journal=tmp_path, patience=0.02)
    assert result.stop is tbq.Stop.PAUSED
    assert [e.id for e in result.evaluations] == [0]


def test_a_process_of_its_own_and_a_pool_tell_outages_too(tmp_path):
    for options in ({"timeout": 30.0}, {"executor": partial(ProcessPoolExecutor, 1)}):
        result = infer(_unlicensed, 12, patience=0.0, **options)
        assert result.stop is tbq.Stop.PAUSED
        assert result.n_evaluations == 0
        assert "no licence" in result.outage


def _unlicensed(theta):
    raise tbq.Transient("no licence")


def test_a_server_that_goes_away_and_comes_back(tmp_path, monkeypatch):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    model = adapters.UmBridgeModel(url, "m", retries=0)
    gone = {4, 5, 6}
    calls = []

    def through(theta):
        calls.append(0)
        if len(calls) - 1 in gone:
            model(theta)
        return log_likelihood(theta)

    result = infer(through, 14, journal=tmp_path)
    assert set(statuses(result)) == {Status.OK}
    assert len(calls) == 17
    assert "could not be reached" in next(r["message"] for r in records(tmp_path) if r["kind"] == "outage")


def test_a_theta_that_alone_is_refused_is_a_failure_after_all():
    # a server that crashes at some theta refuses connections until somebody starts it again
    def crashing(theta):
        if theta[0] > 1.0:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return log_likelihood(theta)

    result = infer(crashing, 14)
    assert result.n_evaluations == 14
    for e in result.evaluations:
        assert e.status is (Status.FAILED if e.theta[0] > 1.0 else Status.OK)
    assert {e.status for e in result.evaluations} == {Status.FAILED, Status.OK}
    named = infer(_named, 14, patience=0.2)  # but not where somebody said that it is not theta
    assert named.stop is tbq.Stop.PAUSED
    assert set(statuses(named)) == {Status.OK}


def _named(theta):
    if theta[0] > 1.0:
        raise tbq.Transient("no licence")
    return log_likelihood(theta)


class Cluster(Executor):
    """Takes no work after the first runs; a new one can be made after some tries."""

    made = 0

    def __init__(self, tries):
        type(self).made += 1
        if 1 < type(self).made <= 1 + tries:
            raise ConnectionError("no scheduler")
        self.given = 0

    def submit(self, fn, /, *args, **kwargs):
        self.given += 1
        if self.given > 5:
            raise RuntimeError("cannot schedule new futures")
        return ThreadPoolExecutor(1).submit(fn, *args, **kwargs)


@pytest.mark.parametrize(("tries", "patience", "stop"), [(3, 60.0, tbq.Stop.BUDGET), (10**9, 0.02, tbq.Stop.PAUSED)])
def test_an_executor_that_cannot_be_made_anew_for_a_while_is_an_outage(tmp_path, tries, patience, stop):
    Cluster.made = 0
    result = infer(log_likelihood, 14, executor=partial(Cluster, tries), journal=tmp_path, patience=patience)
    assert result.stop is stop
    assert set(statuses(result)) == {Status.OK}
    assert result.n_evaluations == (14 if stop is tbq.Stop.BUDGET else 5)
    assert any("the executor takes no work" in r["message"] for r in records(tmp_path) if r["kind"] == "outage")


# --- failures that are alike --------------------------------------------------------------------------------


def test_five_failures_alike_before_any_success_pause_the_run_at_once(plain, tmp_path, caplog):
    def wrong(theta):
        raise ValueError(f"no licence for {theta[0]}")

    result = infer(wrong, 20, journal=tmp_path)
    assert result.stop is tbq.Stop.PAUSED
    assert result.evaluations == ()
    assert "no licence" in result.outage
    assert "no licence" in result.summary()
    assert kinds(tmp_path) == ["begin", "ask", *["run"] * 5, "drop", "outage"]
    assert len(journal.read(tmp_path).pending) == 12
    resumed = infer(log_likelihood, 20, journal=tmp_path)
    np.testing.assert_array_equal(thetas(resumed), thetas(plain))
    assert resumed.log_evidence == plain.log_evidence
    assert infer(wrong, 20, outage_after=(7, 9)).stop is tbq.Stop.PAUSED
    assert infer(wrong, 20, outage_after=NEVER).n_evaluations == 20


def test_failures_that_were_still_out_when_an_outage_was_noticed_are_forgotten_too(tmp_path):
    lock, calls = threading.Lock(), []

    def away(theta):
        with lock:
            calls.append(0)
            number = len(calls)
        if number == 1:
            return log_likelihood(theta)
        time.sleep(0.02 if number < 6 else 0.3)  # six to eight return when three in a row have been noticed
        if number < 15:
            raise ValueError("no licence")
        return log_likelihood(theta)

    for folder, limits in (("first", (3, 3)), ("never", (3, 100))):
        calls[:] = [0] if folder == "never" else []
        options = {"batch_size": 8, "outage_after": limits, "journal": tmp_path / folder, "patience": 0.0}
        with ThreadPoolExecutor(8) as threads:
            result = infer(away, 20, executor=threads, **options)
        assert result.stop is tbq.Stop.PAUSED
        assert all(e.status is Status.OK for e in result.evaluations)
        assert all(e.status is Status.OK for e in journal.read(tmp_path / folder).evaluations)


def test_failures_that_differ_are_no_outage():
    names = iter("abcdefghijkl")

    def differs(theta):
        raise ValueError(next(names))

    result = infer(differs, 12)
    assert result.stop is tbq.Stop.NOTHING_LEARNED
    assert set(statuses(result)) == {Status.FAILED}


@pytest.mark.parametrize("batch", [1, 4])
def test_an_outage_that_looks_like_failures_costs_no_run(plain, tmp_path, batch):
    straight = plain if batch == 1 else infer(log_likelihood, 20, batch_size=batch)
    # the eighth failure in a row is noticed, and the first two tries come too early
    away = Away(range(3, 13), ValueError("no licence"))
    result = infer(away, 20, journal=tmp_path, batch_size=batch)
    np.testing.assert_array_equal(thetas(result), thetas(straight))
    assert result.log_evidence == straight.log_evidence
    assert set(statuses(result)) == {Status.OK}
    assert "drop" in kinds(tmp_path)
    again = infer(pytest.fail, 20, journal=tmp_path, batch_size=batch)
    assert again.log_evidence == straight.log_evidence
    np.testing.assert_array_equal(again.samples, straight.samples)
    assert len(journal.read(tmp_path).evaluations) == 20


@pytest.mark.parametrize("end", [23, 24])  # just before it is noticed, or later
def test_an_outage_during_which_the_engine_learned_is_forgotten_exactly(tmp_path, end):
    away = Away(range(15, end), ValueError("no licence"))  # past the design, each failure is learned from
    result = infer(away, 40, journal=tmp_path)
    assert set(statuses(result)) == {Status.OK}
    assert result.n_evaluations == 40
    learned = kinds(tmp_path)
    assert learned.index("drop") > 12 + learned.index("learn")
    again = infer(pytest.fail, 40, journal=tmp_path)
    assert again.log_evidence == result.log_evidence
    np.testing.assert_array_equal(again.samples, result.samples)


def test_an_outage_of_failures_that_lasts_ends_paused_and_goes_on(tmp_path):
    away = Away(range(15, 10**9), ValueError("no licence"))
    result = infer(away, 40, journal=tmp_path, patience=0.05)
    assert result.stop is tbq.Stop.PAUSED
    assert result.n_evaluations == 15
    assert set(statuses(result)) == {Status.OK}
    contents = journal.read(tmp_path)
    assert len(contents.pending) == 8
    assert len(contents.evaluations) == 15
    resumed = infer(log_likelihood, 40, journal=tmp_path)
    assert resumed.n_evaluations == 40
    assert set(statuses(resumed)) == {Status.OK}


def test_a_model_that_fails_in_most_of_the_prior_goes_on():
    calls = []

    def soft(theta):
        calls.append(tuple(theta))
        if theta[0] < 1.2:
            raise ValueError("too soft")
        return log_likelihood(theta)

    result = infer(soft, 40, outage_after=(40, 3))
    assert result.n_evaluations == 40
    assert {e.status for e in result.evaluations} == {Status.OK, Status.FAILED}
    for e in result.evaluations:
        assert e.status is (Status.FAILED if e.theta[0] < 1.2 else Status.OK)
    # one that succeeded before and one of them again: then it was clear, until there were twice as many
    assert 42 <= len(calls) <= 46


def test_cut_after_any_record_an_outage_is_gone_through_again_to_the_same_end(tmp_path):
    """A kill at any moment of it, too, loses no run and leaves no failure."""
    options = {"journal": tmp_path / "whole", "outage_after": (5, 3)}
    result = infer(Away(range(13, 18), ValueError("no licence")), 18, **options)
    lines = (tmp_path / "whole" / journal.FILE).read_bytes().splitlines(keepends=True)
    found = [i for i, line in enumerate(lines) if b'"drop"' in line or b'"outage"' in line or b'"failed"' in line]
    assert len(found) >= 6
    for kept in range(found[0], found[-1] + 3):
        folder = tmp_path / f"cut{kept}"
        folder.mkdir()
        (folder / journal.FILE).write_bytes(b"".join(lines[:kept]))
        before = {e.id for e in journal.read(folder).evaluations if e.status is Status.OK}
        failures = sum(e.status is Status.FAILED for e in journal.read(folder).evaluations)
        away = Away(range(1), ValueError("no licence"))  # the outage goes on for one more run
        resumed = infer(away, 18, journal=folder, outage_after=(5, 3))
        left = sum(e.status is Status.FAILED for e in resumed.evaluations)
        assert left == (failures + 1 if failures < 2 else 0)  # three alike are an outage, fewer are not
        assert before <= {e.id for e in resumed.evaluations if e.status is Status.OK}
        again = infer(pytest.fail, 18, journal=folder, outage_after=(5, 3))
        assert again.log_evidence == resumed.log_evidence
        if not left:
            assert resumed.n_evaluations == result.n_evaluations


def test_a_vectorised_call_that_fails_is_one_failure():
    result = infer(lambda theta: np.zeros((3, 3)), 24, vectorized=True, outage_after=(3, 3), n_initial=8)
    assert result.stop is tbq.Stop.PAUSED
    assert result.n_evaluations == 0
    whole = {"vectorized": True, "n_initial": 8, "batch_size": 8}
    assert infer(lambda theta: np.zeros((3, 3)), 24, **whole).n_evaluations == 24  # by three calls


def test_messages_are_logged_where_nobody_watches(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "tbq"):
        infer(Away({2}, tbq.Transient("no licence")), 12, progress=False)
    assert [r.levelname for r in caplog.records] == ["WARNING", "WARNING"]
    assert "no licence" in caplog.records[0].message
    assert sys.stderr is not None
