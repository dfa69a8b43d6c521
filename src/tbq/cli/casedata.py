"""The ``[data]`` table of a case file: what was measured, and what is known of its noise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PlainValidator, ValidationInfo, model_validator

from tbq.cli.casefields import Level, Numbers, Observed, Table, Words, absolute, known_or_prior
from tbq.problem.noise import Discrepancy, Exponential, SquaredExponential
from tbq.simulate.textfiles import read_words

_RANGE = re.compile(r"\s*(\d*)\s*:\s*(\d*)\s*")
_OF_GROUP = ("noise", "relative", "freedom", "correlation", "discrepancy")


def _which(value: Any) -> Any:
    """Data by their numbers from 0, or a range such as "0:21", which ends before its second number."""
    if isinstance(value, str) and _RANGE.fullmatch(value):
        return value
    if isinstance(value, list) and value and all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        return value
    raise ValueError(f"must be a range such as '0:21', or a list of the numbers of data, from 0; got {value!r}")


class CorrelationTable(Table):
    """Residuals correlated along the coordinates; see :class:`tbq.Exponential`."""

    kind: Literal["exponential", "squared_exponential"] = "exponential"
    length: Level
    white: float = Field(default=0.01, gt=0, lt=1)

    def build(self) -> Exponential | SquaredExponential:
        length = known_or_prior(self.length)
        return Exponential(length) if self.kind == "exponential" else SquaredExponential(length, self.white)


class DiscrepancyTable(Table):
    """See :class:`tbq.Discrepancy`."""

    amplitude: Level
    length: Level

    def build(self) -> Discrepancy:
        return Discrepancy(known_or_prior(self.amplitude), known_or_prior(self.length))


class GroupTable(Table):
    """Data that have a noise of their own; what it does not say is that of all."""

    data: Annotated[Any, PlainValidator(_which)]
    noise: Level = None
    relative: Level = None
    freedom: Level = None
    correlation: CorrelationTable | None = None
    discrepancy: DiscrepancyTable | None = None

    @property
    def members(self) -> Any:
        if not isinstance(self.data, str):
            return self.data
        first, last = _RANGE.fullmatch(self.data).groups()  # type: ignore[union-attr]
        return slice(int(first) if first else None, int(last) if last else None)


class DataTable(Table):
    """What was measured, and the noise: standard deviation, one per measurement, covariance, or a prior.

    ``scale`` names the parameter that multiplies all standard deviations; the model is not given it.
    """

    observed: Observed
    noise: Level = None
    scale: str | None = None
    normalized: bool = True
    names: Words = None
    units: Words = None
    coordinates: Numbers = None
    relative: Level = None
    freedom: Level = None
    correlation: CorrelationTable | None = None
    discrepancy: DiscrepancyTable | None = None
    groups: dict[str, GroupTable] | None = None
    index: list[int] | None = None

    @model_validator(mode="before")
    @classmethod
    def _named_in_the_file(cls, value: Any, info: ValidationInfo) -> Any:
        """A file of measurements that has columns called name and unit says what they are called."""
        observed = value.get("observed") if isinstance(value, dict) else None
        if not isinstance(observed, dict) or not isinstance(observed.get("file"), str):
            return value
        path = Path(absolute(observed["file"], info))
        by_column = "column" in observed or "columns" in observed
        for key, column in (("names", "name"), ("units", "unit")):
            if key not in value and by_column and read_words(path, column, missing=True):
                value = {**value, key: {"file": observed["file"], "column": column}}
        return value

    @model_validator(mode="after")
    def _has_noise(self) -> DataTable:
        if self.noise is None and not (self.groups and all(g.noise is not None for g in self.groups.values())):
            raise ValueError("noise is missing; give it here, or in all of data.groups")
        return self

    @property
    def labels(self) -> dict[str, Any]:
        """What the outputs are called, as :class:`tbq.GaussianLikelihood` takes it."""
        return {"names": self.names, "units": self.units, "coordinates": self.coordinates}

    @property
    def of_noise(self) -> dict[str, Any]:
        """What is known of the noise, as :class:`tbq.GaussianLikelihood` takes it."""
        found: dict[str, Any] = {"index": self.index}
        if self.groups is None:
            return {**found, **{name: _built(getattr(self, name)) for name in _OF_GROUP}}
        found["groups"] = {name: group.members for name, group in self.groups.items()}
        for part in _OF_GROUP:
            common, own = _built(getattr(self, part)), {n: _built(getattr(g, part)) for n, g in self.groups.items()}
            if all(value is None for value in own.values()):
                found[part] = common
            else:
                each = {n: common if value is None else value for n, value in own.items()}
                found[part] = {n: value for n, value in each.items() if value is not None}
        return found

    @property
    def in_words(self) -> str:
        """What is known of the noise, for people."""
        arguments = self.of_noise
        words = [_level_in_words(arguments["noise"])]
        words += [f"times {self.scale}"] if self.scale else []
        return ", ".join([*words, *(n for n in _OF_GROUP[1:] if arguments[n] is not None)])


def _built(value: Any) -> Any:
    return value.build() if isinstance(value, CorrelationTable | DiscrepancyTable) else known_or_prior(value)


def _level_in_words(noise: Any) -> str:
    if isinstance(noise, dict):
        return ", ".join(f"{name}: {_level_in_words(value)}" for name, value in noise.items())
    if hasattr(noise, "dist"):
        return "unknown"
    words = ("standard deviation", "standard deviations", "covariance")[np.ndim(noise)]
    return f"{words} {noise:g}" if np.ndim(noise) == 0 else f"{words} given"
