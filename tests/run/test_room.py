"""A disk that fills up: runs that had returned are kept, whatever happens next."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from driving import PRIOR, QUICK, infer
from likelihoods import log_likelihood

import tbq
from tbq.problem.settings import resolve
from tbq.run import journal, outage, room
from tbq.run.header import header_of

SCRIPT = Path(__file__).parents[1] / "full_disk.py"


def small_disk(tmp_path, size):
    """A command that runs what follows with a disk of its own, or None where that is not allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size={size} tbq {disk} && "
    try:
        done = subprocess.run(["unshare", "-Urm", "sh", "-c", f"{mount} true"], capture_output=True, check=False)
    except OSError:
        return None
    return (disk, mount) if done.returncode == 0 else None


@pytest.mark.parametrize("how", ["kill", "end"])
def test_a_run_that_is_killed_or_ends_while_the_disk_is_full_loses_no_run_that_had_returned(tmp_path, how):
    made = small_disk(tmp_path, "600k")
    if made is None:
        pytest.skip("no disks of our own here: unshare -Urm and a tmpfs are needed")
    disk, mount = made
    command = f"{mount} exec {sys.executable} {SCRIPT} {disk} {tmp_path} {how}"
    within = ["unshare", "-Urm", "sh", "-c", command]
    done = subprocess.run(within, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["killed"] == (how == "kill")
    assert report["returned"] > 9
    assert (report["lost"], report["again"]) == (0, 0)
    assert report["evaluations"] > report["returned"]
    if how == "end":
        assert (tmp_path / "stop").read_text() == "PAUSED"
        assert "No space left on device" in done.stderr


def test_room_that_was_taken_does_not_show_in_the_file(tmp_path):
    with tbq.Session(PRIOR, journal=tmp_path, max_evaluations=20, **QUICK) as session:
        points = session.ask(12)
        path = tmp_path / journal.FILE
        assert path.stat().st_blocks * 512 > 12 * journal._ROOM
        assert path.read_bytes().endswith(b"}\n")
        for p in points:
            session.tell(p.id, log_likelihood=log_likelihood(p.theta))
    assert len(journal.read(tmp_path).evaluations) == 12


class Full:
    """A disk that has no room for so many requests."""

    def __init__(self, times):
        self.times = times

    def __call__(self, file, start, length):
        self.times -= 1
        if self.times >= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_without_room_no_run_is_sent_out_and_with_room_all_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(outage, "_FIRST", 0.001)
    plain = infer(log_likelihood, 14)
    monkeypatch.setattr(room, "take", Full(3))
    result = infer(log_likelihood, 14, journal=tmp_path)
    assert result.log_evidence == plain.log_evidence
    assert caplog.text.count("cannot grow: No space left on device; make room on the disk") == 3
    assert "go on" in caplog.text


def test_a_session_says_that_the_disk_is_full_and_loses_nothing(tmp_path, monkeypatch):
    with tbq.Session(PRIOR, journal=tmp_path, max_evaluations=20, **QUICK) as session:
        (first,) = session.ask(1)
        monkeypatch.setattr(room, "take", Full(1))
        monkeypatch.setattr(journal, "_ROOM", 10**6)
        session._journal._largest = 10**6
        with pytest.raises(tbq.Transient, match="cannot grow: No space left on device"):
            session.ask(1)
        session.tell(first.id, log_likelihood=-1.0)
        assert [p.id for p in session.ask(1)] == [1]
    assert len(journal.read(tmp_path).evaluations) == 1


def test_a_write_that_finds_no_room_leaves_whole_records_and_an_open_journal(tmp_path, monkeypatch):
    writer = journal.Journal(tmp_path)
    writer.append(header_of(PRIOR, resolve(2), 3, "1.0", []))
    before = writer.path.read_bytes()
    pwrite = os.pwrite

    def half(file, block, offset):
        if offset > len(before):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(file, block[: len(block) // 2], offset)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(journal.JournalFullError, match="cannot grow"):
        writer.append(journal.LEARN)
    assert writer.path.read_bytes() == before
    monkeypatch.undo()
    writer.append(journal.LEARN)
    writer.close()
    journal.Journal(tmp_path).close()
    assert writer.path.read_bytes().startswith(before)
    assert writer.path.read_bytes().count(b"\n") == 2
