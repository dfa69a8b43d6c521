"""The measurement of our own time: what it makes, not how long it takes."""

import numpy as np
import pytest

from tbq.bench import overhead


def row(d, runs, population=2**11, seconds=1.0):
    parts = dict.fromkeys(overhead.PARTS, seconds)
    return overhead.Row(d=d, runs=runs, population=population, peak_mb=100.0, **parts)


def test_exponents_of_growth_are_those_of_the_seconds():
    rows = [row(5, n, seconds=n**2 / 1e6) for n in (500, 1000, 2000)]
    rows += [row(5, 500, p, 0.25 * p / 2**11) for p in overhead.POPULATIONS[1:]]
    found = {cells[0]: cells for cells in overhead.exponent_rows(rows)}
    assert found["runs"][2:8] == ["2.0"] * 6
    assert found["population"][2:8] == ["1.0"] * 6
    assert "parameters" not in found  # of which there is one number only


def test_an_iteration_has_its_share_of_what_is_done_now_and_then():
    one = row(2, 100)
    assert one.iteration == pytest.approx(3.0 + 1.0 / 2 + 1.0 / 20 + 1.0 / 15)


def test_a_small_measurement_is_kept_and_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(overhead, "measure", overhead._measure)
    for part in (overhead.output_overhead, overhead.resuming):  # have tests of their own
        monkeypatch.setattr(part, "study", lambda folder: [])
    made = []
    monkeypatch.setattr(overhead, "acquire", lambda p, f: made.append((p, f)) or overhead.Acquisition(p, f, 0.25, 0.5))
    for _ in range(2):
        rows, acquisitions = overhead.study([(2, 20, 128)], tmp_path)
        assert np.all([getattr(rows[0], part) > 0 for part in overhead.PARTS])
        assert len(acquisitions) == 16
    assert len(made) == 16  # once
    text = (tmp_path / "overhead.md").read_text()
    assert "| 2 | 20 | 128 |" in text
    assert "| u4 | peur | 0.250 | 0.500 |" in text


def test_the_papers_size_is_five_thousand_points_and_nodes():
    target, pool, known, _ = overhead._paper_target("u1", 14)
    assert len(pool) == len(target.weights) == 5000
    assert len(known) == 14
