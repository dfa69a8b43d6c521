"""Failures that are forgotten on request: by infer, by a session, by a warm start."""

import pytest
from driving import PRIOR, QUICK, infer, statuses
from likelihoods import log_likelihood

import tbq
from tbq.engine import forget
from tbq.problem.evaluation import Status
from tbq.run import journal


def broken(theta):
    if theta[0] > 1.0:
        raise ValueError("no licence")
    return log_likelihood(theta)


def test_failures_are_made_again_on_request(tmp_path):
    before = infer(broken, 20, journal=tmp_path)
    bad = [e.id for e in before.evaluations if e.status is Status.FAILED]
    assert 2 <= len(bad) < 12
    calls = []

    def counted(theta):
        calls.append(tuple(theta))
        return log_likelihood(theta)

    assert infer(pytest.fail, 20, journal=tmp_path).n_evaluations == 20
    after = infer(counted, 20, journal=tmp_path, retry_failed=True)
    assert set(statuses(after)) == {Status.OK}
    assert after.n_evaluations == 20
    assert calls == [tuple(before.evaluations[i].theta) for i in bad]
    assert journal.read(tmp_path).stop is after.stop
    again = infer(pytest.fail, 20, journal=tmp_path, retry_failed=True)  # there are none any more
    assert again.log_evidence == after.log_evidence


def test_a_warm_start_leaves_failures_out_on_request(tmp_path):
    before = infer(broken, 20, journal=tmp_path)
    bad = sum(e.status is Status.FAILED for e in before.evaluations)
    for source in (tmp_path, before):
        kept = infer(log_likelihood, 2, warm_start=source)
        dropped = infer(log_likelihood, 2, warm_start=source, retry_failed=True)
        assert kept.n_evaluations == 22
        assert dropped.n_evaluations == 22 - bad
        assert set(statuses(dropped)) == {Status.OK}


def test_a_session_forgets_what_it_is_told_to(tmp_path):
    with tbq.Session(PRIOR, journal=tmp_path, max_evaluations=20, **QUICK) as session:
        for p in session.ask(12):
            session.fail(p.id, "no licence") if p.id in (2, 5) else session.tell(
                p.id, log_likelihood=log_likelihood(p.theta)
            )
        (later,) = session.ask(1)  # it has learned
        session.forget([5])
        assert [p.id for p in session.pending] == [5, later.id]
        assert [p.id for p in session.ask(3)] == [5]
        with pytest.raises(tbq.TbqError, match=r"Session.forget: 3 is not the id of a failure; these are \[2\]"):
            session.forget([2, 3])
    with tbq.Session(PRIOR, journal=tmp_path, retry_failed=True, max_evaluations=20, **QUICK) as again:
        assert [p.id for p in again.pending] == [2, 5, later.id]
        assert len(again.evaluations) == 10
    assert len(journal.read(tmp_path).evaluations) == 10


def test_what_is_forgotten_leaves_no_trace_in_the_regions():
    with tbq.Session(PRIOR, max_evaluations=40, **QUICK) as session:
        for p in session.ask(12):
            session.fail(p.id, "x") if p.id < 3 else session.tell(p.id, log_likelihood=log_likelihood(p.theta))
        session.ask(1)
        assert session.state.reach is not None
        state = forget(session.state, {0, 1, 2})
        assert state.reach is None
        assert [p.id for p in state.pending] == [0, 1, 2, 12]
        assert [e.id for e in state.evaluations] == list(range(3, 12))
        nothing = forget(state, set(range(12)))
        assert nothing.evaluations == ()
