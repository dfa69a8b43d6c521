"""The measurement of opening a journal again: at which runs, and that it goes on from there."""

import json

import pytest

from tbq.bench import resuming
from tbq.bench.scale_models import chain

COUNTS = (13, 16)


def asked(folder, number):
    """The point of a number, as a journal has it."""
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    points = [p for line in lines if line["kind"] == "ask" for p in line["proposals"]]
    return next(p["theta"] for p in points if p["id"] == number)


def test_a_journal_goes_on_as_if_it_had_not_been_closed(tmp_path):
    case = chain(3, 2)
    resuming.make(tmp_path, case, COUNTS)
    for count in COUNTS:
        row = resuming.resume(tmp_path / str(count), case)
        assert (row.d, row.outputs, row.runs) == (3, 8, count)
        assert 0 <= row.since < count
        assert row.opening > 0.0
        assert row.asking > 0.0
        assert resuming.table_rows([row])[0][-1] == f"{row.opening + row.asking:.2f}"
    assert asked(tmp_path / "13", 13) == pytest.approx(asked(tmp_path / "growing", 13), rel=1e-9)


def test_what_was_measured_is_kept(tmp_path, monkeypatch):
    row = resuming.Row(10, 55, 100, 6, 2.5, 0.5)
    monkeypatch.setattr(resuming, "measure", lambda: [row])
    assert resuming.study(tmp_path) == [row]
    monkeypatch.setattr(resuming, "measure", lambda: 1 / 0)
    assert resuming.study(tmp_path) == [row]
