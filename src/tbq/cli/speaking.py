"""What all commands share: exit codes, errors in words, and answers for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tbq.common.errors import TbqError, Transient
from tbq.common.words import printable
from tbq.engine.records import Stop


class Exit(IntEnum):
    """What a command ends with, for scripts and schedulers."""

    CONVERGED = 0  # or, of commands that make no run: done
    UNEXPECTED = 1  # an error that is ours: please report it
    REFUSED = 2  # what was given cannot be used; nothing was run
    NOT_CONVERGED = 3  # the budget was used up before the tolerance was met
    NOTHING_LEARNED = 4  # too few runs succeeded
    PAUSED = 75  # an outage; to be tried again later, as sendmail and schedulers have it (EX_TEMPFAIL)
    INTERRUPTED = 130  # Ctrl-C, SIGTERM or a closed terminal; `tbq resume` goes on


_OF_STOP = {
    Stop.CONVERGED: Exit.CONVERGED,
    Stop.BUDGET: Exit.NOT_CONVERGED,
    Stop.NOTHING_LEARNED: Exit.NOTHING_LEARNED,
    Stop.EXECUTOR: Exit.PAUSED,
    Stop.PAUSED: Exit.PAUSED,
    Stop.UNFINISHED: Exit.NOT_CONVERGED,
}

Folder = Annotated[Path, typer.Argument(help="The folder of the run.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for programs instead.")]


def exit_of(stop: Stop) -> Exit:
    """The exit code of a run."""
    return _OF_STOP[stop]


@contextmanager
def spoken(subject: Path | str) -> Iterator[None]:
    """Say what is wrong in words, not in a traceback."""
    try:
        yield
    except TbqError as error:
        first, *others = printable(str(error)).removeprefix(f"{subject}: ").splitlines() or [""]
        typer.echo("\n  ".join([f"{subject}: {first}" if not others else f"{subject}:\n  {first}", *others]), err=True)
        raise typer.Exit(Exit.PAUSED if isinstance(error, Transient) else Exit.REFUSED) from error


def answer(content: Mapping[str, Any]) -> None:
    """One JSON object on stdout; infinities and nan are null, as JSON has none."""
    typer.echo(json.dumps(plain(content), allow_nan=False, ensure_ascii=False, indent=2))


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)
