"""The number of the run that is being made here, for those who name files after it."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

current: ContextVar[int | None] = ContextVar("tbq_run", default=None)


def new_directory(folder: Path) -> Path:
    """A directory for the run: ``tbq-run-0007``, and ``tbq-run-0007_2`` where it is made again."""
    folder.mkdir(parents=True, exist_ok=True)
    number = current.get()
    name = "tbq-run-check" if number is None else f"tbq-run-{number:04d}"
    times = 1
    while True:
        try:
            directory = folder / (name if times == 1 else f"{name}_{times}")
            directory.mkdir()
            return directory.resolve()
        except FileExistsError:
            times += 1
