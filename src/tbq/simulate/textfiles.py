"""Numbers into text and out of it: input templates and output files."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tbq.common.errors import ArgumentError, OutputError
from tbq.common.types import Array

_FORTRAN_EXPONENT = re.compile(r"(?<=[\d.])[dD](?=[+-]?\d)")


def fill(text: str, values: Mapping[str, float]) -> str:
    """Put values in the place of ``{name}`` or ``{name:format}``; all other braces stay."""

    def value(match: re.Match[str]) -> str:
        number = values[match[1]]
        try:
            return format(number, match[2]) if match[2] else repr(number)
        except ValueError as error:
            raise ArgumentError(f"{match[0]} is not a number format; write {{{match[1]}:.6e}}, say") from error

    return place(list(values)).sub(value, text)


def place(names: Sequence[str]) -> re.Pattern[str]:
    return re.compile(r"\{(" + "|".join(re.escape(n) for n in names) + r")(?::([^{}]*))?\}")


def read_numbers(path: Path, pattern: str | None = None) -> Array:
    """All numbers of a file in order; an :class:`tbq.common.errors.OutputError` names the line that is none."""
    if not path.is_file():
        there = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
        raise OutputError(f"the output file {path.name} is missing; the directory has {', '.join(there) or 'nothing'}")
    text = path.read_bytes().decode("utf-8-sig", errors="replace")
    if pattern is not None:
        numbers = [_number(m[1], path, text.count("\n", 0, m.start(1)) + 1) for m in re.finditer(pattern, text, re.M)]
    elif path.suffix == ".json":
        try:
            numbers = list(flatten(json.loads(text)))
        except (ValueError, RecursionError) as error:
            raise OutputError(f"{path.name} cannot be read as JSON numbers: {error}") from error
    else:
        lines = [(i, line.partition("#")[0]) for i, line in enumerate(text.splitlines(), 1)]
        numbers = [_number(word, path, i) for i, line in lines for word in re.split(r"[\s,;]+", line) if word]
    if not numbers:
        raise OutputError(f"{path.name} has no numbers" + ("" if pattern is None else f" that match {pattern!r}"))
    return np.array(numbers)


def _number(word: str, path: Path, line: int) -> float:
    try:
        return float(_FORTRAN_EXPONENT.sub("e", word))
    except ValueError as error:
        raise OutputError(f"{path.name}, line {line}: {word[:40]!r} is not a number") from error


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

_NUMBER = re.compile(r"[+-]?((\d+[.,]?\d*|[.,]\d+)([eEdD][+-]?\d+)?|nan|inf|infinity)", re.ASCII | re.IGNORECASE)


def read_csv(path: Path, column: str | None = None) -> list[Any]:
    """A column by its name in the header; without a name all numbers: a list where there is one column, else rows.

    Cells are separated by semicolons, tabs or commas, and numbers may have decimal commas where cells are not separated
    by them. What could be read in two ways is refused with its line.
    """
    if not path.is_file():
        raise ArgumentError(f"there is no file {str(path)!r}")
    text = _text(path)
    separator = _separator(text)
    rows = _rows(text, separator, path)
    header = _header(rows, separator, column, path)
    if not rows:
        raise ArgumentError(f"{path.name} has no numbers")
    width = len(header or rows[0])
    for row in rows:
        if len(row) != width:
            raise ArgumentError(_wrong_width(row, width, header, separator, path))
    if column is None:
        numbers = _values([cell for row in rows for cell in row], separator, path)
        return numbers if width == 1 else [numbers[i : i + width] for i in range(0, len(numbers), width)]
    names = [name for _, name in header]
    if names.count(column) != 1:
        count = f"{names.count(column)} columns called" if column in names else "no column"
        raise ArgumentError(f"{path.name} has {count} {column!r}; its header is {', '.join(names) or 'missing'}")
    at = names.index(column)
    return _values([row[at] for row in rows], separator, path)


def _text(path: Path) -> str:
    """With the mark that some programs put before the text as a sign of its encoding, or UTF-8."""
    data = path.read_bytes()
    encoding = "utf-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ArgumentError(f"{path.name}, line {line}: this is not UTF-8; save the file as UTF-8 text") from None


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


def _values(cells: Sequence[Cell], separator: str, path: Path) -> list[float]:
    for line, word in cells:
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
