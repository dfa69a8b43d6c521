"""Results of CalculiX: what ``*NODE PRINT`` leaves in a ``.dat`` file, and ``*NODE FILE`` in an ``.frd`` file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from tbq.common.errors import ArgumentError, OutputError
from tbq.simulate.readers import Found, inside
from tbq.simulate.textfiles import read_text, to_number

Quantity = Literal["frequencies", "displacements", "reactions", "total reactions"]
QUANTITIES: tuple[Quantity, ...] = ("frequencies", "displacements", "reactions", "total reactions")

_DAT = {"displacements": "displacements", "forces": "reactions", "total force": "total reactions"}
_FRD = {"DISP": "displacements", "FORC": "reactions"}
_HEADER = re.compile(r"\s*([a-z ]+?) \(([^)]*)\) for set (\S+) and time\s+(\S+)")
_MODE = re.compile(r"\s*E I G E N V A L U E    N U M B E R\s+(\d+)")
_TITLE = re.compile(r"[A-Z] [A-Z] [A-Z]")
_COMPONENTS = 3  # of displacements and forces
_MODAL = 2  # the type of a result in an .frd file that is a mode of vibration
_SAME = 1e-5  # relative difference of two times that a file writes with seven digits


@dataclass
class _Block:
    """A table of results: of one quantity at one time."""

    quantity: str
    line: int
    set: str = ""
    time: float = 0.0
    mode: int | None = None  # of vibration, where it is one
    rows: list[tuple[int | None, list[float], int]] = field(default_factory=list)  # node, components, line

    def __str__(self) -> str:
        where = f" of {self.set}" if self.set else ""
        return f"{self.quantity}{where} at " + (f"time {self.time:g}" if self.mode is None else f"mode {self.mode}")


@dataclass(frozen=True)
class Calculix:
    """Natural frequencies in cycles per time, displacements or reactions of CalculiX, in the order of the file.

    Parameters
    ----------
    file
        ``.dat`` (of ``*NODE PRINT``) or ``.frd`` (of ``*NODE FILE``, as text).
    quantity
        ``"frequencies"``, ``"displacements"``, ``"reactions"`` or ``"total reactions"`` (``.dat``, ``TOTALS=YES``).
    component
        ``"x"``, ``"y"`` or ``"z"``; needed but for frequencies.
    set
        Node set, as ``*NODE PRINT`` names it; None is any.
    nodes
        Numbers of nodes, in the order wanted; None is all.
    time
        Total time of the results; None is every one.
    mode
        Number of the mode whose shape is wanted; None is results that are not modes.
    """

    file: str
    quantity: Quantity
    component: Literal["x", "y", "z"] | None = None
    set: str | None = None
    nodes: Sequence[int] | None = None
    time: float | None = None
    mode: int | None = None

    def __post_init__(self) -> None:
        inside("file", self.file)
        if not self.file.endswith((".dat", ".frd")):
            raise ArgumentError(f"file must be a .dat or .frd file of CalculiX; got {self.file!r}")
        if self.quantity not in QUANTITIES:
            raise ArgumentError(f"calculix must be one of {', '.join(QUANTITIES)}; got {self.quantity!r}")
        if (self.component is None) != (self.quantity == "frequencies") or self.component not in ("x", "y", "z", None):
            raise ArgumentError(f"component must be x, y or z, and is not for frequencies; got {self.component!r}")

    def read(self, directory: Path) -> Found:
        path = directory / self.file
        text = read_text(path)
        lines = text.splitlines()
        if self.quantity == "frequencies":
            return _frequencies(lines, path)
        blocks = list(_dat_blocks(lines, path) if path.suffix == ".dat" else _frd_blocks(lines, path))
        chosen = [block for block in blocks if self._is_wanted(block)]
        if not chosen:
            there = ", ".join(dict.fromkeys(map(str, blocks))) or "nothing"
            raise OutputError(f"{path.name} has no such {self.quantity}; there are {there}")
        at = "xyz".index(self.component or "x")
        found = [(row[1][at], row[2]) for block in chosen for row in self._rows(block, path)]
        return Found(np.array([value for value, _ in found]), [f"line {line}" for _, line in found])

    def _is_wanted(self, block: _Block) -> bool:
        same_set = self.set is None or block.set.upper() == self.set.upper()
        same_time = self.time is None or abs(block.time - self.time) <= _SAME * max(abs(self.time), abs(block.time))
        return block.quantity == self.quantity and same_set and same_time and block.mode == self.mode

    def _rows(self, block: _Block, path: Path) -> list[tuple[int | None, list[float], int]]:
        for _, values, line in block.rows:
            if len(values) != _COMPONENTS:  # as where a file was cut off
                raise OutputError(
                    f"{path.name}, line {line}: {_COMPONENTS} numbers were expected; it has {len(values)}"
                )
        if self.nodes is None:
            return block.rows
        by_node = {row[0]: row for row in block.rows}
        if missing := [node for node in self.nodes if node not in by_node]:
            raise OutputError(f"{path.name}, line {block.line}: {block} have no node {missing[0]}")
        return [by_node[node] for node in self.nodes]


def _frequencies(lines: list[str], path: Path) -> Found:
    """Of the table of eigenvalues, or of the headers of the modes."""
    found: list[tuple[float, int]] = []
    if path.suffix == ".frd":
        headers = [block for block in _frd_blocks(lines, path) if block.mode is not None]
        found = list({block.mode: (block.time, block.line) for block in headers}.values())
    else:
        start = next((i for i, line in enumerate(lines) if "E I G E N V A L U E   O U T P U T" in line), len(lines))
        for number, line in enumerate(lines[start + 1 :], start + 2):
            cells = line.split()
            if len(cells) == 5 and cells[0].isdigit():  # mode, eigenvalue, rad/time, cycles/time, imaginary part
                found.append((to_number(cells[3], path, number), number))
            elif found:
                break
    if not found:
        raise OutputError(f"{path.name} has no frequencies; is there a *FREQUENCY step?")
    return Found(np.array([value for value, _ in found]), [f"line {line}" for _, line in found])


def _whole(word: str, path: Path, line: int) -> int:
    try:
        return int(word)
    except ValueError:
        raise OutputError(f"{path.name}, line {line}: {word[:40]!r} is not a whole number") from None


def _dat_blocks(lines: list[str], path: Path) -> Iterator[_Block]:
    """Tables of nodes. That of a step after the modes looks like one of the last mode, but comes twice, or is new."""
    block, mode = None, None
    printed: dict[int, list[tuple[str, str]]] = {}  # quantity and set, of each mode
    for number, line in enumerate(lines, 1):
        if match := _HEADER.match(line):
            if block is not None:
                yield block
            quantity = _DAT.get(match[1].strip(), match[1].strip())
            if mode is not None and _is_of_mode(what := (quantity, match[3]), mode, printed):
                printed[mode].append(what)
            else:
                mode = None
            block = _Block(quantity, number, match[3], to_number(match[4], path, number), mode)
        elif _TITLE.search(line):  # of another table
            if block is not None:
                yield block
            block = None
            if match := _MODE.match(line):
                mode = int(match[1])
                printed[mode] = []
        elif block is not None and block.quantity in QUANTITIES and (cells := line.split()):
            node = None if block.quantity == "total reactions" else _whole(cells[0], path, number)
            values = cells if node is None else cells[1:]
            block.rows.append((node, [to_number(cell, path, number) for cell in values], number))
    if block is not None:
        yield block


def _is_of_mode(what: tuple[str, str], mode: int, printed: dict[int, list[tuple[str, str]]]) -> bool:
    """Every mode prints the same, once."""
    first = min(printed)
    return what not in printed[mode] and (mode == first or what in printed[first])


def _frd_blocks(lines: list[str], path: Path) -> Iterator[_Block]:
    """Records have fixed columns: 12 to 24 the time or frequency, 57 and 58 the type, then the step."""
    header, mode, block = None, None, None
    for number, line in enumerate(lines, 1):
        if line.startswith("    1PMODE"):
            mode = _whole(line.split()[-1], path, number)
        elif line.startswith("  100C"):
            kind = line[56:58].strip()
            header = (to_number(line[12:24], path, number), mode if kind == str(_MODAL) else None)
        elif line.startswith(" -4") and header is not None:
            name = line[5:13].strip()
            block = _Block(_FRD.get(name, name), number, "", *header)
        elif line.startswith(" -1") and block is not None and block.quantity in QUANTITIES:
            values = [line[i : i + 12] for i in range(13, len(line.rstrip()), 12)]
            block.rows.append((_whole(line[3:13], path, number), [to_number(v, path, number) for v in values], number))
        elif line.startswith(" -3") and block is not None:
            yield block
            block, header = None, None
