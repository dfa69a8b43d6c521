"""Resuming runs that learn outputs: what was learned before they last learned anew is not learned again."""

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.run import journal, waypoints
from tbq.surrogate import reduction

PRIOR = tbq.Prior({n: stats.norm() for n in "abc"})
TIMES = np.linspace(0.0, 1.0, 12)
OPTIONS = {"seed": 3, "progress": False, "tolerance": 1e-3, "population": 256, "chain_length": 4, "max_evaluations": 30}


def curve(theta):
    if theta[0] > 1.2:
        raise ValueError("no mesh")
    return np.exp(0.3 * theta[0]) * np.sin(3.0 * TIMES + 0.5 * theta[1]) + 0.2 * theta[2] * TIMES**2


def likelihood(calls, stop=None):
    """The likelihood of a curve; interrupted at one of its runs."""

    def model(theta):
        calls.append(theta)
        if len(calls) == stop:
            raise KeyboardInterrupt
        return curve(theta)

    return tbq.GaussianLikelihood(model, curve(np.array([0.3, 0.2, -0.4])), 0.01)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_resumed_run_is_the_same_and_learns_only_what_came_after(tmp_path, monkeypatch, batch_size):
    fits, fit = [], reduction.fit
    monkeypatch.setattr(reduction, "fit", lambda z, *rest: (fits.append(len(z)), fit(z, *rest))[1])
    whole = tbq.infer(likelihood([]), PRIOR, batch_size=batch_size, **OPTIONS)
    assert any(e.status.is_failure for e in whole.evaluations)
    with pytest.raises(KeyboardInterrupt):
        tbq.infer(likelihood([], 27), PRIOR, journal=tmp_path, batch_size=batch_size, **OPTIONS)
    records = journal.read(tmp_path).records
    index, waypoint = waypoints.last(records, ())
    learned = sum(r["kind"] == "run" for r in records[:index])
    assert learned >= 17  # anew at 10, 18 and, of the runs in threes, a little later
    assert len(waypoint.history) == sum("belief" in r for r in records[: index + 1])
    fits.clear()
    resumed = tbq.infer(likelihood([]), PRIOR, journal=tmp_path, batch_size=batch_size, **OPTIONS)
    assert min(fits) >= learned - sum(e.status.is_failure for e in whole.evaluations)
    assert [tuple(e.theta) for e in resumed.evaluations] == [tuple(e.theta) for e in whole.evaluations]
    assert resumed.log_evidence == whole.log_evidence
    assert (resumed.history, resumed.squared_z, resumed.stages) == (whole.history, whole.squared_z, whole.stages)


def test_a_waypoint_that_lacks_beliefs_of_its_history_is_passed_over(tmp_path):
    tbq.infer(likelihood([]), PRIOR, journal=tmp_path, **{**OPTIONS, "max_evaluations": 20})
    records = [dict(r) for r in journal.read(tmp_path).records]
    index, _ = waypoints.last(records, ())
    first = next(i for i, r in enumerate(records) if "belief" in r)
    assert first < index
    del records[first]["belief"]
    del records[first]["waypoint"]
    assert waypoints.last(records, ()) is None


def test_records_that_no_run_has_written_are_refused(tmp_path):
    tbq.infer(likelihood([]), PRIOR, journal=tmp_path, **{**OPTIONS, "max_evaluations": 14})
    path = tmp_path / journal.FILE
    contents = journal.read(tmp_path)
    wrong = [dict(r) for r in contents.records]
    index, _ = waypoints.last(wrong, ())
    wrong[index]["waypoint"] = {**wrong[index]["waypoint"], "squared_z": ["many"]}
    lines, check = [], 0
    for record in (contents.header, *wrong):
        line, check = journal._line({k: v for k, v in record.items() if k != "crc"}, check)
        lines.append(line)
    path.write_bytes(b"".join(lines))
    with pytest.raises(tbq.TbqError, match="holds what no run has written"):
        journal.read(tmp_path)
