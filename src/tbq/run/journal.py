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
from tbq.run import room

FORMAT = 1
FILE = "journal.jsonl"
Record = Plain

_CHECK = ',"crc":"%08x"}'  # ends every line; the checksum goes on from that of the line before
_CHECK_LENGTH = len(_CHECK % 0)
_PATIENCE = 20  # tries to get the lock
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
    return Contents(records[0], tuple(records[1:]))


class Journal:
    """The one writer of a journal. Opening it repairs what a torn write has left at the end of the file."""

    def __init__(self, folder: str | Path) -> None:
        self._file = -1
        if not isinstance(folder, str | Path):
            raise ArgumentError(f"journal must be a folder; got {type(folder).__name__}")
        self.path = Path(folder) / FILE
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            _lock(self._file, self.path)
            records, self._end, self._check = _scan(self.path.read_bytes(), self.path)
            self._taken, self._largest = self._end, _ROOM
            os.ftruncate(self._file, self._end)
            if self._end and os.pread(self._file, 1, self._end - 1) != b"\n":  # only the end of the line was lost
                self._write(b"\n")
        except OSError as error:
            self.close()
            raise TbqError(f"journal: {self.path} cannot be opened: {error.strerror}") from error
        except BaseException:
            self.close()
            raise
        self.contents = Contents(records[0], tuple(records[1:])) if records else None
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

    def close(self) -> None:
        """Give the journal free for another writer."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

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
        records.append(json.loads(body))
        end, check = (stop + 1 if stop >= 0 else len(data)), new
    return records, end, check


# --- one writer ---------------------------------------------------------------------------------------------

_open_journals: WeakSet[Journal] = WeakSet()


def _lock(file: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError as error:
        raise TbqError("journal: a journal needs file locks as Linux and macOS have them") from error
    for patience in reversed(range(_PATIENCE)):  # a process that was just forked or killed lets go in a moment
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if not patience:
                raise TbqError(
                    f"journal: {path} is in use by another run; wait for it, end it, or close its session"
                ) from error
            time.sleep(0.05)


def in_use(folder: str | Path) -> bool:
    """Whether somebody writes this journal now."""
    import fcntl

    with contextlib.suppress(OSError), (Path(folder) / FILE).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


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
    differences = []
    if header.get("format") != FORMAT:
        differences.append(f"its format was {header.get('format')!r}, is {FORMAT}")
    else:
        if header["version"] != version:
            differences.append(f"tbq was {header['version']}, is {version}")
        if seed is not None and header["seed"] != seed:
            differences.append(f"seed was {header['seed']}, is {seed}")
        if not same_prior(header["prior"], prior):
            differences.append(f"prior was {header['prior']['description']}, is {prior!r}")
        now = _plain(asdict(settings))
        for name in sorted(header["settings"].keys() | now.keys()):
            if header["settings"].get(name) != now.get(name):
                differences.append(f"{name} was {header['settings'].get(name)!r}, is {now.get(name)!r}")
    if differences:
        raise TbqError(
            f"journal: {path} is of another run: {'; '.join(differences)}. To use its evaluations in a new run, "
            f"give another journal and warm_start={str(path.parent)!r}"
        )


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
    fallback = settings_of(record["fallback"]) if record.get("fallback") else None
    return Settings(**{**settings, "tolerance": tuple(settings["tolerance"]), "fallback": fallback})


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
