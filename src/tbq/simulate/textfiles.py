"""Numbers into text and out of it: input templates and output files."""

from __future__ import annotations

import csv
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
    text = path.read_bytes().decode(errors="replace")
    if pattern is not None:
        numbers = [_number(m[1], path, text.count("\n", 0, m.start(1)) + 1) for m in re.finditer(pattern, text, re.M)]
    elif path.suffix == ".json":
        try:
            numbers = list(flatten(json.loads(text)))
        except ValueError as error:
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
    return [float(value)]


def read_csv(path: Path, column: str | None = None) -> list[Any]:
    """A column by its name in the header; without a name all numbers: a list where there is one column, else rows."""
    if not path.is_file():
        raise ArgumentError(f"there is no file {str(path)!r}")
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [(i, [cell.strip() for cell in row]) for i, row in enumerate(csv.reader(file), 1) if any(row)]
    rows = [(i, row) for i, row in rows if not row[0].startswith("#")]
    header = rows.pop(0)[1] if rows and not _all_numbers(rows[0][1]) else []
    if not rows:
        raise ArgumentError(f"{path.name} has no numbers")
    if column is not None:
        if column not in header:
            raise ArgumentError(f"{path.name} has no column {column!r}; its header is {', '.join(header) or 'missing'}")
        at = header.index(column)
        return [_cell(row[at] if at < len(row) else "", path, i) for i, row in rows]
    table = [[_cell(cell, path, i) for cell in row] for i, row in rows]
    if len({len(row) for row in table}) > 1:
        raise ArgumentError(f"{path.name} has rows of different lengths")
    return [row[0] for row in table] if len(table[0]) == 1 else table


def _all_numbers(row: Sequence[str]) -> bool:
    try:
        return all(np.isfinite(float(cell)) for cell in row)
    except ValueError:
        return False


def _cell(text: str, path: Path, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"{path.name}, line {line}: {text!r} is not a number") from None
