"""The journal of a run: an append-only file of one JSON record per line, each with a checksum.

The first record says what the run is (``header``); then come, in the order in which they happened, the points that were
proposed (``ask``), what came of them (``run``), the moments when the engine took in the runs so far (``learn``),
failures that were none of theta's and are to be made again (``drop``), another budget or tolerance to go on with
(``steer``), and why the run ended (``end``). What only those who look on care for is an ``outage``, what was seen and
how long the run waits, a ``begin``: when somebody set out to make runs and how many at a time, and what was ``found``.
A record is on the disk before anything uses it, and a run's state is the replay of its journal.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from weakref import WeakSet

from tbq.common.errors import ArgumentError, TbqError, Transient
from tbq.common.words import described, one_line
from tbq.engine.records import Record as Belief
from tbq.engine.records import Stop
from tbq.problem.evaluation import Evaluation, Proposal
from tbq.problem.records import (
    number,
    outcome_record,
    proposal_record,
)
from tbq.problem.settings import Settings
from tbq.run import lock, room
from tbq.run.contents import Contents, check_contents
from tbq.run.header import Record, plain

FILE = "journal.jsonl"
_CHECK = ',"crc":"%08x"}'  # ends every line; the checksum goes on from that of the line before
_CHECK_LENGTH = len(_CHECK % 0)
_ROOM = 2**14  # bytes that one run may take, as long as none has taken more: some 800 outputs


class JournalFullError(Transient):
    """There is no room on the disk. Nothing is lost: with room, the same journal goes on."""


def read(folder: str | Path) -> Contents:
    """All complete records of a journal. Takes no lock, so that a live run can be followed."""
    path = Path(folder) / FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TbqError(
            f"journal: there is none in {str(folder)!r} ({error.strerror}); give the folder of a run"
        ) from error
    records, _, _ = _scan(data, path)
    if not records:
        raise TbqError(f"journal: {path} has no complete record yet")
    return _contents(records, path)


class Journal:
    """The one writer of a journal. Opening it repairs what a torn write has left at the end of the file."""

    def __init__(self, folder: str | Path) -> None:
        self._file = self._lock = -1
        if not isinstance(folder, str | Path):
            raise ArgumentError(f"journal must be a folder; got {type(folder).__name__}")
        self.path = Path(folder) / FILE
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = lock.acquire(self.path.with_name(lock.FILE))
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            records, self._end, self._check = _scan(self.path.read_bytes(), self.path)
            self._taken, self._largest = self._end, _ROOM
            self.contents = _contents(records, self.path) if records else None
            os.ftruncate(self._file, self._end)
            if self._end and os.pread(self._file, 1, self._end - 1) != b"\n":  # only the end of the line was lost
                self._write(b"\n")
        except OSError as error:
            self.close()
            raise TbqError(f"journal: {self.path} cannot be opened: {error.strerror}") from error
        except BaseException:
            self.close()
            raise
        _open_journals.add(self)

    def append(self, *records: Record) -> None:
        """Add records and return when they are on the disk."""
        if self._file < 0:
            raise TbqError(f"journal: {self.path} is closed")
        check, lines = self._check, []
        for record in records:
            line, check = _line(record, check)
            lines.append(line)
        try:
            self._check_place()
            self._write(b"".join(lines))
            self._check = check
            sizes = [len(line) for record, line in zip(records, lines, strict=True) if record["kind"] == "run"]
            self._largest = max([self._largest, *sizes])
        except BaseException as error:  # a full disk, or an interrupt: no other record may follow half of this one
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)
                self._taken = self._end
                if isinstance(error, OSError) and error.errno in room.FULL:
                    raise self._full(error) from error
            self.close()
            if isinstance(error, OSError):
                raise TbqError(f"journal: {self.path} cannot be written: {error.strerror}") from error
            raise

    def reserve(self, runs: int) -> None:
        """Take room on the disk for so many runs, before they are sent out: they can be written when it is full."""
        wanted = self._end + (runs + 1) * self._largest
        if wanted > self._taken:
            try:
                room.take(self._file, self._end, wanted - self._end)
            except OSError as error:
                raise self._full(error) from error
            self._taken = wanted

    def _full(self, error: OSError) -> JournalFullError:
        return JournalFullError(f"journal: {self.path} cannot grow: {error.strerror}; make room on the disk")

    def _check_place(self) -> None:
        """Writing to a file that nobody will find again is no writing."""
        if not (lock.is_at(self._file, self.path) and lock.is_at(self._lock, self.path.with_name(lock.FILE))):
            raise TbqError(
                f"journal: {self.path} or its lock was moved, removed or replaced while the run went on. Put the "
                "folder back and make the same call again: all runs that are in it count, the last to return is not"
            )

    def close(self) -> None:
        """Give the journal free for another writer."""
        for file in (self._file, self._lock):
            if file >= 0:
                os.close(file)
        self._file = self._lock = -1

    def __del__(self) -> None:
        self.close()

    def _write(self, data: bytes) -> None:
        done = 0
        while done < len(data):
            done += os.pwrite(self._file, data[done:], self._end + done)
        os.fsync(self._file)
        if self._end == 0:  # a new file: its name has to last too
            folder = os.open(self.path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        self._end += len(data)


# --- lines --------------------------------------------------------------------------------------------------


def _line(record: Record, check: int) -> tuple[bytes, int]:
    body = json.dumps(record, separators=(",", ":"), allow_nan=False)
    check = zlib.crc32(body.encode(), check)
    return (body[:-1] + _CHECK % check + "\n").encode(), check


def _scan(data: bytes, path: Path) -> tuple[list[Record], int, int]:
    """Records, the length of the file that they fill, and the checksum there. Damage before the end is refused."""
    records: list[Record] = []
    end, check = 0, 0
    while end < len(data):
        stop = data.find(b"\n", end)
        line = data[end:stop] if stop >= 0 else data[end:]
        body = line[:-_CHECK_LENGTH] + b"}"
        new = zlib.crc32(body, check)
        if line[-_CHECK_LENGTH:] != (_CHECK % new).encode():
            if stop < 0:  # a write that was cut short: nothing has used it
                break
            raise TbqError(
                f"journal: {path} is damaged in line {len(records) + 1}: its checksum is wrong. Restore the file from "
                "a copy; or remove this line and all after it, and the runs they hold will be made again"
            )
        try:
            records.append(json.loads(body))
        except (ValueError, RecursionError) as error:
            raise _foreign(path, error) from error
        end, check = (stop + 1 if stop >= 0 else len(data)), new
    return records, end, check


def _contents(records: Sequence[Record], path: Path) -> Contents:
    """What the records say. A checksum tells of damage, not of who has written them: they are looked at as a whole."""
    contents = Contents(records[0], tuple(records[1:]))
    try:
        check_contents(contents)
    except Exception as error:
        raise _foreign(path, error) from error
    return contents


def _foreign(path: Path, error: Exception) -> TbqError:
    return TbqError(f"journal: {path} holds what no run has written: {one_line(described(error))}")


# --- one writer ---------------------------------------------------------------------------------------------

_open_journals: WeakSet[Journal] = WeakSet()


def in_use(folder: str | Path) -> bool:
    """Whether somebody writes this journal now."""
    return lock.held(Path(folder) / lock.FILE)


def _close_all() -> None:
    for journal in list(_open_journals):
        journal.close()


if hasattr(os, "register_at_fork"):  # a forked worker would hold the lock of a parent that was killed
    os.register_at_fork(after_in_child=_close_all)


# --- records ------------------------------------------------------------------------------------------------


def ask_record(proposals: Iterable[Proposal], history: Sequence[Belief] = (), seconds: float = 0.0) -> Record:
    """Points that go out and, for those who look on, what is believed by then and how long we took so far."""
    return {"kind": "ask", "proposals": [proposal_record(p) for p in proposals], "seconds": seconds, **_belief(history)}


def end_record(stop: Stop, history: Sequence[Belief], seconds: float = 0.0) -> Record:
    return {"kind": "end", "stop": stop.name, "seconds": seconds, **_belief(history)}


def run_record(evaluation: Evaluation) -> Record:
    return {"kind": "run", **outcome_record(evaluation), "time": time.time()}


def begin_record(places: int, batch: int) -> Record:
    """Somebody sets out to make runs: so many at a time, with so many points in flight after the initial design."""
    return {"kind": "begin", "places": places, "batch": batch, "time": time.time()}


def steer_record(settings: Settings) -> Record:
    """From here on the run has another budget or tolerance."""
    return {"kind": "steer", "settings": plain(asdict(settings))}


LEARN: Record = {"kind": "learn"}


def found_record(log_evidence: float, sd: float) -> Record:
    """For those who look on: the evidence that was stated at the end, with its total error."""
    return {"kind": "found", "log_evidence": number(log_evidence), "log_evidence_sd": number(sd)}


def estimate_record(log_evidence: float, sd: float, runs: int) -> Record:
    """For those who look on: the evidence as it would have been stated after so many runs, with its total error."""
    return {"kind": "estimate", "log_evidence": number(log_evidence), "log_evidence_sd": number(sd), "runs": runs}


def drop_record(ids: Iterable[int]) -> Record:
    return {"kind": "drop", "ids": sorted(ids)}


def outage_record(message: str, ids: Iterable[int], wait: float | None) -> Record:
    """What was seen, the points that it stopped, and the seconds until they are tried again; None: not in this call."""
    return {"kind": "outage", "message": message, "ids": sorted(ids), "wait": wait, "time": time.time()}


def _belief(history: Sequence[Belief]) -> Record:
    return {"belief": plain(asdict(history[-1]))} if history else {}
