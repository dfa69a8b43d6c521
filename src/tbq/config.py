"""The case file: parameters and priors, model, data and settings of a run, as TOML.

:func:`load` checks everything that can be checked without running the model and makes the case independent of where it
lies: paths are absolute, data are read in. What is wrong is said with the path of the key and, where one is near, the
key that was meant.
"""

from __future__ import annotations

import csv
import importlib
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, PlainValidator, Tag
from pydantic import ValidationError, ValidationInfo, model_validator

from tbq import families
from tbq.adapters import CommandModel, UmBridgeModel
from tbq.errors import ArgumentError
from tbq.prior import Prior
from tbq.types import Array

Simulator = Callable[[Array], Any]
_KINDS = ("python", "command", "url")


# --- the schema ---------------------------------------------------------------------------------------------


def _absolute(path: str, info: ValidationInfo) -> str:
    return str(Path(info.context["folder"], Path(path).expanduser()).resolve())


def _program(command: list[str], info: ValidationInfo) -> list[str]:
    """A program with a slash in its name lies relative to the case file; others are on the PATH."""
    if command and "/" in command[0]:
        return [_absolute(command[0], info), *command[1:]]
    return command


def _numbers(value: Any, info: ValidationInfo) -> Any:
    """A number, a list, a matrix, or ``{file = "...", column = "..."}``."""
    if isinstance(value, dict):
        if unknown := _unknown(value, ["file", "column"]):
            raise ValueError(unknown)
        if "file" not in value:
            raise ValueError("file is missing")
        return read_csv(Path(_absolute(value["file"], info)), value.get("column"))
    if isinstance(value, list):
        return [_numbers(v, info) for v in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"must be numbers, or a table such as {{file = 'measured.csv'}}; got {value!r}")
    return float(value)


def _marginal(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"must be a table such as {{distribution = 'uniform', low = 0, high = 1}}; got {value!r}")
    families.marginal(value)
    return value


PathHere = Annotated[str, AfterValidator(_absolute)]
Numbers = Annotated[Any, PlainValidator(_numbers)]
Returns = Literal["outputs", "log_likelihood"]


class Table(BaseModel):
    """A table of the case file, which refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if isinstance(value, dict) and (unknown := _unknown(value, list(cls.model_fields))):
            raise ValueError(unknown)
        return value


class PythonTable(Table):
    """A Python function ``module:function`` of theta."""

    python: str
    path: PathHere = Field(default=".", validate_default=True)  # folder to import from
    returns: Returns = "outputs"

    def build(self, names: tuple[str, ...], work: Path | None, timeout: float | None) -> Simulator:
        return import_function(self.python, self.path)


class CommandTable(Table):
    """See :class:`tbq.adapters.CommandModel`."""

    command: Annotated[list[str], AfterValidator(_program)]
    output: str
    pattern: str | None = None
    template: PathHere | None = None
    files: list[PathHere] = []
    timeout: float | None = None
    keep: bool = False
    returns: Returns = "outputs"

    def build(self, names: tuple[str, ...], work: Path | None, timeout: float | None) -> CommandModel:
        arguments = self.model_dump(exclude={"returns", "timeout"})
        return CommandModel(names, **arguments, folder=work, timeout=self.timeout or timeout)


class UmBridgeTable(Table):
    """See :class:`tbq.adapters.UmBridgeModel`."""

    url: str
    name: str
    config: dict[str, Any] = {}
    timeout: float | None = None
    retries: int = 2
    returns: Returns = "outputs"

    def build(self, names: tuple[str, ...], work: Path | None, timeout: float | None) -> UmBridgeModel:
        return UmBridgeModel(self.url, self.name, self.config, self.timeout or timeout, self.retries)


class DataTable(Table):
    """What was measured, and the noise: standard deviation, one per measurement, or covariance."""

    observed: Numbers
    noise: Numbers


class RunTable(Table):
    """The arguments of :func:`tbq.infer`, and ``workers``: how many runs at a time."""

    algorithm: str = "tbq"
    acquisition: str = "peur"
    search: str = "auto"
    kernel: str = "auto"
    tolerance: Numbers = 0.04
    temper_cov: float = 0.75
    n_initial: int | None = None
    population: int | None = None
    chain_length: int | None = None
    max_evaluations: int | None = None
    batch_size: int = 1
    seed: int | None = None
    workers: int = Field(default=1, ge=1)


def _kind(value: Any) -> str | None:
    kinds = [k for k in _KINDS if isinstance(value, Mapping) and k in value]
    return kinds[0] if len(kinds) == 1 else None


class Case(Table):
    """A whole case."""

    title: str = ""
    parameters: dict[str, Annotated[dict[str, Any], BeforeValidator(_marginal)]]
    correlation: Numbers = None
    model: Annotated[
        Annotated[PythonTable, Tag("python")]
        | Annotated[CommandTable, Tag("command")]
        | Annotated[UmBridgeTable, Tag("url")],
        Discriminator(_kind),
    ]
    data: DataTable | None = None
    run: RunTable = RunTable()
