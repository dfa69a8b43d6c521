"""Numbers out of text: output files of programs and tables of measurements."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tbq.common.errors import ArgumentError, OutputError

_FORTRAN_EXPONENT = re.compile(r"(?<=[\d.])[dD](?=[+-]?\d)")
_NO_LETTER = re.compile(r"([+-]?\d*\.\d*)([+-]\d{3})")  # an exponent of three digits takes the place of the letter
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eEdD][+-]?\d+)?")
_MOST = 256 * 2**20  # bytes of a file that are read: a table of short numbers takes up to fifty times as much memory


def read_text(path: Path) -> str:
    """The text of an output file, whatever its encoding; an error says what there is where it is missing."""
    check_there(path)
    check_room(path.stat().st_size, path)
    return path.read_bytes().decode("utf-8-sig", errors="replace")


def check_room(size: int, path: Path) -> None:
    """Refuse so many bytes as would take the memory of other runs."""
    if size > _MOST:
        raise OutputError(
            f"{path.name} has {size >> 20} MiB, and at most {_MOST >> 20} are read; let the program write less, or a "
            "Python function read it"
        )


def check_there(path: Path) -> None:
    if not os.path.isfile(path):  # which a name that is too long does not make raise
        there = sorted(p.name for p in path.parent.iterdir()) if os.path.isdir(path.parent) else []
        raise OutputError(f"the output file {path.name} is missing; the directory has {', '.join(there) or 'nothing'}")


def to_number(word: str, path: Path, line: int) -> float:
    """A number as programs write it, Fortran's exponents too."""
    try:
        if "_" in word or not word.isascii():  # which Python takes for numbers, and programs do not write
            raise ValueError
        if bare := _NO_LETTER.fullmatch(word):
            return float(f"{bare[1]}e{bare[2]}")
        return float(_FORTRAN_EXPONENT.sub("e", word))
    except ValueError as error:
        raise OutputError(f"{path.name}, line {line}: {word[:40]!r} is not a number") from error


def words_of(text: str, path: Path) -> list[tuple[str, int]]:
    """What stands between blanks, commas or semicolons, with its line; ``#`` starts a comment."""
    words: list[tuple[str, int]] = []
    for i, whole in enumerate(text.splitlines(), 1):
        line = whole.partition("#")[0]
        cells = re.split(r"[\s;]+", line.strip())
        if len(cells) > 1 and (comma := next(filter(_DECIMAL_COMMA.fullmatch, cells), None)):
            raise OutputError(
                f"{path.name}, line {i}: {comma[:40]!r} may be one number or two; write decimal points, and separate "
                "all numbers alike"
            )
        words += [(word, i) for word in re.split(r"[\s,;]+", line) if word]
    return words


def flatten(value: Any) -> list[float]:
    """The numbers of nested lists and objects in their order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in flatten(item)]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{json.dumps(value)[:40]} is not a number")
    try:
        return [float(value)]
    except OverflowError:
        raise ValueError(f"{str(value)[:40]}... is too large for a float") from None


# --- tables of measurements ---------------------------------------------------------------------------------

Cell = tuple[int, str]  # the line it stands in, and what stands there

_GAPS = ("", "nan", "na")  # what stands in a cell where nothing was measured
_NUMBER = re.compile(r"[+-]?((\d+[.,]?\d*|[.,]\d+)([eEdD][+-]?\d+)?|nan|inf|infinity)", re.ASCII | re.IGNORECASE)


def read_csv(path: Path, column: str | None = None, *, gaps: bool = False) -> list[Any]:
    """A column by its name in the header; without a name all numbers: a list where there is one column, else rows.

    Where there may be ``gaps``, a cell that is empty or says nan or NA is nan. Cells are separated by semicolons, tabs
    or commas, and numbers may have decimal commas where cells are not separated by them. What could be read in two ways
    is refused with its line.
    """
    header, rows, separator = _table(path, column)
    if column is None:
        width = len(rows[0])
        numbers = _values([cell for row in rows for cell in row], separator, path, gaps)
        return numbers if width == 1 else [numbers[i : i + width] for i in range(0, len(numbers), width)]
    return _values(_column(header, rows, column, path), separator, path, gaps)


def read_words(path: Path, column: str, *, missing: bool = False) -> list[str]:
    """The texts of a column by its name in the header; none where it is ``missing``, if it may be."""
    if missing and not os.path.isfile(path):
        return []  # which is said where it is needed
    header, rows, _ = _table(path, column)
    if missing and column not in [name for _, name in header]:
        return []
    return [word for _, word in _column(header, rows, column, path)]


def _table(path: Path, column: str | None) -> tuple[list[Cell], list[list[Cell]], str]:
    """Header, rows of one width, and what separates their cells."""
    if not os.path.isfile(path):
        raise ArgumentError(f"there is no file {str(path)!r}")
    text = decoded(path.read_bytes(), path.name)
    separator = _separator(text)
    rows = _rows(text, separator, path)
    header = _header(rows, separator, column, path)
    if rows and not header:
        _check_commas(text, path)
    if not rows:
        raise ArgumentError(f"{path.name} has no numbers")
    width = len(header or rows[0])
    for row in rows:
        if len(row) != width:
            raise ArgumentError(_wrong_width(row, width, header, separator, path))
    return header, rows, separator


def _column(header: list[Cell], rows: list[list[Cell]], column: str, path: Path) -> list[Cell]:
    names = [name for _, name in header]
    if names.count(column) != 1:
        count = f"{names.count(column)} columns called" if column in names else "no column"
        raise ArgumentError(f"{path.name} has {count} {column!r}; its header is {', '.join(names) or 'missing'}")
    return [row[names.index(column)] for row in rows]


def decoded(data: bytes, name: str) -> str:
    """Text of an encoding that some programs put before it as a sign, or of UTF-8."""
    encoding = "utf-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ArgumentError(f"{name}, line {line}: this is not UTF-8; save the file as UTF-8 text") from None


def _separator(text: str) -> str:
    """The first of semicolon, tab and comma that the first line has; where it has none, that any line has."""
    lines = [line for line in io.StringIO(text) if line.strip() and not line.lstrip().startswith("#")]
    places = [re.sub(r'"[^"]*"', "", part) for part in (*lines[:1], text)]
    return next((mark for part in places for mark in ";\t," if mark in part), ",")


def _rows(text: str, separator: str, path: Path) -> list[list[Cell]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows = []
    try:
        for cells in reader:
            words = [cell.strip() for cell in cells]
            if any(words) and not words[0].startswith("#"):
                rows.append([(reader.line_num, word) for word in words])
    except csv.Error as error:
        raise ArgumentError(f"{path.name}, line {reader.line_num}: {error}") from None
    width = min((len(row) for row in rows), default=0)
    if {word for row in rows for _, word in row[width:]} == {""}:  # a separator at the end of some lines
        rows = [row[:width] for row in rows]
    if width > 1 and all(row[width - 1 :] == [(row[0][0], "")] for row in rows):  # or of all
        rows = [row[:-1] for row in rows]
    return rows


def _check_commas(text: str, path: Path) -> None:
    """Refuse a table without a header that may as well be one column of decimal commas."""
    lines = [(i, line.strip()) for i, line in enumerate(text.splitlines(), 1)]
    lines = [(i, line) for i, line in lines if line and not line.startswith("#")]
    if all(_DECIMAL_COMMA.fullmatch(line) for _, line in lines):
        raise ArgumentError(
            f"{path.name}, line {lines[0][0]}: {lines[0][1][:40]!r} may be one number or two; name the columns in a "
            "first line, or write a blank between the two"
        )


def _header(rows: list[list[Cell]], separator: str, column: str | None, path: Path) -> list[Cell]:
    """The first row, taken from the others, where it holds names."""
    words = [word for _, word in rows[0]] if rows else []
    named = [word for word in words if not _is_number(word, separator)]
    if not named:
        return []
    if len(named) < len(words) and column not in words:
        raise ArgumentError(f"{path.name}, line {rows[0][0][0]}: is this a header? It has {named[0]!r} beside numbers")
    return rows.pop(0)


def _wrong_width(row: list[Cell], width: int, header: list[Cell], separator: str, path: Path) -> str:
    other = "the header" if header else "the first row"
    seen = f"{path.name}, line {row[0][0]}: it has {len(row)} cells, and {other} {width}"
    decimal = separator == "," and len(row) > width
    return f"{seen}; for decimal commas, separate cells by semicolons" if decimal else seen


def _is_number(word: str, separator: str) -> bool:
    return _NUMBER.fullmatch(word) is not None and ("," not in word or separator != ",")


def _values(cells: Sequence[Cell], separator: str, path: Path, gaps: bool = False) -> list[float]:
    if gaps:
        cells = [(line, "nan" if word.lower() in _GAPS else word) for line, word in cells]
    for line, word in cells:
        if gaps and word == "nan":
            continue
        if not _is_number(word, separator):
            raise ArgumentError(f"{path.name}, line {line}: {word[:40]!r} is not a number")
    with_comma = next((cell for cell in cells if "," in cell[1]), None)
    with_point = next((cell for cell in cells if "." in cell[1]), None)
    if with_comma and with_point:
        raise ArgumentError(
            f"{path.name}: {with_comma[1]!r} in line {with_comma[0]} has a comma, {with_point[1]!r} in line "
            f"{with_point[0]} a point; write all numbers with the same"
        )
    return [float(_FORTRAN_EXPONENT.sub("e", word.replace(",", "."))) for _, word in cells]
