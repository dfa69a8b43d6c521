"""Studies: many runs over processes, each a row of a CSV file once it is done. An interrupted study goes on."""

from __future__ import annotations

import csv
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

Row = TypeVar("Row")
Given = TypeVar("Given")


def run_missing(
    work: Callable[..., Row | list[Row]],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int,
    path: Path,
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Row]:
    """Do all tasks, and append the row or the rows that each gives to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for done, given in enumerate(_run_all(work, tasks, jobs), start=1):
        new = given if isinstance(given, list) else [given]
        for row in new:
            _append(path, row)
        rows += new
        on_progress(done)
    return rows


def read_rows(kind: type[Row], path: Path) -> list[Row]:
    """All rows of a file; none if there is no file."""
    if not path.exists():
        return []
    kinds: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float, "bool": lambda v: v == "True"}
    columns = fields(kind)  # type: ignore[arg-type]
    with path.open(newline="") as file:
        return [kind(**{f.name: kinds[str(f.type)](row[f.name]) for f in columns}) for row in csv.DictReader(file)]


def _run_all(work: Callable[..., Given], tasks: Sequence[tuple[Any, ...]], jobs: int) -> Iterator[Given]:
    if jobs == 1:
        yield from (work(*task) for task in tasks)
        return
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # each process has a core of its own; spawned ones read this
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from (f.result() for f in as_completed([pool.submit(work, *task) for task in tasks]))


def _append(path: Path, row: Any) -> None:
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(row)], lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in asdict(row).items()})
