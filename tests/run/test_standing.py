"""How a run stands is the truth, from the first run on, and the same from within and from its journal."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.common.words import brief
from tbq.engine.records import Record, Stop
from tbq.problem.evaluation import Evaluation, Proposal, Status
from tbq.problem.settings import resolve
from tbq.run import journal
from tbq.run.driver import drive
from tbq.run.sender import Plan
from tbq.run.standing import Clock, of_journal, of_parts

PRIOR = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.norm(0, 1)})
SETTINGS = resolve(2, max_evaluations=40)
CLOCK = Clock(1000.0, since=1000.0, places=2, batch=2)


def log_likelihood(theta):
    return -0.5 * float(np.sum(((theta - [0.3, -0.2]) / [0.3, 0.4]) ** 2))


def run(i, status=Status.OK, origin="initial", seconds=10.0, message=""):
    value = -1.0 if status is Status.OK else math.nan
    return Evaluation(i, np.zeros(2), 0, origin, math.nan, status, value, message, seconds)


def out(i, origin="initial"):
    return Proposal(i, np.zeros(2), 0, origin, math.nan)


def belief(gamma=1.0, cov=0.1, stage=3):
    return Record(20, stage, gamma, -4.0, cov, 0.5, "se", 0.2)


def standing(done=0, pending=0, known=None, counts=None, settings=SETTINGS, **others):
    runs = [run(i) for i in range(done)]
    now = of_parts(
        settings, runs, [out(done + i) for i in range(pending)], known, **{"own": 0.0, "clock": CLOCK, **others}
    )
    return now if counts is None else replace(now, counts=counts)


def test_runs_are_told_one_by_one_and_the_journal_says_the_same(tmp_path):
    seen = []

    def look(now):
        then = of_journal(journal.read(tmp_path), live=True)
        for name in ("counts", "out", "running", "queued", "stop", "budget", "initial"):
            assert getattr(then, name) == getattr(now, name), name
        if now.belief is not None and then.belief is not None:  # a journal has it with the next points
            assert then.belief.n_evaluations <= now.belief.n_evaluations
        seen.append((now.done, now.running, now.queued))

    with tbq.Session(PRIOR, journal=tmp_path, seed=0, population=256, tolerance=1e-6, max_evaluations=16) as session:
        drive(session, log_likelihood, Plan(), look)
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert {done for done, _, _ in seen} == set(range(17))
    assert (0, 1, 11) in seen  # the first run of the design runs, the others wait
    assert seen[-1] == (16, 0, 0)
    assert of_journal(journal.read(tmp_path), live=False).stop is session.state.stop


def test_as_many_run_as_there_are_workers():
    seen = []
    enough = threading.Event()

    def slow(theta):
        enough.wait(10)
        return log_likelihood(theta)

    def look(now):
        seen.append((now.running, now.queued))
        if now.out == 12:
            enough.set()

    with tbq.Session(PRIOR, seed=0, population=256, max_evaluations=14) as session:
        drive(session, slow, Plan(batch_size=3, executor=lambda: ThreadPoolExecutor(3)), look)
    assert (3, 9) in seen
    assert max(running for running, _ in seen) == 3


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (standing(), "12 runs of the initial design; then the likelihood is learned"),
        (standing(5), "7 of the 12 runs of the initial design; then the likelihood is learned"),
        (standing(12), "what these runs say: it is being learned"),
        (
            standing(12, counts={Status.FAILED: 11, Status.OK: 1}),
            f"runs that succeed: 1 did, {SETTINGS.tuning.fewest_runs} are needed",
        ),
        (
            standing(20, known=belief(0.1, 0.5)),
            "the way to γ = 1, which runs near γ = 0.1 show",
        ),
        (
            standing(20, known=belief(0.1, 0.5), settings=resolve(2, tolerance=(0.1, 0.04))),
            "the surrogate's error of the evidence of this stage is ±50 %, to be ±10 % in 2 updates in a row; then γ "
            "rises",
        ),
        (
            standing(20, known=belief(1.0, 0.12)),
            "the surrogate's error of the evidence is ±12 %, to be ±4 % in 2 updates in a row",
        ),
        (standing(20, known=belief(1.0, 0.03)), "another update within the tolerance of 0.04 (2 updates in a row)"),
        (standing(20, known=belief(), stop=Stop.CONVERGED), ""),
    ],
)
def test_what_is_missing_is_said(now, words):
    assert now.missing() == words


def test_check_runs_are_counted():
    runs = [run(i, origin="peur") for i in range(20)]
    settings = replace(SETTINGS, check_runs=4)
    for back in range(4):
        done = [*runs, *(run(20 + i, origin="check") for i in range(back))]
        now = of_parts(settings, done, [out(20 + back, "check")], belief(), own=0.0, clock=CLOCK)
        assert now.check == (back, 4)
        assert now.missing() == f"{4 - back} of 4 check runs, which test the surrogate"
    whole = [*runs, *(run(20 + i, origin="check") for i in range(4))]
    assert of_parts(settings, whole, [], belief(), own=0.0, clock=CLOCK).check is None


def test_times_are_forecast_from_what_was_measured():
    now = standing(4, pending=8)
    assert now.remaining() == (40.0, 40.0 + 28 * 5.0)  # eight runs of 10 s on two workers; then 28 more
    later = standing(22, known=belief(), own=20.0)
    assert later.remaining() == (0.0, 18 * (5.0 + 2.0))  # ten points were chosen, 2 s each
    assert later.times(1150.0) == "10 s a run; 2.5 min so far; at most 2.1 min more"
    assert math.isnan(standing().remaining()[1])
    assert standing(pending=12).times(1090.0) == "90 s so far"  # before the first run is back
    first = standing(12, known=belief(), own=3.0)
    assert first.remaining() == (0.0, 28 * (5.0 + 3.0))  # no point was chosen yet: as long as learning took
    assert standing(20, known=belief(), stop=Stop.CONVERGED).as_dict(1010.0)["seconds_at_most"] is None


def test_time_is_that_of_all_processes_that_worked_on_it():
    begin = lambda at: {"kind": "begin", "places": 2, "batch": 2, "time": at}
    back = lambda at: {"kind": "run", "time": at}
    contents = journal.Contents(
        {"time": 100.0}, (begin(100.0), back(150.0), begin(1000.0), back(1030.0), begin(5000.0))
    )
    clock = Clock.of(contents)
    assert clock.elapsed(5010.0) == 50.0 + 30.0 + 10.0
    assert clock.paused().elapsed(9999.0) == 80.0


def test_the_error_is_that_of_the_final_evidence():
    assert standing(20, known=belief(0.2, 0.01)).final_evidence is None
    assert standing(20, known=belief(0.2, 0.01)).evidence() == "not known before γ = 1 (-4.00 at γ = 0.2)"
    unknown = standing(20, known=belief(1.0, 0.1))  # the surrogate's own error is not the whole
    assert unknown.final_evidence is None
    assert unknown.evidence() == "about -4.0; its error is not yet estimated"
    estimated = replace(unknown, estimate=(-4.0312, 0.0127, 18))
    assert estimated.final_evidence == (-4.0312, 0.0127)
    assert estimated.evidence() == "-4.031 ± 0.013, after 18 runs"
    assert replace(estimated, found=(-4.02, 1.25), stop=Stop.BUDGET).evidence() == "-4.0 ± 1.2"


def test_in_an_outage_nothing_runs_and_the_next_try_is_told():
    now = standing(3, 4, outage="ProgramError: exit code 3\nIts stderr ends with:\n  no licence\n", next_try=1100.0)
    assert now.outcomes() == "3 ok; 4 waiting"
    assert now.outage_words(1070.0) == "ProgramError: exit code 3: no licence; tries again in 30 s"
    assert now.outage_words(1101.0).endswith("; tries again now")
    assert replace(now, live=False).outage_words(1070.0) == "ProgramError: exit code 3: no licence"
    assert replace(now, live=False).outcomes() == "3 ok; 4 not back"


def test_what_is_done_between_runs_is_told():
    assert standing(12).outcomes() == "12 ok; choosing the next"
    assert standing(12, clock=Clock(1000.0)).outcomes() == "12 ok"  # a session in the hands of somebody
    assert standing(12, stop=Stop.BUDGET).outcomes() == "12 ok"


def test_the_bar_is_of_the_design_then_of_the_budget_and_full_at_the_end():
    assert standing(3).bar() == (3, 12)
    assert standing(20, known=belief()).bar() == (20, 40)
    assert standing(20, known=belief(), stop=Stop.CONVERGED).bar() == (1, 1)


def test_a_warm_start_counts_neither_as_runs_nor_as_budget():
    earlier = [run(i, origin="earlier") for i in range(5)]
    now = of_parts(SETTINGS.with_budget(5), [*earlier, run(5)], [], None, own=0.0, clock=CLOCK)
    assert (now.done, now.earlier, now.budget, now.initial) == (1, 5, 40, 7)
    assert "1 of at most 40, after 5 earlier ones: 1 ok" in dict(now.rows(1000.0))["runs"]


def test_for_programs_it_is_json():
    import json

    text = json.dumps(standing(2, 3).as_dict(1010.0), allow_nan=False)
    found = json.loads(text)
    assert found["runs"]["done"] == 2
    assert found["runs"]["running"] == 2
    assert found["runs"]["queued"] == 1
    assert found["log_evidence"] is None
    assert found["seconds_elapsed"] == 10.0


def test_what_a_failure_said_is_its_first_line_and_the_last_that_was_printed():
    message = (
        "ProgramError: exit code 1 (sim)\nIts stderr ends with:\n  reading\n  no licence\nIts directory is kept: /w"
    )
    assert brief(message) == "ProgramError: exit code 1 (sim): no licence"
    assert brief("") == "no message"
