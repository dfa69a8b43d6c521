"""While a slow run goes on, it says what it would state if it ended now; that changes nothing."""

import numpy as np
import pytest
from scipy import stats
from test_standing import log_likelihood

import tbq
from tbq.run import estimates, journal
from tbq.run.standing import of_journal

PRIOR = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.norm(0, 1)})
SMALL = {"seed": 0, "population": 256, "tolerance": 1e-4, "max_evaluations": 18}


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(estimates, "_FIRST", 0.0)
    monkeypatch.setattr(estimates, "_SHARE", 1.0)


def estimates_of(folder):
    return [r for r in journal.read(folder).records if r["kind"] == "estimate"]


def test_an_estimate_is_what_the_run_would_have_stated_and_changes_nothing(tmp_path, always, monkeypatch):
    watched = tbq.infer(log_likelihood, PRIOR, journal=tmp_path / "a", progress=False, **SMALL)
    seen = estimates_of(tmp_path / "a")
    assert [r["runs"] for r in seen] == [12, 13, 14, 15, 16, 17]
    ended = tbq.infer(log_likelihood, PRIOR, progress=False, **{**SMALL, "max_evaluations": 15})
    (there,) = (r for r in seen if r["runs"] == 15)
    assert there["log_evidence"] == ended.log_evidence
    assert there["log_evidence_sd"] == ended.log_evidence_sd
    now = of_journal(journal.read(tmp_path / "a"), live=False)
    assert now.final_evidence == (watched.log_evidence, watched.log_evidence_sd)  # as stated at the end
    monkeypatch.undo()
    quiet = tbq.infer(log_likelihood, PRIOR, progress=False, **SMALL)
    np.testing.assert_array_equal(quiet.samples, watched.samples)
    assert quiet.log_evidence == watched.log_evidence
    again = tbq.infer(log_likelihood, PRIOR, journal=tmp_path / "a", progress=False, **SMALL)
    assert again.log_evidence == watched.log_evidence


def test_those_who_look_on_see_it(tmp_path, always, capsys):
    tbq.infer(log_likelihood, PRIOR, journal=tmp_path, progress="plain", **SMALL)
    contents = journal.read(tmp_path)
    last = max(i for i, r in enumerate(contents.records) if r["kind"] == "estimate")
    early = of_journal(journal.Contents(contents.header, contents.records[: last + 1]), live=True)
    assert early.evidence().endswith(", after 17 runs")
    assert early.as_dict()["log_evidence_sd"] == contents.estimate[1]
    found = of_journal(contents, live=False)
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"18 of at most 18 runs (18 ok), log evidence {found.evidence()}. {tbq.Stop.BUDGET.value}"
    )


def test_a_quick_run_makes_none_and_a_slow_one_gives_it_a_share_of_its_time(tmp_path, monkeypatch):
    tbq.infer(log_likelihood, PRIOR, journal=tmp_path, progress=False, **SMALL)
    assert not estimates_of(tmp_path)
    with tbq.Session(PRIOR, **SMALL) as session:
        for p in session.ask(12):
            session.tell(p.id, log_likelihood=log_likelihood(p.theta))
        clock = iter([100.0, 161.0, 159.0, 161.0, 164.0])
        monkeypatch.setattr(estimates, "monotonic", lambda: next(clock))
        timer = estimates.Estimates()
        assert timer.due(session.state) is None  # nothing was learned
        session.ask(1)
        assert timer.due(session.state) is None  # too early
        assert timer.due(session.state) is not None
        assert timer.next == pytest.approx(164.0 + 57.0)  # of 60 s it took 3


def test_a_journal_with_an_estimate_that_no_run_made_is_refused(tmp_path):
    with tbq.Session(PRIOR, journal=tmp_path, **SMALL) as session:
        session.note_estimate((-1.0, 0.1, "many"))
    with pytest.raises(tbq.TbqError, match="no run has written"):
        journal.read(tmp_path)
