"""Numbers out of what a program leaves in its directory: ways to find them in text, JSON and arrays.

A reader is asked for the numbers of a directory and says where each was found, so that a mismatch can be shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, overload

import numpy as np

from tbq.common.arguments import floats
from tbq.common.errors import ArgumentError, MissingDependencyError, OutputError, Transient
from tbq.common.types import Array
from tbq.common.words import described, one_line
from tbq.simulate.textfiles import check_room, check_there, flatten, read_text, to_number, words_of

_SHOWN = 8  # names in a message
_STARS = re.compile(r"\*+")  # what Fortran writes for a number that is longer than its field


class Found(NamedTuple):
    """Numbers, and where each stands."""

    values: Array
    places: Sequence[str]


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
        return _of_words(words_of(text, path), path, f"{path.name} has no numbers")


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
        column, names = self.column, None
        if isinstance(column, str):
            lines, names = self._below_header(lines, path)
            column = names.index(column) + 1
        rows = self._rows(lines, column, names, path)
        if self.row is not None:
            rows = [_counted(rows, self.row, f"{path.name} has {len(rows)} rows of numbers, and row")]
        cells = [
            (cells, line) if column is None else ([_cell(cells, column, line, path)], line) for cells, line in rows
        ]
        return _of_words([(word, line) for row, line in cells for word in row], path, f"{path.name} has no such table")

    def _below_header(self, lines: list[tuple[int, str]], path: Path) -> tuple[list[tuple[int, str]], list[str]]:
        for at, (number, line) in enumerate(lines):
            names = _split(line.lstrip(" #%*"))
            if names.count(str(self.column)) > 1:
                raise OutputError(
                    f"{path.name}, line {number}: two columns are called {self.column!r}; give its number"
                )
            if self.column in names:
                return lines[at + 1 :], names
        raise OutputError(f"{path.name} has no header with a column {self.column!r}")

    def _rows(
        self, lines: list[tuple[int, str]], column: int | None, names: list[str] | None, path: Path
    ) -> list[tuple[list[str], int]]:
        """Lines of numbers; of a header or a text before, only those of the first block."""
        rows: list[tuple[list[str], int]] = []
        for number, line in lines:
            cells = _split(line.partition("#")[0])
            if names is not None and "," in line and not {";", "\t"} & set(line) and len(cells) != len(names):
                cells = line.split()  # commas that the header does not have are of decimals
            wanted = cells if column is None or names is None else cells[column - 1 : column]
            if wanted and all(_is_number(cell) for cell in wanted):
                rows.append((cells, number))
            elif (lost := next(filter(_STARS.fullmatch, wanted), None)) and (
                any(map(_is_number, cells)) or (rows and len(cells) == len(rows[-1][0]))
            ):
                raise OutputError(f"{path.name}, line {number}: {lost[:40]!r} is not a number: it had no room")
            elif rows and (self.after is not None or names is not None):
                break
        if not rows:
            below = f" below {self.after!r}" if self.after else ""
            first = next((f"; line {i} is {one_line(line, 60)!r}" for i, line in lines if line.strip()), "")
            raise OutputError(f"{path.name} has no line of numbers{below}{first}")
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
                shown = f"a list of {len(value)}" if isinstance(value, list) else str(value)
                if isinstance(value, dict):
                    shown = ", ".join([*value][:_SHOWN])
                raise OutputError(
                    f"{path.name} has no {step!r} in {passed or 'it'}; there is {one_line(shown)}"
                ) from None
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
            raise OutputError(
                f"{path.name} cannot be read as an array of numbers: {one_line(described(error))}"
            ) from error
        return Found(array, _Places(self.dataset or path.name, len(array)))


@dataclass(frozen=True)
class Function:
    """What a Python function of the run's directory returns: a number, or an array of them."""

    function: Callable[[Path], Any]

    def read(self, directory: Path) -> Found:
        name = getattr(self.function, "__name__", "the function")
        try:
            value = self.function(directory)
        except (OutputError, Transient):
            raise
        except Exception as error:
            raise OutputError(f"{name} failed with {one_line(described(error))}") from error
        try:
            values = floats(value).ravel()
        except Exception as error:
            raise OutputError(f"{name} returned {type(value).__name__}, not numbers") from error
        return Found(values, _Places(name, len(values)))


class _Places(Sequence[str]):
    """Of the numbers of an array, of which there may be millions: ``u[0]``, ``u[1]``, ..."""

    def __init__(self, name: str, n: int) -> None:
        self._name, self._at = name, range(n)

    def __len__(self) -> int:
        return len(self._at)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        return [f"{self._name}[{k}]" for k in self._at[i]] if isinstance(i, slice) else f"{self._name}[{self._at[i]}]"


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
    parts = list(re.finditer(r"(?:^|\.)([^.\[\]]+)|\[(\d{1,15})\]", key))
    if "".join(part[0] for part in parts) != key:
        return []
    return [part[1] if part[1] is not None else int(part[2]) for part in parts]


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
    if path.suffix == ".npy":
        check_room(path.stat().st_size, path)
        with path.open("rb") as opened:
            return np.load(opened, allow_pickle=False)
    if path.suffix == ".npz":
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as loaded:
            name = _one_of(name, [*loaded], path)
            check_room(loaded.zip.getinfo(name if name in loaded.zip.namelist() else f"{name}.npy").file_size, path)
            return loaded[name]
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError(f"{path.name}: HDF5 files need h5py: pip install h5py") from error
    with h5py.File(path) as file:
        dataset = file.get(name) if name else None  # wherever links lead
        if not isinstance(dataset, h5py.Dataset):
            dataset = file[_one_of(name, list(_names(file)), path)]
        check_room((dataset.size or 0) * dataset.dtype.itemsize, path)
        return dataset[()]


def _names(group: Any) -> Iterator[str]:
    found: list[str] = []
    group.visititems(lambda name, item: found.append(name) if hasattr(item, "shape") else None)
    yield from found


def _one_of(name: str, names: list[str], path: Path) -> str:
    if name.strip("/") in names or name in names:
        return name
    if not name and len(names) == 1:
        return names[0]
    there = one_line(", ".join(names[:_SHOWN])) or "none"
    raise OutputError(f"{path.name} has no dataset {name!r}; there is {there}")
