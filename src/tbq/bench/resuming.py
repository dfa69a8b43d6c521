"""The part of `tbq bench overhead` on journals: seconds from opening one of many runs to the next point."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from tbq.bench import studies
from tbq.bench.scale_models import Case, chain
from tbq.common.threads import single_threaded
from tbq.run.session import Session

STOREYS, MODES = 10, 5  # a chain with 55 outputs
RUNS = (80, 85, 90, 95, 100, 105, 110)  # at which the journal is opened: since outputs were learned anew, few or many
_TOLERANCE = 1e-3  # that no run of these meets, so that it goes on
COLUMNS = ("parameters", "outputs", "runs", "since anew", "s to open", "s to the next point")

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """Seconds of processor time, those for loading tbq apart."""

    d: int
    outputs: int
    runs: int
    since: int  # runs since outputs were last learned anew
    opening: float  # of the journal
    asking: float  # for the next point, after that

    @property
    def seconds(self) -> float:
        return self.opening + self.asking


def make(folder: Path, case: Case, counts: Sequence[int]) -> None:
    """A journal as it was after each of so many runs, in a folder of that name."""
    with single_threaded(), _session(folder / "growing", case) as session:
        while len(session.evaluations) < max(counts):
            (point,) = session.ask()
            value, outputs = case.likelihood.evaluate(point.theta)
            session.tell(point.id, log_likelihood=float(value), outputs=outputs)
            if len(session.evaluations) in counts:
                shutil.copytree(folder / "growing", folder / str(len(session.evaluations)))


def resume(folder: Path, case: Case) -> Row:
    """Open a journal and ask for a point."""
    with single_threaded():
        start = time.process_time()
        with _session(folder, case) as session:
            opened = time.process_time()
            session.ask()
            asked = time.process_time()
            runs, anew = len(session.evaluations), session.state.anew_at
    return Row(case.d, len(case.observed), runs, runs - anew, opened - start, asked - opened)


def _session(folder: Path, case: Case) -> Session:
    budget = 10 * max(RUNS)
    return Session(
        case.prior, likelihood=case.likelihood, journal=folder, tolerance=_TOLERANCE, max_evaluations=budget, seed=0
    )


def measure() -> list[Row]:
    """All rows, each in a fresh process."""
    with TemporaryDirectory() as name:
        _apart(_make, Path(name))
        return [_apart(_resume, Path(name) / str(count)) for count in RUNS]


def _make(folder: Path) -> None:
    make(folder, chain(STOREYS, MODES), RUNS)


def _resume(folder: Path) -> Row:
    return resume(folder, chain(STOREYS, MODES))


def _apart(work: Callable[[Path], T], folder: Path) -> T:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, folder).result()


def study(folder: Path) -> list[Row]:
    """Measure unless that was done."""
    path = folder / "overhead_resume.csv"
    return studies.read_rows(Row, path) or studies.run_missing(measure, [()], 1, path)


def table_rows(rows: Sequence[Row]) -> list[list[str]]:
    return [[str(r.d), str(r.outputs), str(r.runs), str(r.since), f"{r.opening:.2f}", f"{r.seconds:.2f}"] for r in rows]


TEXT = """Seconds from opening a run's journal until the next point is chosen, in a fresh process that has loaded tbq:
outputs are learned anew once, as they last were, and then updated by the runs since."""
