"""The ``[[outputs]]`` of a case file: what each is called, how it is read, what was measured of it, and the noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PlainValidator, model_validator
from scipy import linalg

from tbq.cli.casefields import Numbers, PathHere, Table, import_function
from tbq.common.errors import ArgumentError
from tbq.simulate import readers
from tbq.simulate.calculix import Calculix, Quantity
from tbq.simulate.outputs import Output

_WAYS = ("pattern", "column", "row", "key", "dataset", "python", "calculix")
_OF_WAY = {  # the ways that a key belongs to
    "whole": ("pattern",),
    "after": ("column", "row"),
    **dict.fromkeys(("set", "nodes", "component", "time", "mode"), ("calculix",)),
    "against": ("pattern", "column", "key", "dataset"),
}


def _column(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"must be the name of a column, or its number; got {value!r}")
    return value


def _take(value: Any) -> Any:
    for number in value if isinstance(value, list) and value else [value]:
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"must be a whole number, or a list of them; got {value!r}")
    return value


Column = Annotated[Any, PlainValidator(_column)]


class OutputTable(Table):
    """See :class:`tbq.readers.Output` and the readers beside it."""

    name: str = Field(min_length=1)
    file: str | None = None
    pattern: str | None = None
    whole: bool | None = None
    column: Column = None
    row: int | None = None
    after: str | None = None
    key: str | None = None
    dataset: str | None = None
    python: str | None = None
    path: PathHere = Field(default=".", validate_default=True)  # folder to import from
    calculix: Quantity | None = None
    set: str | None = None
    nodes: list[int] | None = None
    component: Literal["x", "y", "z"] | None = None
    time: float | None = None
    mode: int | None = None
    take: Annotated[Any, PlainValidator(_take)] = None
    against: Column = None
    coordinates: Numbers = None
    observed: Numbers = None
    noise: Numbers = None
    unit: str | None = None

    @model_validator(mode="after")
    def _one_way(self) -> OutputTable:
        ways = self._ways
        if len(ways) > 1 and ways != ["column", "row"]:
            raise ValueError(f"is read in one way; got {' and '.join(ways)}")
        if (ways or self.take is not None) and ways != ["python"] and self.file is None:
            raise ValueError("file is missing: that of the run's directory in which it is")
        for key, of in _OF_WAY.items():
            given = key in self.model_fields_set and getattr(self, key) is not None
            if given and not set(of) & set(ways):
                raise ValueError(f"{key} belongs to {' or '.join(of)}; got {' and '.join(ways) or 'neither'}")
        if (self.observed is None) != (self.noise is None):
            raise ValueError("observed and noise belong together; give both, or neither")
        self._check_sizes()
        if not self.python and self.is_read:
            try:
                self.output()
            except ArgumentError as error:
                raise ValueError(str(error)) from error
        return self

    @property
    def _ways(self) -> list[str]:
        return [way for way in _WAYS if getattr(self, way) is not None]

    @property
    def is_read(self) -> bool:
        """Whether it says how, as it must for a program; other models return their outputs themselves."""
        return self.file is not None or self.python is not None

    @property
    def size(self) -> int | None:
        """How many numbers were measured of it."""
        return None if self.observed is None else np.size(self.observed)

    def _check_sizes(self) -> None:
        if self.observed is None:
            return
        if np.ndim(self.observed) > 1:
            raise ValueError("observed must be a number or a list of them; got a matrix")
        for key in ("noise", "coordinates"):
            value = getattr(self, key)
            if value is not None and np.ndim(value) and len(value) != self.size:
                raise ValueError(f"{key} has {len(value)} rows, and observed {self.size} numbers")

    def output(self) -> Output:
        """How it is read."""
        against = None if self.against is None else self._reader(self.against)
        at = None if self.coordinates is None else list(np.atleast_1d(self.coordinates))
        return Output(self.name, self._reader(), self.take, self.size, at, against)

    def _reader(self, other: Any = None) -> readers.Reader:
        """That of the numbers, or of the coordinates that stand beside them."""
        file = self.file or ""
        match self._ways[:1]:
            case ["python"]:
                return readers.Function(import_function(self.python or "", self.path))
            case ["calculix"]:
                assert self.calculix is not None
                chosen = (self.component, self.set, self.nodes, self.time, self.mode)
                reader: readers.Reader = Calculix(file, self.calculix, *chosen)
            case ["pattern"]:
                reader = readers.Pattern(file, other or self.pattern or "", bool(self.whole))
            case ["key"]:
                reader = readers.Json(file, other or self.key or "")
            case ["dataset"]:
                reader = readers.Dataset(file, other or self.dataset or "")
            case ["column" | "row"]:
                reader = readers.Table(file, other or self.column, self.row, self.after)
            case _:
                reader = readers.Numbers(file)
        return reader


# --- all of them --------------------------------------------------------------------------------------------


def data_of(outputs: Sequence[OutputTable]) -> dict[str, Any]:
    """What was measured of all outputs together, the noise, and what each number is called."""
    noises = [_noise(output) for output in outputs]
    matrix = any(noise.ndim == 2 for noise in noises)
    blocks = [noise if noise.ndim == 2 else np.diag(noise**2) for noise in noises]
    places = [output.coordinates for output in outputs]
    return {
        "observed": [float(v) for output in outputs for v in np.atleast_1d(output.observed)],
        "noise": linalg.block_diag(*blocks).tolist() if matrix else [float(v) for noise in noises for v in noise],
        "names": [name for output in outputs for name in _names(output)],
        "units": [output.unit or "" for output in outputs for _ in range(output.size or 0)],
        "coordinates": None
        if any(place is None for place in places)
        else [float(v) for place in places for v in np.atleast_1d(place)],
    }


def _noise(output: OutputTable) -> Any:
    noise = np.asarray(output.noise, dtype=float)
    return np.full(output.size or 0, noise) if noise.ndim == 0 else noise


def _names(output: OutputTable) -> list[str]:
    if output.size == 1:
        return [output.name]
    if output.coordinates is not None and len(set(output.coordinates)) == output.size:
        return [f"{output.name} at {place:g}" for place in output.coordinates]
    return [f"{output.name} {i}" for i in range(1, (output.size or 0) + 1)]


def check_outputs(outputs: Sequence[OutputTable], program: bool) -> None:
    """Refuse outputs that do not go together, or with the model."""
    names = [output.name for output in outputs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"outputs: two are called {twice[0]!r}")
    if len({output.observed is None for output in outputs}) > 1:
        missing = next(output.name for output in outputs if output.observed is None)
        raise ValueError(f"outputs.{missing}: observed and noise are missing; the others have them")
    for output in outputs:
        if program and not output.is_read:
            raise ValueError(f"outputs.{output.name}: file is missing: that of the run's directory in which it is")
        if not program and output.is_read:
            raise ValueError(f"outputs.{output.name}: the model returns its outputs itself; nothing is read from files")
