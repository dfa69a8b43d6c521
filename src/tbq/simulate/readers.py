"""Numbers out of what a program leaves in its directory: ways to find them in text, JSON and arrays.

A reader is asked for the numbers of a directory and says where each was found, so that a mismatch can be shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from tbq.common.arguments import floats
from tbq.common.errors import ArgumentError, MissingDependencyError, OutputError
from tbq.common.types import Array
from tbq.common.words import described
from tbq.simulate.textfiles import check_there, flatten, read_text, to_number

_SHOWN = 8  # names in a message


class Found(NamedTuple):
    """Numbers, and where each stands."""

    values: Array
    places: list[str]


class Reader(Protocol):
    """How to get numbers out of the directory of a run."""

    def read(self, directory: Path) -> Found: ...


def inside(key: str, file: Any) -> None:
    """Refuse a file that is not one of the run's directory."""
    if not isinstance(file, str) or not file or Path(file).is_absolute() or ".." in Path(file).parts:
        raise ArgumentError(f"{key} must be a file inside the run's directory; got {file!r}")


def pattern_with_group(pattern: str) -> None:
    """Refuse what is no regular expression with one group."""
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ArgumentError(f"pattern is not a regular expression: {error}; got {pattern!r}") from error
    if groups != 1:
        raise ArgumentError(f"pattern must have one group (...) around the number; got {groups} in {pattern!r}")


@dataclass(frozen=True)
class Numbers:
    """All numbers of a file: between blanks, commas or semicolons (``#`` starts a comment), or of a JSON file."""

    file: str

    def __post_init__(self) -> None:
        inside("file", self.file)

    def read(self, directory: Path) -> Found:
        path = directory / self.file
        text = read_text(path)
        if path.suffix == ".json":
            return _flat(_json(text, path), path, "")
        lines = [(i, line.partition("#")[0]) for i, line in enumerate(text.splitlines(), 1)]
        words = [(word, i) for i, line in lines for word in re.split(r"[\s,;]+", line) if word]
        return _of_words(words, path, f"{path.name} has no numbers")


@dataclass(frozen=True)
class Pattern:
    """Every match of a regular expression with one group, in order.

    ``^`` and ``$`` are the ends of lines, and ``.`` stays within one; with ``whole`` the file is one text.
    """

    file: str
    pattern: str
    whole: bool = False

    def __post_init__(self) -> None:
        inside("file", self.file)
        pattern_with_group(self.pattern)

    def read(self, directory: Path) -> Found:
        path = directory / self.file
        text = read_text(path)
        words, line, seen = [], 1, 0
        for match in re.finditer(self.pattern, text, re.S if self.whole else re.M):
            at = match.start(1) if match.start(1) >= 0 else match.start()
            line, seen = line + text.count("\n", seen, at), at
            words.append((match[1] or "", line))
        return _of_words(words, path, f"{path.name} has no numbers that match {self.pattern!r}")


@dataclass(frozen=True)
class Table:
    """Numbers of a table in a text file.

    Parameters
    ----------
    file
        Cells of a line are separated by semicolons, tabs or commas where it has such, else by blanks.
    column
        The name of a column in a header, below which its numbers stand; or the number of a column, counted from 1, of
        −1 for the last. None is all of them.
    row
        The number of a row, counted likewise; None is all of them.
    after
        Text of a line below which the table is; without it the first header with the name counts, or all lines that
        are nothing but numbers.
    """

    file: str
    column: str | int | None = None
    row: int | None = None
    after: str | None = None

    def __post_init__(self) -> None:
        inside("file", self.file)
        for key in ("column", "row"):
            value = getattr(self, key)
            if isinstance(value, int) and (isinstance(value, bool) or value == 0):
                raise ArgumentError(f"{key} is counted from 1, or from -1 backwards; got {value!r}")

    def read(self, directory: Path) -> Found:
        path = directory / self.file
        lines = list(enumerate(read_text(path).splitlines(), 1))
        if self.after is not None:
            start = next((i for i, line in lines if self.after in line), None)
            if start is None:
                raise OutputError(f"{path.name} has no line with {self.after!r}")
            lines = lines[start:]
        column = self.column
        if isinstance(column, str):
            lines, column = self._below_header(lines, path)
        rows = self._rows(lines, column, path)
        if self.row is not None:
            rows = [_counted(rows, self.row, f"{path.name} has {len(rows)} rows of numbers, and row")]
        cells = [
            (cells, line) if column is None else ([_cell(cells, column, line, path)], line) for cells, line in rows
        ]
        return _of_words([(word, line) for row, line in cells for word in row], path, f"{path.name} has no such table")

    def _below_header(self, lines: list[tuple[int, str]], path: Path) -> tuple[list[tuple[int, str]], int]:
        for at, (_, line) in enumerate(lines):
            names = _split(line.lstrip(" #%*"))
            if self.column in names:
                return lines[at + 1 :], names.index(self.column) + 1
        raise OutputError(f"{path.name} has no header with a column {self.column!r}")

    def _rows(self, lines: list[tuple[int, str]], column: int | None, path: Path) -> list[tuple[list[str], int]]:
        """Lines of numbers; of a header or a text before, only those of the first block."""
        one_block = self.after is not None or isinstance(self.column, str)
        rows: list[tuple[list[str], int]] = []
        for number, line in lines:
            cells = _split(line.partition("#")[0])
            wanted = cells if column is None or not isinstance(self.column, str) else cells[column - 1 : column]
            if wanted and all(_is_number(cell) for cell in wanted):
                rows.append((cells, number))
            elif rows and one_block:
                break
        if not rows:
            raise OutputError(f"{path.name} has no line of numbers" + (f" below {self.after!r}" if self.after else ""))
        return rows


@dataclass(frozen=True)
class Json:
    """What a JSON file has at a key such as ``results.modes[0].frequency``: a number, or all below it in order."""

    file: str
    key: str

    def __post_init__(self) -> None:
        inside("file", self.file)
        if not _steps(self.key):
            raise ArgumentError(f"key must be names and [numbers], such as 'modes[0].frequency'; got {self.key!r}")

    def read(self, directory: Path) -> Found:
        path = directory / self.file
        value = _json(read_text(path), path)
        passed = ""
        for step in _steps(self.key):
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                there = (
                    list(value) if isinstance(value, dict) else f"a list of {len(value)}" if _is_list(value) else value
                )
                shown = ", ".join(map(str, there[:_SHOWN])) if isinstance(there, list) else there
                raise OutputError(f"{path.name} has no {step!r} in {passed or 'it'}; there is {shown}") from None
            passed += f"[{step!r}]"
        return _flat(value, path, self.key)


@dataclass(frozen=True)
class Dataset:
    """An array of an HDF5 file (h5py) or of NumPy's ``.npz`` and ``.npy``, in the order of its rows."""

    file: str
    dataset: str = ""

    def __post_init__(self) -> None:
        inside("file", self.file)

    def read(self, directory: Path) -> Found:
        path = directory / self.file
        check_there(path)
        try:
            array = floats(_array(path, self.dataset)).ravel()
        except (OutputError, MissingDependencyError):
            raise
        except Exception as error:
            raise OutputError(f"{path.name} cannot be read as an array of numbers: {described(error)}") from error
        return Found(array, [f"{self.dataset or path.name}[{i}]" for i in range(len(array))])


@dataclass(frozen=True)
class Function:
    """What a Python function of the run's directory returns: a number, or an array of them."""

    function: Callable[[Path], Any]

    def read(self, directory: Path) -> Found:
        name = getattr(self.function, "__name__", "the function")
        try:
            value = self.function(directory)
        except OutputError:
            raise
        except Exception as error:
            raise OutputError(f"{name} failed with {described(error)}") from error
        try:
            values = floats(value).ravel()
        except Exception as error:
            raise OutputError(f"{name} returned {type(value).__name__}, not numbers") from error
        return Found(values, [f"{name}[{i}]" for i in range(len(values))])


# --- parts --------------------------------------------------------------------------------------------------


def _of_words(words: list[tuple[str, int]], path: Path, otherwise: str) -> Found:
    if not words:
        raise OutputError(otherwise)
    return Found(np.array([to_number(word, path, i) for word, i in words]), [f"line {i}" for _, i in words])


def _split(line: str) -> list[str]:
    mark = next((m for m in ";\t," if m in line), None)
    return [cell.strip() for cell in line.split(mark)] if mark else line.split()


def _is_number(word: str) -> bool:
    try:
        to_number(word, Path(), 0)
    except OutputError:
        return False
    return True


def _cell(cells: list[str], column: int, line: int, path: Path) -> str:
    return _counted(cells, column, f"{path.name}, line {line}: it has {len(cells)} columns, and column")


def _counted(items: list[Any], number: int, message: str) -> Any:
    """The item of a number that is counted from 1, or from −1 backwards."""
    if not 1 <= abs(number) <= len(items):
        raise OutputError(f"{message} {number} was asked for")
    return items[number - 1 if number > 0 else number]


def _steps(key: str) -> list[str | int]:
    """Names and numbers of a path into JSON; none where it is not one."""
    parts = list(re.finditer(r"(?:^|\.)([^.\[\]]+)|\[(\d+)\]", key))
    if "".join(part[0] for part in parts) != key:
        return []
    return [part[1] if part[1] is not None else int(part[2]) for part in parts]


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _json(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OutputError(f"{path.name} cannot be read as JSON numbers: {error}") from error


def _flat(value: Any, path: Path, key: str) -> Found:
    try:
        numbers = flatten(value)
    except (ValueError, RecursionError) as error:
        raise OutputError(f"{path.name} cannot be read as JSON numbers: {error}") from error
    if not numbers:
        raise OutputError(f"{path.name} has no numbers" + (f" at {key!r}" if key else ""))
    return Found(np.array(numbers), [f"{key or 'number'} {i}" for i in range(1, len(numbers) + 1)])


def _array(path: Path, name: str) -> Any:
    if path.suffix in (".npy", ".npz"):
        with path.open("rb") as opened:
            loaded = np.load(opened, allow_pickle=False)
            return loaded if path.suffix == ".npy" else loaded[_one_of(name, list(loaded), path)]
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError(f"{path.name}: HDF5 files need h5py: pip install h5py") from error
    with h5py.File(path) as file:
        return file[_one_of(name, list(_names(file)), path)][()]


def _names(group: Any) -> Iterator[str]:
    found: list[str] = []
    group.visititems(lambda name, item: found.append(name) if hasattr(item, "shape") else None)
    yield from found


def _one_of(name: str, names: list[str], path: Path) -> str:
    if name.strip("/") in names or name in names:
        return name
    if not name and len(names) == 1:
        return names[0]
    raise OutputError(f"{path.name} has no dataset {name!r}; there is {', '.join(names[:_SHOWN]) or 'none'}")
