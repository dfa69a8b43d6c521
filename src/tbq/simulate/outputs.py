"""Named outputs of a program: how each is read, which of its numbers count, and what to say when they do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tbq.common.errors import ArgumentError, OutputError
from tbq.common.types import Array
from tbq.simulate.readers import Found, Reader

_SHOWN = 6  # numbers in a message


@dataclass(frozen=True)
class Output:
    """Numbers that a run leaves behind.

    Parameters
    ----------
    name
        What they are called, in messages, tables and pictures; may be empty where there are no others.
    reader
        How they are read: one of :mod:`tbq.readers`.
    take
        Which of the numbers that were read count: one or several, counted from 1, or from −1 backwards; None is all.
    count
        How many there must be; None is any.
    coordinates
        Times or positions of a history at which it is wanted; between its own, ``against``, it is interpolated.
    against
        How the times or positions of a history are read, as many as it has numbers.
    """

    name: str
    reader: Reader
    take: int | Sequence[int] | None = None
    count: int | None = None
    coordinates: Sequence[float] | None = None
    against: Reader | None = None

    def __post_init__(self) -> None:
        if any(isinstance(i, bool) or not isinstance(i, int) or i == 0 for i in self._taken or [1]):
            raise ArgumentError(f"{self.name}: take must be counted from 1, or from -1 backwards; got {self.take!r}")
        if self.count is not None and self.take is not None and len(self._taken or ()) != self.count:
            raise ArgumentError(f"{self.name}: take names {len(self._taken or ())} numbers; {self.count} were observed")
        if self.against is not None and not len(() if self.coordinates is None else self.coordinates):
            raise ArgumentError(f"{self.name}: against needs coordinates, at which the history is wanted")

    @property
    def _taken(self) -> list[int] | None:
        if self.take is None:
            return None
        return list(self.take) if isinstance(self.take, Sequence) else [self.take]

    @property
    def _called(self) -> str:
        return f"outputs.{self.name}: " if self.name else ""

    def read(self, directory: Path) -> Array:
        """The numbers of a run; what does not fit is said with what was read, and where."""
        try:
            found = self.reader.read(directory)
            if self.against is not None:
                found = self._interpolated(found, self.against.read(directory))
            found = self._some(found)
        except OutputError as error:
            raise OutputError(f"{self._called}{error}") from error
        if self.count is not None and len(found.values) != self.count:
            raise OutputError(
                f"{self._called}{self.count} {'number was' if self.count == 1 else 'numbers were'} expected, as "
                f"many as were observed; {len(found.values)} came: {_shown(found)}"
            )
        return found.values

    def _some(self, found: Found) -> Found:
        if self._taken is None:
            return found
        n = len(found.values)
        if outside := [i for i in self._taken if abs(i) > n]:
            raise OutputError(f"number {outside[0]} was asked for; {n} came: {_shown(found)}")
        at = [i - 1 if i > 0 else n + i for i in self._taken]
        return Found(found.values[at], [found.places[i] for i in at])

    def _interpolated(self, found: Found, own: Found) -> Found:
        """The history at the coordinates that are wanted."""
        at, wanted = own.values, np.asarray(self.coordinates, dtype=float)
        if len(at) != len(found.values) or not len(at):
            raise OutputError(
                f"the history has {len(found.values)} numbers and {len(at)} coordinates: {_shown(found)}; {_shown(own)}"
            )
        if backwards := [i for i in range(1, len(at)) if not at[i] > at[i - 1]]:
            i = backwards[0]
            raise OutputError(
                f"coordinates must grow; {at[i]:g} ({own.places[i]}) comes after {at[i - 1]:g} ({own.places[i - 1]})"
            )
        if wanted.min() < at[0] or wanted.max() > at[-1]:
            raise OutputError(
                f"the history is from {at[0]:g} to {at[-1]:g}, and wanted from {wanted.min():g} to {wanted.max():g}"
            )
        return Found(np.interp(wanted, at, found.values), [f"at {w:g}" for w in wanted])


def _shown(found: Found) -> str:
    n = len(found.values)
    pairs = [
        f"{found.values[i]:g} ({found.places[i]})" for i in range(n) if n <= _SHOWN or i in (*range(_SHOWN - 1), n - 1)
    ]
    return ", ".join(pairs if n <= _SHOWN else [*pairs[:-1], "...", pairs[-1]]) or "nothing"
