"""A program outside Python as a function of theta, run per evaluation in a directory of its own.

It can be pickled, so that any executor can run it, and raises a :class:`tbq.common.errors.SimulatorError` when a run
gives no usable output.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tbq.common.arguments import check_timeout
from tbq.common.errors import (
    ArgumentError,
    ProgramError,
    ProgramUnavailableError,
    SimulatorError,
    SimulatorTimeoutError,
)
from tbq.common.types import Array
from tbq.simulate.processes import Program
from tbq.simulate.textfiles import fill, place, read_numbers

_TAIL_LINES = 10  # of stderr, in an error message


@dataclass(frozen=True)
class CommandModel:
    """A program as a function of theta: input file from a template, run, output file read.

    Every run has its own directory, where ``stdout.txt`` and ``stderr.txt`` are kept too. After a success the
    directory is removed unless ``keep``; after a failure it stays, and the error names it.

    Parameters
    ----------
    names
        Parameter names in the order of theta. ``{k1}`` in the template or the command stands for the value of k1 with
        all its digits, ``{k1:12.5e}`` for a Python number format. Each must appear somewhere.
    command
        Program and arguments; no shell reads them.
    output
        File that the program leaves in its directory: numbers between blanks, commas or semicolons (``#`` starts a
        comment), or JSON when it is called ``.json``. ``"stdout.txt"`` is what it prints.
    pattern
        Regular expression with one group; every match in ``output`` is a number, in order.
    template
        File that is filled in and put into the directory under its own name.
    files
        Files and folders that are copied there as they are.
    folder
        Where the directories are made; the system's temporary folder when None.
    timeout
        Seconds after which the program, and whatever it started, is ended.
    keep
        Keep the directories of successful runs as well.
    transient
        Exit codes that say nothing of theta, such as 75 where there is no licence: the run is made again, later.
    """

    names: Sequence[str]
    command: Sequence[str]
    output: str
    pattern: str | None = None
    template: str | Path | None = None
    files: Sequence[str | Path] = ()
    folder: str | Path | None = None
    timeout: float | None = None
    keep: bool = False
    transient: Sequence[int] = ()

    def __post_init__(self) -> None:
        if isinstance(self.command, str) or not self.command:
            raise ArgumentError(
                f"command must be a list of program and arguments, such as ['frame', '{{k1}}']; got {self.command!r}"
            )
        if shutil.which(self.command[0]) is None:
            raise ArgumentError(f"command: there is no program {self.command[0]!r}; give its path, or check its rights")
        for key, path in [("template", self.template), *(("files", f) for f in self.files)]:
            if path is not None and not (Path(path).is_file() or (key == "files" and Path(path).is_dir())):
                raise ArgumentError(f"{key}: there is no file {str(path)!r}")
        if self.pattern is not None:
            _check_pattern(self.pattern)
        if os.path.isabs(self.output) or ".." in Path(self.output).parts:
            raise ArgumentError(f"output must be a file inside the run's directory; got {self.output!r}")
        check_timeout(self.timeout)
        _check_codes(self.transient)
        self._check_places()

    def __call__(self, theta: Array) -> Array:
        """Outputs at theta, in the order of the file."""
        if self.folder is not None:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(prefix="tbq-run-", dir=self.folder)).resolve()
        outputs = self.run(theta, directory)
        if not self.keep:
            shutil.rmtree(directory, ignore_errors=True)
        return outputs

    def run(self, theta: Array, directory: Path) -> Array:
        """Run in ``directory``, which stays."""
        values = dict(zip(self.names, (float(t) for t in theta), strict=True))
        for path in map(Path, self.files):
            (shutil.copytree if path.is_dir() else shutil.copy)(path, directory / path.name)
        if self.template is not None:
            (directory / Path(self.template).name).write_bytes(
                fill(self._template_text, values).encode(errors="surrogateescape")
            )
        program = self.command[0]
        if os.path.dirname(program):  # a path from here, not from the directory of the run
            program = os.path.abspath(program)
        command = [program, *(fill(argument, values) for argument in self.command[1:])]
        try:
            _execute(command, directory, self.timeout, self.transient)
            return read_numbers(directory / self.output, self.pattern)
        except SimulatorError as error:
            raise type(error)(f"{error}{_tail(directory)}\nIts directory is kept: {directory}") from error

    @property
    def _template_text(self) -> str:
        return "" if self.template is None else Path(self.template).read_bytes().decode(errors="surrogateescape")

    def _check_places(self) -> None:
        """Every parameter must reach the program, and in a format that exists."""
        places = "\n".join([self._template_text, *self.command[1:]])
        for name in self.names:
            if not place([name]).search(places):
                where = "the command" if self.template is None else "the template or the command"
                raise ArgumentError(f"{name}: the parameter does not appear in {where}; write {{{name}}} for its value")
        fill(places, dict.fromkeys(self.names, 1.0))


def _execute(command: Sequence[str], directory: Path, timeout: float | None, transient: Sequence[int]) -> None:
    shown = " ".join(command)
    with (directory / "stdout.txt").open("wb") as out, (directory / "stderr.txt").open("wb") as err:
        try:
            process = Program(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        except OSError as error:
            raise ProgramUnavailableError(f"the program could not be started: {error.strerror} ({shown})") from error
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise SimulatorTimeoutError(f"the program was ended after {timeout:g} s ({shown})") from error
        finally:
            process.end()
    if code < 0:
        raise ProgramError(f"the program was ended by signal {-code}, {signal.strsignal(-code)} ({shown})")
    if code in transient:
        raise ProgramUnavailableError(f"the program ended with exit code {code}, which is transient ({shown})")
    if code > 0:
        raise ProgramError(f"the program ended with exit code {code} ({shown})")


def _tail(directory: Path) -> str:
    """The last lines of stderr, or of stdout when stderr is empty."""
    for name in ("stderr.txt", "stdout.txt"):
        path = directory / name
        text = path.read_bytes()[-4000:].decode(errors="replace").strip() if path.exists() else ""
        if text:
            lines = "\n".join(f"  {line}" for line in text.splitlines()[-_TAIL_LINES:])
            return f"\nIts {path.stem} ends with:\n{lines}"
    return "\nIt printed nothing."


# --- checks


def _check_pattern(pattern: str) -> None:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ArgumentError(f"pattern is not a regular expression: {error}; got {pattern!r}") from error
    if groups != 1:
        raise ArgumentError(f"pattern must have one group (...) around the number; got {groups} in {pattern!r}")


def _check_codes(codes: Any) -> None:
    for code in codes if isinstance(codes, list | tuple) else [None]:
        if isinstance(code, bool) or not isinstance(code, int) or not 1 <= code <= 255:
            raise ArgumentError(f"transient must be a list of exit codes from 1 to 255; got {codes!r}")
