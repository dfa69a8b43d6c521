"""Ask and tell: the same run as ``infer``, resumed after anything, seeded with earlier runs."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kill_loop import MODES, OPTIONS, PRIOR, coarse, log_likelihood, of_levels, outputs
from scipy import stats

import tbq
from tbq import engine
from tbq.problem.evaluation import Proposal, Status, judge
from tbq.run import journal

SCRIPT = Path(__file__).parents[1] / "kill_loop.py"


def finish(session, n=1, f=log_likelihood):
    """Run a session to its end; returns the points that it asked for."""
    asked = []
    while not session.done:
        for p in session.ask(n):
            asked.append(p.id)
            session.tell(p.id, log_likelihood=f(p.theta))
    return asked


def thetas(run):
    return np.array([e.theta for e in sorted(run.evaluations, key=lambda e: e.id)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing interrupted: its result, and its journal."""
    folder = tmp_path_factory.mktemp("whole")
    return tbq.infer(log_likelihood, PRIOR, journal=folder, **OPTIONS), folder


@pytest.mark.parametrize("batch", [1, 3])
def test_a_session_is_the_same_run_as_infer(batch):
    result = tbq.infer(log_likelihood, PRIOR, batch_size=batch, **OPTIONS)
    session = tbq.Session(PRIOR, **OPTIONS)
    finish(session, batch)
    assert session.done
    assert session.ask(3) == []
    np.testing.assert_array_equal(thetas(session), thetas(result))
    np.testing.assert_array_equal(session.result().samples, result.samples)
    assert session.result().log_evidence == result.log_evidence


def test_a_journal_changes_nothing(whole):
    np.testing.assert_array_equal(thetas(tbq.infer(log_likelihood, PRIOR, **OPTIONS)), thetas(whole[0]))


def test_runs_may_be_told_in_any_order():
    results = []
    for order in (1, -1):
        session = tbq.Session(PRIOR, **OPTIONS)
        while not session.done:
            for p in session.ask(4)[::order]:
                session.tell(p.id, log_likelihood=log_likelihood(p.theta))
        results.append(session.result())
    np.testing.assert_array_equal(thetas(results[0]), thetas(results[1]))


def test_telling_twice_or_the_unknown_is_refused():
    session = tbq.Session(PRIOR, **OPTIONS)
    first, second = session.ask(2)
    session.tell(first.id, log_likelihood=-1.0)
    for again in (lambda: session.tell(first.id, log_likelihood=-1.0), lambda: session.fail(first.id, "no")):
        with pytest.raises(tbq.TbqError, match=rf"Session\.(tell|fail): {first.id} was told already"):
            again()
    with pytest.raises(tbq.TbqError, match=r"Session\.tell: 99 is not the id of a point that is out; these are \[1\]"):
        session.tell(99, log_likelihood=-1.0)
    assert session.pending == (second,)


def test_outcomes_are_told_with_their_message_and_outputs(tmp_path):
    session = tbq.Session(PRIOR, journal=tmp_path, **OPTIONS)
    a, b, c, d = session.ask(4)
    session.tell(a.id, log_likelihood=-1.0, outputs=[1.0, np.nan, -np.inf], seconds=2.5)
    session.tell(b.id, log_likelihood=-np.inf)
    session.tell(c.id, log_likelihood=np.nan)
    session.fail(d.id, "mesh tangled")
    session.close()
    for told in (session.evaluations, journal.read(tmp_path).evaluations):
        assert [e.status for e in told] == [Status.OK, Status.INFEASIBLE, Status.FAILED, Status.FAILED]
        assert told[0].seconds == 2.5
        np.testing.assert_array_equal(told[0].outputs, [1.0, np.nan, -np.inf])
        assert told[3].message == "mesh tangled"


def test_a_result_on_the_way_changes_nothing(whole):
    session = tbq.Session(PRIOR, **OPTIONS)
    while not session.done:
        (p,) = session.ask(1)
        session.tell(p.id, log_likelihood=log_likelihood(p.theta))
        if p.id in (4, 15):
            assert session.result().n_evaluations == p.id + 1
            assert session.result().stop is tbq.Stop.UNFINISHED
    np.testing.assert_array_equal(thetas(session), thetas(whole[0]))


def tell_once(**told):
    session = tbq.Session(PRIOR, seed=0)
    session.tell(session.ask()[0].id, log_likelihood=0.0, **told)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tbq.Session(3), r"prior must be a tbq\.Prior; got int"),
        (lambda: tbq.Session(PRIOR, seed=-1), "seed must be a whole number of at least 0"),
        (lambda: tbq.Session(PRIOR, journal=3), "journal must be a folder; got int"),
        (lambda: tbq.Session(PRIOR, colour=1), "'colour' is not an option; there are algorithm"),
        (lambda: tbq.Session(PRIOR, tolerance=4), "tolerance must be"),
        (lambda: tbq.Session(PRIOR, max_evaluations=[4]), "max_evaluations must be a whole number"),
        (lambda: tbq.Session(PRIOR).ask("x"), "n must be a whole number of at least 1; got 'x'"),
        (lambda: tbq.Session(PRIOR).ask(0), "n must be a whole number of at least 1; got 0"),
        (lambda: tell_once(seconds=None), "seconds must be a finite number that is not negative; got None"),
        (lambda: tell_once(seconds=-1.0), "seconds must be a finite number that is not negative; got -1.0"),
        (lambda: tbq.Session(PRIOR, warm_start=3), "warm_start must be .*; got int"),
        (lambda: tbq.Session(PRIOR, warm_start=[3]), "warm_start must be .*; got int"),
        (lambda: tbq.Session(PRIOR, warm_start="no/such"), "there is none in 'no/such'"),
    ],
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(tbq.TbqError, match=message):
        make()


LIKELIHOOD = tbq.GaussianLikelihood(lambda theta: np.array([theta[0] + theta[1], theta[0]]), [1.0, 0.2], 0.1)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"log_likelihood": -1.0}, "outputs must be the 2 .* where log_likelihood is a number; got none"),
        ({"log_likelihood": -1.0, "outputs": [1.0, 2.0, 3.0]}, "outputs must be the 2 that .*; got 3"),
        ({"log_likelihood": np.nan, "outputs": [1.0]}, "outputs must be the 2 that .*; got 1"),
        ({"log_likelihood": -1.0, "outputs": [1.0, np.nan]}, r"all finite where .*; got \[ ?1\. +nan\]"),
        ({"log_likelihood": -1.0, "outputs": ["x", 1.0]}, r"outputs must be numbers; got \['x', 1.0\]"),
    ],
)
def test_outputs_that_cannot_be_learned_are_refused_before_they_are_recorded(tmp_path, told, message):
    with tbq.Session(PRIOR, seed=0, likelihood=LIKELIHOOD, journal=tmp_path) as session:
        (p,) = session.ask()
        with pytest.raises(tbq.TbqError, match=message):
            session.tell(p.id, **told)
        assert [q.id for q in session.pending] == [p.id]
        session.tell(p.id, log_likelihood=LIKELIHOOD(p.theta), outputs=LIKELIHOOD.evaluate(p.theta)[1])
    assert [e.status for e in journal.read(tmp_path).evaluations] == [Status.OK]


def test_runs_without_a_likelihood_may_have_any_outputs_or_none():
    session = tbq.Session(PRIOR, seed=0, likelihood=LIKELIHOOD, population=256, max_evaluations=16)
    odd = {
        1: {"log_likelihood": -np.inf},
        2: {"log_likelihood": np.nan},
        4: {"log_likelihood": -np.inf, "outputs": [np.inf, 1.0]},
        5: {"log_likelihood": np.nan, "outputs": [1.0, np.nan]},
    }
    while not session.done:
        for p in session.ask(4):
            value, outputs = LIKELIHOOD.evaluate(p.theta)
            session.tell(p.id, **odd.get(p.id % 8, {"log_likelihood": value, "outputs": outputs}))
    result = session.result()
    statuses = {i: result.evaluations[i].status for i in odd}
    assert statuses == {1: Status.INFEASIBLE, 2: Status.FAILED, 4: Status.INFEASIBLE, 5: Status.FAILED}
    assert "2 outputs" in result.surrogate.description
    assert np.isfinite(result.log_evidence)
    assert result.summary()


def test_outputs_are_not_asked_for_where_the_log_likelihood_is_learned():
    session = tbq.Session(PRIOR, seed=0, likelihood=LIKELIHOOD, surrogate="log_likelihood")
    (p,) = session.ask()
    assert session.tell(p.id, log_likelihood=-1.0).outputs is None


def test_a_whole_number_of_points_may_be_a_float(tmp_path):
    with tbq.Session(PRIOR, seed=0, journal=tmp_path) as session:
        assert [p.id for p in session.ask(2.0)] == [0, 1]
    with tbq.Session(PRIOR, journal=tmp_path) as session:
        assert [p.id for p in session.ask(1.0)] == [0]  # given out again


# --- resuming -----------------------------------------------------------------------------------------------


def counted(calls):
    def f(theta):
        calls.append(tuple(theta))
        return log_likelihood(theta)

    return f


def test_a_finished_run_is_read_not_repeated(whole):
    calls = []
    again = tbq.infer(counted(calls), PRIOR, journal=whole[1], **OPTIONS)
    assert calls == []
    assert again.stop is whole[0].stop
    assert again.log_evidence == whole[0].log_evidence
    np.testing.assert_array_equal(again.samples, whole[0].samples)


@pytest.mark.parametrize("batch", [1, 4])
def test_cut_after_any_record_a_run_goes_on_as_if_nothing_had_happened(tmp_path, batch):
    options = {**OPTIONS, "max_evaluations": 16, "batch_size": batch}
    result = tbq.infer(log_likelihood, PRIOR, journal=tmp_path / "whole", **options)
    lines = (tmp_path / "whole" / journal.FILE).read_bytes().splitlines(keepends=True)
    assert len(lines) > 20
    for kept in range(len(lines)):
        folder = tmp_path / f"cut{kept}"
        folder.mkdir()
        (folder / journal.FILE).write_bytes(b"".join(lines[:kept]))
        done = {tuple(e.theta) for e in journal.read(folder).evaluations} if kept else set()
        calls = []
        resumed = tbq.infer(counted(calls), PRIOR, journal=folder, **options)
        assert not done & set(calls)
        assert len(done) + len(calls) == result.n_evaluations
        np.testing.assert_array_equal(thetas(resumed), thetas(result))
        assert resumed.log_evidence == result.log_evidence
        # records need not be in the same order, but there is not one more or less; who came to make runs aside
        assert _lines(folder) == len([line for line in lines if b'"begin"' not in line])


def test_cut_at_any_byte_of_the_last_record_a_session_goes_on(whole, tmp_path):
    with tbq.Session(PRIOR, journal=tmp_path / "first", **OPTIONS) as session:
        points = session.ask(6)
        for p in points[:4]:
            session.tell(p.id, log_likelihood=log_likelihood(p.theta))
    data = (tmp_path / "first" / journal.FILE).read_bytes()
    last = data.splitlines(keepends=True)[-1]
    cuts = range(len(data) - len(last), len(data) + 1)
    for cut in cuts:
        folder = tmp_path / f"cut{cut}"
        folder.mkdir()
        (folder / journal.FILE).write_bytes(data[:cut])
        with tbq.Session(PRIOR, journal=folder, **OPTIONS) as session:
            whole_record = cut >= len(data) - 1  # only the end of the line may be missing
            assert [p.id for p in session.pending] == ([4, 5] if whole_record else [3, 4, 5])
            assert [e.log_likelihood for e in session.evaluations] == [
                log_likelihood(p.theta) for p in points[: 4 if whole_record else 3]
            ]
            if cut % 20 == 0:
                finish(session)
                np.testing.assert_array_equal(thetas(session), thetas(whole[0]))


def test_a_session_gives_out_again_what_was_out(tmp_path):
    straight = tbq.Session(PRIOR, **OPTIONS)
    finish(straight, 4)
    with tbq.Session(PRIOR, journal=tmp_path, **OPTIONS) as session:
        points = session.ask(4)
        session.tell(points[1].id, log_likelihood=log_likelihood(points[1].theta))
    with tbq.Session(PRIOR, journal=tmp_path, **OPTIONS) as session:
        assert [p.id for p in session.pending] == [0, 2, 3]
        session.tell(2, log_likelihood=log_likelihood(points[2].theta))  # it was still running
        assert [p.id for p in session.ask(1)] == [0]
        assert [p.id for p in session.ask(4)] == [3]
        for i in (0, 3):
            session.tell(i, log_likelihood=log_likelihood(points[i].theta))
        finish(session, 4)
        np.testing.assert_array_equal(thetas(session), thetas(straight))


def test_the_seed_of_a_journal_is_kept(tmp_path):
    options = {**OPTIONS, "seed": None}
    with tbq.Session(PRIOR, journal=tmp_path, **options) as session:
        first = session.ask(1)[0].theta
    with tbq.Session(PRIOR, journal=tmp_path, **options) as session:
        np.testing.assert_array_equal(session.ask(1)[0].theta, first)
    with pytest.raises(
        tbq.TbqError, match=r"journal.jsonl cannot be gone on with: it is of another run: seed was \d+, is 1"
    ):
        tbq.Session(PRIOR, journal=tmp_path, **{**options, "seed": 1})
    tbq.Session(PRIOR, journal=tmp_path, **options).close()  # the refusal gave the lock back


@pytest.mark.parametrize(
    ("data", "noise", "message"),
    [
        ([0.5, 1.1], 0.2, "was made with other data or another noise: the outputs of run 0 had the log-likelihood"),
        ([0.5, 1.0], 0.21, "was made with other data or another noise: the outputs of run 0 had the log-likelihood"),
        ([0.5, 1.0], stats.halfnorm(scale=0.2), "the noise had no parameters"),
        ([0.5, 1.0, 1.0], 0.2, "was made with other data or another noise: its runs have 2 outputs, these data 3"),
    ],
)
def test_a_journal_is_gone_on_with_for_the_data_that_it_is_of(tmp_path, data, noise, message):
    first = tbq.GaussianLikelihood(lambda theta: theta, [0.5, 1.0], 0.2)
    with tbq.Session(PRIOR, likelihood=first, journal=tmp_path, **OPTIONS) as session:
        for p in session.ask(2):
            session.tell(p.id, log_likelihood=first(p.theta), outputs=p.theta)
    tbq.Session(PRIOR, likelihood=first, journal=tmp_path, **OPTIONS).close()
    other = tbq.GaussianLikelihood(lambda theta: theta, data, noise)
    with pytest.raises(tbq.TbqError, match=message):
        tbq.Session(PRIOR, likelihood=other, journal=tmp_path, **OPTIONS)


def _lines(folder):
    return len([line for line in (folder / journal.FILE).read_bytes().splitlines() if b'"begin"' not in line])


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "spawned"])  # which is slow to start
def test_killed_at_random_moments_nothing_is_lost_run_twice_or_left_running(tmp_path, mode, whole):
    command = [sys.executable, str(SCRIPT), str(tmp_path), "5", "1", mode]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=120).stdout
    report = json.loads(output)
    assert report["killed"] >= 1  # a fast run may end before the others
    assert [report[name] for name in ("lost", "again", "beside", "orphans")] == [0, 0, 0, 0]
    if mode == "levels":
        np.testing.assert_array_equal(report["theta"], thetas(tbq.infer(of_levels(outputs, coarse), PRIOR, **OPTIONS)))
    else:
        assert len(report["theta"]) == OPTIONS["max_evaluations"]
    if mode == "here":
        np.testing.assert_array_equal(report["theta"], thetas(whole[0]))


# --- warm starts --------------------------------------------------------------------------------------------


def evidence(f, prior):
    return np.mean([np.exp(f(theta)) for theta in prior.sample(2**12, 0, "sobol")])


NARROW = tbq.Prior({"a": stats.uniform(-1, 2), "b": stats.norm(0.2, 0.8)})


def test_earlier_runs_stand_in_for_the_design(whole):
    result, folder = whole
    inside = sum(bool(NARROW.contains(e.theta)) for e in result.evaluations)
    assert 12 <= inside < 24
    options = {**OPTIONS, "population": 1024, "max_evaluations": 3}
    runs = []
    for source in (folder, str(folder), result, list(result.evaluations)):
        calls = []
        with pytest.warns(UserWarning, match=f"{24 - inside} of 24 evaluations lie outside the prior and are left out"):
            runs.append(tbq.infer(counted(calls), NARROW, warm_start=source, **options))
        assert len(calls) == 3  # the budget is of new runs
        assert [e.origin for e in runs[-1].evaluations] == ["earlier"] * inside + ["peur"] * 3
        np.testing.assert_array_equal(thetas(runs[-1]), thetas(runs[0]))
    assert runs[0].evidence == pytest.approx(evidence(log_likelihood, NARROW), rel=0.1)


def test_a_warm_start_is_part_of_the_journal(whole, tmp_path):
    options = {**OPTIONS, "max_evaluations": 5}
    result = tbq.infer(log_likelihood, PRIOR, warm_start=whole[1], journal=tmp_path, **options)
    calls = []
    again = tbq.infer(counted(calls), PRIOR, journal=tmp_path, **options)
    assert calls == []
    np.testing.assert_array_equal(thetas(again), thetas(result))
    assert len(journal.read(tmp_path).evaluations) == result.n_evaluations > 24


def test_stored_outputs_serve_other_data(tmp_path):
    model = lambda theta: np.array([theta[0] + theta[1], theta[0] * theta[1], theta[0]])
    before = tbq.GaussianLikelihood(model, [0.5, 0.1, 0.3], 0.5)
    after = tbq.GaussianLikelihood(model, [0.9, 0.2, 0.6], 0.4)
    options = {**OPTIONS, "population": 1024}
    first = tbq.infer(before, PRIOR, journal=tmp_path, **options)
    assert all(e.outputs.shape == (3,) for e in journal.read(tmp_path).evaluations)
    calls = []

    def counting(theta):
        calls.append(theta)
        return model(theta)

    counted_after = tbq.GaussianLikelihood(counting, [0.9, 0.2, 0.6], 0.4)
    warm = tbq.infer(counted_after, PRIOR, warm_start=tmp_path, **{**options, "max_evaluations": 10})
    for e in warm.evaluations:
        assert e.log_likelihood == pytest.approx(after(e.theta), rel=1e-12)
    assert len(calls) == warm.n_evaluations - first.n_evaluations
    assert warm.evidence == pytest.approx(evidence(after, PRIOR), rel=0.05)
    stripped = [replace(e, outputs=None) if e.id < 2 else e for e in first.evaluations]
    with pytest.warns(
        UserWarning, match=f"2 of {first.n_evaluations} evaluations have no outputs that the likelihood could judge"
    ):
        tbq.infer(after, PRIOR, warm_start=stripped, **{**OPTIONS, "max_evaluations": 1})


def test_a_warm_start_of_other_parameters_is_refused(whole):
    other = tbq.Prior({"a": stats.norm(), "c": stats.norm()})
    with pytest.raises(tbq.TbqError, match="warm_start: its parameters are a, b; the prior's a, c"):
        tbq.Session(other, warm_start=whole[0])
    with pytest.raises(tbq.TbqError, match=r"theta must have shape \(1,\); got \(2,\)"):
        tbq.Session(tbq.Prior({"a": stats.norm()}), warm_start=whole[0].evaluations)


def test_ten_thousand_runs_are_replayed_without_searching_all_that_are_out_for_each(monkeypatch):
    n = 10_000
    theta = PRIOR.sample(n, seed=0)
    proposals = [Proposal(i, row, 0, "initial", np.nan) for i, row in enumerate(theta)]
    runs = [journal.run_record(judge(p, -0.5, 0.0)) for p in reversed(proposals)]
    session = tbq.Session(PRIOR, seed=0, n_initial=n + 1, max_evaluations=2 * n)
    monkeypatch.setattr(session, "_pending", lambda *_: pytest.fail("searched"))
    remember, sizes = engine.remember, []
    monkeypatch.setattr(engine, "remember", lambda state, new: sizes.append(len(new)) or remember(state, new))
    session.replay([*(journal.ask_record([p]) for p in proposals), *runs[1:]])
    assert sizes == [n]
    assert [e.id for e in session.evaluations] == list(reversed(range(n - 1)))
    assert [p.id for p in session.pending] == [n - 1]


def test_a_function_is_no_likelihood_of_a_session():
    with pytest.raises(ValueError, match=r"likelihood must be a tbq.GaussianLikelihood, whose outputs you tell"):
        tbq.Session(PRIOR, likelihood=log_likelihood)
