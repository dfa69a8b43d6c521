"""The journal of a run: an append-only file of one JSON record per line, each with a checksum.

The first record says what the run is (``header``); then come, in the order in which they happened, the points that were
proposed (``ask``), what came of them (``run``), the moments when the engine took in the runs so far (``learn``),
failures that were none of theta's and are to be made again (``drop``), and why the run ended (``end``). What only those
who look on care for is an ``outage``: what was seen, and how long the run waits.
A record is on the disk before anything uses it, and a run's state is the replay of its journal.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakSet

from tbq.common.errors import ArgumentError, TbqError, Transient
from tbq.common.words import described, one_line
from tbq.engine.records import Record as Belief
from tbq.engine.records import Stop
from tbq.problem.evaluation import Evaluation, Proposal
from tbq.problem.prior import Prior
from tbq.problem.records import (
    Plain,
    evaluation_of,
    evaluation_record,
    number,
    outcome_record,
    prior_record,
    proposal_of,
    proposal_record,
    run_of,
    same_prior,
)
from tbq.problem.settings import Settings
from tbq.problem.tuning import Tuning
from tbq.run import lock, room

FORMAT = 1
FILE = "journal.jsonl"
Record = Plain

_CHECK = ',"crc":"%08x"}'  # ends every line; the checksum goes on from that of the line before
_CHECK_LENGTH = len(_CHECK % 0)
_ROOM = 2**14  # bytes that one run may take, as long as none has taken more: some 800 outputs
_WORDS = ("inf", "-inf", "nan")


class JournalFullError(Transient):
    """There is no room on the disk. Nothing is lost: with room, the same journal goes on."""


@dataclass(frozen=True)
class Contents:
    """What a journal says: its header, and the records after it."""

    header: Record
    records: tuple[Record, ...]

    @cached_property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Every finished run in the order in which they returned, after those that the run started from."""
        asked: dict[int, Proposal] = {}
        done: dict[int, Evaluation] = {}
        for r in self.records:
            if r["kind"] == "ask":
                asked.update((p.id, p) for p in proposals_of(r))
            elif r["kind"] == "run":
                done[r["id"]] = run_of(r, asked[r["id"]])
            elif r["kind"] == "drop":
                done = {i: e for i, e in done.items() if i not in r["ids"]}
        return (*known_of(self.header), *done.values())

    @cached_property
    def pending(self) -> tuple[Proposal, ...]:
        """Points that were proposed and have not returned."""
        done = {e.id for e in self.evaluations}
        return tuple(p for r in self.records if r["kind"] == "ask" for p in proposals_of(r) if p.id not in done)

    @property
    def belief(self) -> Record | None:
        """Stage, γ, evidence and its coefficient of variation as they were last known; None in the initial design."""
        return next((r["belief"] for r in reversed(self.records) if "belief" in r), None)

    @property
    def stop(self) -> Stop | None:
        """Why the run ended; None while it has not."""
        last = next((r for r in reversed(self.records) if r["kind"] in ("end", "drop")), None)
        return Stop[last["stop"]] if last is not None and last["kind"] == "end" else None

    @property
    def outage(self) -> Record | None:
        """What the run waits for, or was given up for; None where it has gone on since."""
        return self.records[-1] if self.records and self.records[-1]["kind"] == "outage" else None


def read(folder: str | Path) -> Contents:
    """All complete records of a journal. Takes no lock, so that a live run can be followed."""
    path = Path(folder) / FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TbqError(f"journal: there is none in {str(folder)!r} ({error.strerror})") from error
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
        _check_contents(contents)
    except Exception as error:
        raise _foreign(path, error) from error
    return contents


def _check_contents(contents: Contents) -> None:
    if (written := contents.header["format"]) != FORMAT:
        raise ValueError(f"its format is {written!r}, and this tbq reads {FORMAT}")
    names, settings = contents.header["prior"]["names"], contents.header["settings"]
    _ = contents.header["version"], contents.header["seed"], contents.header["prior"]["description"]
    if not all(isinstance(name, str) for name in names) or not isinstance(settings["max_evaluations"], int):
        raise ValueError("names that are not words, or a budget that is not a number")
    points = [e.theta for e in contents.evaluations] + [p.theta for p in contents.pending]
    if any(theta.shape != (len(names),) for theta in points):
        raise ValueError("points of another length")
    outages = [r for r in contents.records if r["kind"] == "outage"]
    if not all(isinstance(r["message"], str) and float(r["time"] + (r["wait"] or 0.0)) > 0.0 for r in outages):
        raise ValueError("outages without a message or a time")
    _ = contents.stop, [float(contents.belief[key]) for key in ("gamma", "log_evidence", "cov") if contents.belief]


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


def header_of(prior: Prior, settings: Settings, seed: int, version: str, known: Iterable[Evaluation]) -> Record:
    """What the run is: enough to notice on resume that something else is wanted. ``known``: runs it starts from."""
    return {
        "kind": "header",
        "format": FORMAT,
        "version": version,
        "seed": seed,
        "prior": prior_record(prior),
        "settings": _plain(asdict(settings)),
        "known": [evaluation_record(e) for e in known],
    }


def check_header(header: Record, prior: Prior, settings: Settings, seed: int | None, version: str, path: Path) -> None:
    """Refuse to go on with a run that is not the one the journal is of."""
    if header.get("format") != FORMAT:
        raise _refused(path, f"it has format {header.get('format')!r}, and this tbq reads format {FORMAT}")
    differences = []
    if header["version"] != version:
        differences.append(f"tbq was {header['version']}, is {version}")
    if seed is not None and header["seed"] != seed:
        differences.append(f"seed was {header['seed']}, is {seed}")
    if not same_prior(header["prior"], prior):
        differences.append(f"prior was {header['prior']['description']}, is {prior!r}")
    was, now = dict(header["settings"]), _plain(asdict(settings))
    tuned = _differences(was.pop("tuning", {}), now.pop("tuning"))
    for name in ("otherwise", "check_runs", "climb"):  # they follow from the others
        was.pop(name, None), now.pop(name)
    differences += _differences(was, now)
    if differences:
        raise _refused(path, f"it is of another run: {'; '.join(differences)}")
    if tuned:
        raise _refused(
            path,
            f"it was written by an engine that was tuned otherwise ({'; '.join(tuned)}), and replays only with that",
        )


def _differences(was: Record, now: Record) -> list[str]:
    names = sorted(was.keys() | now.keys())
    return [f"{n} was {was.get(n)!r}, is {now.get(n)!r}" for n in names if was.get(n) != now.get(n)]


def _refused(path: Path, why: str) -> TbqError:
    go_on = f"give another journal and warm_start={str(path.parent)!r}"
    return TbqError(f"journal: {path} cannot be gone on with: {why}. To use its evaluations in a new run, {go_on}")


def ask_record(proposals: Iterable[Proposal], history: Sequence[Belief] = (), seconds: float = 0.0) -> Record:
    """Points that go out and, for those who look on, what is believed by then and how long we took so far."""
    return {"kind": "ask", "proposals": [proposal_record(p) for p in proposals], "seconds": seconds, **_belief(history)}


def end_record(stop: Stop, history: Sequence[Belief], seconds: float = 0.0) -> Record:
    return {"kind": "end", "stop": stop.name, "seconds": seconds, **_belief(history)}


def run_record(evaluation: Evaluation) -> Record:
    return {"kind": "run", **outcome_record(evaluation)}


LEARN: Record = {"kind": "learn"}


def drop_record(ids: Iterable[int]) -> Record:
    return {"kind": "drop", "ids": sorted(ids)}


def outage_record(message: str, ids: Iterable[int], wait: float | None) -> Record:
    """What was seen, the points that it stopped, and the seconds until they are tried again; None: not in this call."""
    return {"kind": "outage", "message": message, "ids": sorted(ids), "wait": wait, "time": time.time()}


def proposals_of(ask: Record) -> list[Proposal]:
    return [proposal_of(p) for p in ask["proposals"]]


def settings_of(record: Record) -> Settings:
    """The settings that a header has. A function that was one of them is its name."""
    known = {f.name for f in fields(Settings)}
    settings: dict[str, Any] = {k: float(v) if v in _WORDS else v for k, v in record.items() if k in known}
    tuning: dict[str, Any] = {k: float(v) if v in _WORDS else v for k, v in record["tuning"].items()}
    settings["tuning"] = Tuning(**tuning)
    settings["otherwise"] = settings_of(record["otherwise"]) if record.get("otherwise") else None
    return Settings(**{**settings, "tolerance": tuple(settings["tolerance"])})


def known_of(header: Record) -> list[Evaluation]:
    return [evaluation_of(r) for r in header["known"]]


def _belief(history: Sequence[Belief]) -> Record:
    return {"belief": _plain(asdict(history[-1]))} if history else {}


def _plain(value: Any) -> Any:
    """Settings as JSON has them; a function by its name."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return number(value)
    if value is None or isinstance(value, str | int):
        return value
    return getattr(value, "__name__", type(value).__name__)
