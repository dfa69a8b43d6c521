"""A program outside Python as a function of theta, run per evaluation in a directory of its own.

It can be pickled, so that any executor can run it, and raises a :class:`tbq.common.errors.SimulatorError` when a run
gives no usable output.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tbq.common.arguments import check_timeout
from tbq.common.errors import ArgumentError, ProgramUnavailableError, SimulatorError
from tbq.common.types import Array
from tbq.common.words import described
from tbq.simulate.execute import READY, SHELL, execute, tail
from tbq.simulate.licences import Licences
from tbq.simulate.outputs import Output
from tbq.simulate.placeholders import check_places, fill
from tbq.simulate.readers import Numbers, Pattern, inside, pattern_with_group
from tbq.simulate.run_number import new_directory

PathLike = str | Path

_OURS = {"stdout.txt", "stderr.txt", READY}  # files that a run's directory has besides


@dataclass(frozen=True)
class CommandModel:
    """A program as a function of theta: input files from templates, run, output file read.

    Every run has its own directory, where ``stdout.txt`` and ``stderr.txt`` are kept too. After a success the
    directory is removed unless ``keep``; after a failure it stays, and the error names it.

    Parameters
    ----------
    names
        Parameter names in the order of theta. ``{k1}`` in a template, the command or the environment stands for the
        value of k1 to twelve digits, ``{k1*1e3:.6E}`` for one computed from it (``+ - * / **``, ``pi``, ``sqrt``,
        ``exp``, ``log``, ``log10``, ``sin``, ``cos``, ``tan``, ``abs``, ``min``, ``max``) in a Python number format. A
        width in the format is that of the field: a longer value is refused, and ``{k1:8}`` has as many digits as fit
        into eight columns. Each parameter must appear somewhere.
    command
        Program and arguments; no shell reads them.
    output
        File that the program leaves in its directory: numbers between blanks, commas or semicolons (``#`` starts a
        comment), or JSON when it is called ``.json``. ``"stdout.txt"`` is what it prints. Or one or several named
        :class:`tbq.readers.Output`, each with its own way to be read.
    pattern
        Regular expression with one group; every match in ``output`` is a number, in order.
    template
        File, or files, filled in and put into the directory under their own names.
    files
        Files and folders that are copied there as they are.
    links
        Files and folders that are linked there instead, because they are large; the program must only read them.
    folder
        Where the directories are made, which then have the number of their run in their names (``tbq-run-0007``); the
        system's temporary folder when None. ``$TMPDIR`` and the like stand for what they are where the run is made.
    environment
        Variables for the program besides those that there are.
    prelude
        Commands of a login shell (bash) before the program, in the run's directory, such as
        ``["module load calculix"]``; when one fails it is nothing that theta has done, and the run waits.
    licences
        How many runs may be under way at once, however many workers there are: a number for the runs in ``folder``, or
        :class:`tbq.adapters.Licences` that others share.
    timeout
        Seconds after which the program, and whatever it started, is ended.
    keep
        Keep the directories of successful runs as well.
    transient
        Exit codes that say nothing of theta, such as 75 where there is no licence: the run is made again, later.
    """

    names: Sequence[str]
    command: Sequence[str]
    output: str | Output | Sequence[Output]
    pattern: str | None = None
    template: PathLike | Sequence[PathLike] | None = None
    files: Sequence[PathLike] = ()
    folder: PathLike | None = None
    timeout: float | None = None
    keep: bool = False
    transient: Sequence[int] = ()
    links: Sequence[PathLike] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    prelude: Sequence[str] = ()
    licences: int | Licences | None = None

    def __post_init__(self) -> None:
        if isinstance(self.command, str) or not self.command:
            raise ArgumentError(
                f"command must be a list of program and arguments, such as ['frame', '{{k1}}']; got {self.command!r}"
            )
        if any("\0" in argument for argument in self.command):
            raise ArgumentError(f"command: no argument may hold a zero byte; got {self.command!r}")
        _check_variables(self.environment)
        self._check_program()
        self._check_files()
        if self.licences is not None and not isinstance(self.licences, Licences):
            if self.folder is None or "$" in str(self.folder):
                raise ArgumentError(
                    "licences: give a folder that all runs see; or tbq.adapters.Licences(limit, folder)"
                )
            self._licences()
        self._check_outputs()
        check_timeout(self.timeout)
        _check_codes(self.transient)
        self._check_places()

    def __call__(self, theta: Array) -> Array:
        """Outputs at theta, in the order of the file."""
        try:
            if self.folder is None:
                directory = Path(tempfile.mkdtemp(prefix="tbq-run-")).resolve()
            else:
                directory = new_directory(_here(self.folder))
        except OSError as error:
            raise ProgramUnavailableError(f"no directory can be made for the run: {described(error)}") from error
        outputs = self.run(theta, directory)
        if not self.keep:
            shutil.rmtree(directory, ignore_errors=True)
        return outputs

    def run(self, theta: Array, directory: Path) -> Array:
        """Run in ``directory``, which stays."""
        values = self._values(theta)
        try:
            for path in map(Path, self.files):
                (shutil.copytree if path.is_dir() else shutil.copy)(path, directory / path.name)
            for path in map(Path, self.links):
                (directory / path.name).symlink_to(path.resolve())
            for name, text in self.inputs(theta).items():
                (directory / name).write_bytes(text.encode(errors="surrogateescape"))
            program = self.command[0]
            if os.path.dirname(program):  # a path from here, not from the directory of the run
                program = os.path.abspath(program)
            command = [program, *(fill(argument, values) for argument in self.command[1:])]
            environment = {name: fill(value, values) for name, value in self.environment.items()}
            licences = self._licences()
            with contextlib.nullcontext() if licences is None else licences.one():
                execute(
                    command,
                    directory,
                    timeout=self.timeout,
                    transient=self.transient,
                    environment=environment,
                    prelude=self.prelude,
                )
            return np.concatenate([output.read(directory) for output in self._outputs])
        except SimulatorError as error:
            raise type(error)(f"{error}{tail(directory)}\nIts directory is kept: {directory}") from error
        except OSError as error:  # the disk, or somebody who took a template away
            raise ProgramUnavailableError(
                f"the files of the run cannot be read or written: {described(error)}"
            ) from error

    def inputs(self, theta: Array) -> dict[str, str]:
        """The templates as they are filled in at theta, by the names of their files."""
        values, filled = self._values(theta), {}
        for path in self._templates:
            try:
                filled[path.name] = fill(_text(path), values)
            except SimulatorError as error:
                raise type(error)(f"{path.name}, {error}") from error
        return filled

    @property
    def _templates(self) -> list[Path]:
        return templates_of(self.template)

    @property
    def _outputs(self) -> list[Output]:
        if isinstance(self.output, str):
            file = self.output
            return [Output("", Numbers(file) if self.pattern is None else Pattern(file, self.pattern))]
        return [self.output] if isinstance(self.output, Output) else list(self.output)

    def _values(self, theta: Array) -> dict[str, float]:
        return dict(zip(self.names, (float(t) for t in theta), strict=True))

    def _licences(self) -> Licences | None:
        if isinstance(self.licences, Licences) or self.licences is None:
            return self.licences
        return Licences(self.licences, _here(self.folder or "") / "licences")

    # --- checks ---------------------------------------------------------------------------------------------

    def _check_program(self) -> None:
        if isinstance(self.prelude, str) or any("\0" in line for line in self.prelude):
            raise ArgumentError(f"prelude must be a list of commands; got {self.prelude!r}")
        if self.prelude:  # which may put the program on the path
            if shutil.which(SHELL) is None:
                raise ArgumentError(f"prelude: its commands are for {SHELL}, and there is none here")
        elif shutil.which(self.command[0], path=self.environment.get("PATH")) is None:
            raise ArgumentError(f"command: there is no program {self.command[0]!r}; give its path, or check its rights")

    def _check_files(self) -> None:
        given = [("template", t) for t in self._templates]
        given += [(key, Path(f)) for key in ("files", "links") for f in getattr(self, key)]
        for key, path in given:
            if not (os.path.isfile(path) or (key != "template" and os.path.isdir(path))):
                raise ArgumentError(f"{key}: there is no file {str(path)!r}")
        names = [path.name for _, path in given]
        if own := sorted(_OURS & {*names}):
            raise ArgumentError(
                f"template, files and links: {own[0]!r} is a name that tbq needs there; give it another"
            )
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ArgumentError(f"template, files and links: two are called {twice[0]!r}, and one would take its place")

    def _check_outputs(self) -> None:
        if isinstance(self.output, str):
            inside("output", self.output)
            if self.pattern is not None:
                pattern_with_group(self.pattern)
            self._check_own_files()
            return
        if self.pattern is not None:
            raise ArgumentError("pattern is for an output that is a file; others say themselves how they are read")
        if not self._outputs or not all(isinstance(output, Output) for output in self._outputs):
            raise ArgumentError(f"output must be a file, or one or several tbq.readers.Output; got {self.output!r}")
        self._check_own_files()
        names = [output.name for output in self._outputs]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ArgumentError(f"output: two are called {twice[0]!r}")

    def _check_own_files(self) -> None:
        """A program that fails without a word leaves what was there before it as it was."""
        before = {path.name for path in map(Path, [*self._templates, *self.files, *self.links])}
        read = {file for o in self._outputs for r in (o.reader, o.against) if (file := getattr(r, "file", None))}
        if there := sorted(before & read):
            raise ArgumentError(
                f"output: {there[0]!r} is there before the run; let the program write a file of its own"
            )

    def _check_places(self) -> None:
        """Every parameter must reach the program, and in a format that exists."""
        places = [_text(path) for path in self._templates]
        places += [*self.command[1:], *self.environment.values()]
        reached: set[str] = set().union(*(check_places(text, list(self.names)) for text in places))
        for name in self.names:
            if name not in reached:
                where = "the template or the command" if self._templates else "the command"
                raise ArgumentError(f"{name}: the parameter does not appear in {where}; write {{{name}}} for its value")


def templates_of(template: PathLike | Sequence[PathLike] | None) -> list[Path]:
    """One, several or none."""
    if template is None:
        return []
    return [Path(t) for t in ([template] if isinstance(template, str | Path) else template)]


def _text(path: Path) -> str:
    """Bytes that are no UTF-8 are kept as they are."""
    return path.read_bytes().decode(errors="surrogateescape")


def _here(folder: PathLike) -> Path:
    """A folder with the variables of this machine in it."""
    path = os.path.expandvars(os.path.expanduser(folder))
    if missing := re.search(r"\$\w+|\$\{\w+\}", path):
        raise ProgramUnavailableError(f"folder: {missing[0]} of {str(folder)!r} is not set here")
    return Path(path)


def _check_codes(codes: Any) -> None:
    for code in codes if isinstance(codes, list | tuple) else [None]:
        if isinstance(code, bool) or not isinstance(code, int) or not 1 <= code <= 255:
            raise ArgumentError(f"transient must be a list of exit codes from 1 to 255; got {codes!r}")


def _check_variables(environment: Any) -> None:
    for name, value in environment.items() if isinstance(environment, Mapping) else [("", "")]:
        texts = isinstance(name, str) and isinstance(value, str)
        if not texts or not name or "=" in name or "\0" in name + value:
            raise ArgumentError(f"environment must be a table of variables and their texts; got {environment!r}")
