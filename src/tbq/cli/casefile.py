"""The case file: parameters and priors, model, data and settings of a run, as TOML.

:func:`load` checks everything that can be checked without running the model and makes the case independent of where it
lies: paths are absolute, data are read in. What is wrong is said with the path of the key and, where one is near, the
key that was meant.
"""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_origin, get_type_hints

import numpy as np
import tomli_w
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
)

from tbq.cli import distributions
from tbq.common.arguments import real
from tbq.common.errors import ArgumentError
from tbq.common.types import Array
from tbq.common.words import described
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.options import EngineOptions, Option, options_of
from tbq.problem.prior import Prior
from tbq.problem.settings import Settings, resolve
from tbq.run.options import RunOptions
from tbq.run.outage import check_limits
from tbq.simulate.command import CommandModel
from tbq.simulate.textfiles import read_csv
from tbq.simulate.umbridge import UmBridgeModel

Simulator = Callable[[Array], Any]
_KINDS = ("python", "command", "url")
_NOT_IN_FILES = {"journal", "executor", "vectorized", "progress"}


# --- the schema ---------------------------------------------------------------------------------------------


def _absolute(path: str, info: ValidationInfo) -> str:
    assert info.context is not None
    return str(Path(info.context["folder"], Path(path).expanduser()).resolve())


def _program(command: list[str], info: ValidationInfo) -> list[str]:
    """A program with a slash in its name lies relative to the case file; others are on the PATH."""
    if command and "/" in command[0]:
        return [_absolute(command[0], info), *command[1:]]
    return command


def _numbers(value: Any, info: ValidationInfo) -> Any:
    """A number, a list, a matrix, or ``{file = "...", column = "..."}``."""
    if isinstance(value, dict):
        for key in value:
            if key not in ("file", "column"):
                raise ValueError(f"{key!r} is not a key{_nearest(key, ['file', 'column'])}")
        if not all(isinstance(v, str) for v in value.values()) or "file" not in value:
            raise ValueError(f"must have a file, and a column of it if it has several; got {value!r}")
        return read_csv(Path(_absolute(value["file"], info)), value.get("column"))
    if isinstance(value, list):
        if len({len(row) if isinstance(row, list) else -1 for row in value}) > 1:
            raise ValueError("must have rows of one length")
        return [_numbers(v, info) for v in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"must be numbers, or a table such as {{file = 'measured.csv'}}; got {value!r}")
    return real(value)


def _limits(value: Any) -> tuple[float, float]:
    try:
        return check_limits(value)
    except ArgumentError as error:
        raise ValueError(str(error).removeprefix("outage_after ")) from error


def _marginal(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"must be a table such as {{distribution = 'uniform', low = 0, high = 1}}; got {value!r}")
    distributions.marginal(value)
    return value


PathHere = Annotated[str, AfterValidator(_absolute)]
Numbers = Annotated[Any, PlainValidator(_numbers)]
Returns = Literal["outputs", "log_likelihood"]


class Table(BaseModel):
    """A table of the case file, which refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


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
    timeout: float | None = Field(default=None, gt=0)
    keep: bool = False
    transient: list[int] = []
    returns: Returns = "outputs"

    def build(self, names: tuple[str, ...], work: Path | None, timeout: float | None) -> CommandModel:
        arguments = self.model_dump(exclude={"returns", "timeout"})
        return CommandModel(names, **arguments, folder=work, timeout=self.timeout or timeout)


class UmBridgeTable(Table):
    """See :class:`tbq.adapters.UmBridgeModel`."""

    url: str
    name: str
    config: dict[str, Any] = {}
    timeout: float | None = Field(default=None, gt=0)
    retries: int = Field(default=2, ge=0)
    returns: Returns = "outputs"

    def build(self, names: tuple[str, ...], work: Path | None, timeout: float | None) -> UmBridgeModel:
        return UmBridgeModel(self.url, self.name, self.config, self.timeout or timeout, self.retries)


class DataTable(Table):
    """What was measured, and the noise: standard deviation, one per measurement, or covariance.

    ``scale`` names the parameter that multiplies all standard deviations; the model is not given it.
    """

    observed: Numbers
    noise: Numbers
    scale: str | None = None
    normalized: bool = True


def _in_file(name: str, hint: Any, option: Option) -> tuple[Any, Any]:
    """An option as a key of the ``[run]`` table: its type there, and its default with what it must not be below."""
    if name == "tolerance":
        return Numbers, option.default
    if name == "warm_start":
        return PathHere | None, option.default
    if name == "outage_after":
        return Annotated[Any, PlainValidator(_limits)], option.default
    words = str if get_origin(hint) is Literal or name == "acquisition" else hint  # which words there are is said later
    return words, Field(default=option.default, ge=option.least, gt=option.above)


def _run_keys() -> dict[str, Any]:
    """The options of :func:`tbq.infer` that a file can hold: the others are functions, or the command line's own."""
    hints, options = get_type_hints(RunOptions), options_of(RunOptions)
    return {n: _in_file(n, hints[n], o) for n, o in options.items() if n not in _NOT_IN_FILES}


# The options of :func:`tbq.infer`, and ``workers``: how many runs at a time.
if TYPE_CHECKING:
    RunTable = Any  # made of their definition, which a type checker does not see
else:
    RunTable = create_model("RunTable", __base__=Table, workers=(int, Field(default=1, ge=1)), **_run_keys())


def _kind(model: Any) -> str | None:
    """Which model a table is for, or was; None unless it has one of the three keys."""
    kinds = [k for k in _KINDS if (k in model if isinstance(model, Mapping) else hasattr(model, k))]
    return kinds[0] if len(kinds) == 1 else None


class Case(Table):
    """A whole case."""

    title: str = ""
    correlation: Numbers = None
    parameters: dict[str, Annotated[dict[str, Any], BeforeValidator(_marginal)]]
    model: Annotated[
        Annotated[PythonTable, Tag("python")]
        | Annotated[CommandTable, Tag("command")]
        | Annotated[UmBridgeTable, Tag("url")],
        Discriminator(_kind),
    ]
    data: DataTable | None = None
    run: RunTable = Field(default_factory=RunTable)

    @model_validator(mode="after")
    def _data_or_log_likelihood(self) -> Case:
        if self.data is None and self.model.returns == "outputs":
            raise ValueError("data is missing; or say model.returns = 'log_likelihood' if that is what it returns")
        if self.data is not None and self.model.returns == "log_likelihood":
            raise ValueError("data has no use where model.returns = 'log_likelihood'; leave one of them out")
        if self.data is not None and self.data.scale is not None and self.data.scale not in self.parameters:
            near = _nearest(self.data.scale, list(self.parameters))
            raise ValueError(f"data.scale must name a parameter; got {self.data.scale!r}{near}")
        return self

    def prior(self) -> Prior:
        marginals = {name: distributions.marginal(description) for name, description in self.parameters.items()}
        units = {name: description["unit"] for name, description in self.parameters.items() if "unit" in description}
        with _named("parameters: ", "Prior: "):
            prior = Prior(marginals, units=units)
        with _named("", "Prior: "):
            return prior if self.correlation is None else Prior(marginals, correlation=self.correlation, units=units)

    def simulator(self, work: Path | None = None) -> Simulator:
        """The model as a function of all parameters. Commands run in directories under ``work``."""
        noise = self.data.scale if self.data else None
        names = tuple(name for name in self.parameters if name != noise)
        with _named("model."):
            model = self.model.build(names, work, self.run.timeout)
        return model if noise is None else Without(model, list(self.parameters).index(noise))

    def log_likelihood(self, simulator: Simulator) -> Simulator:
        """The simulator's outputs against the data; or the simulator, where it returns the log-likelihood itself."""
        if self.data is None:
            return simulator
        scale = None if self.data.scale is None else itemgetter(list(self.parameters).index(self.data.scale))
        with _named("data.", "GaussianLikelihood: "):
            return GaussianLikelihood(
                simulator, self.data.observed, self.data.noise, scale=scale, normalized=self.data.normalized
            )

    def settings(self, surrogate: str | None = None) -> Settings:
        """The run's settings, with those left to us chosen; or those of another surrogate."""
        chosen = self.run.model_dump(include=set(options_of(EngineOptions)))
        chosen["surrogate"] = surrogate or chosen["surrogate"]
        with _named("run."):
            return resolve(len(self.parameters), outputs=self.data is not None, **chosen)

    def arguments(self) -> dict[str, Any]:
        """What :func:`tbq.infer` is to be called with."""
        arguments = self.run.model_dump(exclude={"workers"})
        in_python = isinstance(self.model, PythonTable)
        if not in_python:  # they end their own runs, and need no process for it
            arguments["timeout"] = None
        if self.run.workers > 1:
            pool = ProcessPoolExecutor if in_python else ThreadPoolExecutor
            arguments["executor"] = partial(pool, self.run.workers)
            arguments["batch_size"] = max(self.run.batch_size, self.run.workers)
        return arguments

    def resolved(self, seed: int) -> Case:
        """This case with every choice made, so that the same run can be made again."""
        settings = self.settings()
        chosen = ("n_initial", "population", "chain_length", "max_evaluations")
        numbers = {key: getattr(settings, key) for key in chosen}
        asked = self.settings("log_likelihood").tolerance  # of which outputs are asked for a part
        update = {**numbers, "tolerance": list(asked), "seed": seed}
        return self.model_copy(update={"run": self.run.model_copy(update=update)})

    def to_toml(self) -> str:
        return tomli_w.dumps(_without_none(self.model_dump()))


_TABLES: dict[tuple[str, ...], type[Table]] = {
    (): Case,
    ("model", "python"): PythonTable,
    ("model", "command"): CommandTable,
    ("model", "url"): UmBridgeTable,
    ("data",): DataTable,
    ("run",): RunTable,
}


@dataclass(frozen=True)
class Without:
    """A model that is not given one of the parameters."""

    model: Simulator
    index: int

    def __call__(self, theta: Array) -> Any:
        return self.model(np.delete(theta, self.index, axis=-1))


# --- loading ------------------------------------------------------------------------------------------------


class CaseError(ArgumentError):
    """The case file is wrong; the message has a line for each problem, with the path of its key."""


def load(path: str | Path) -> Case:
    """Read and check a case file. The model is not run."""
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CaseError(f"the file cannot be read: {error.strerror}") from error
    except ValueError as error:  # of the syntax or the encoding
        raise CaseError(f"this is not TOML: {error}") from error
    try:
        case = Case.model_validate(content, context={"folder": path.parent})
    except ValidationError as error:
        raise CaseError("\n".join(_explain(e) for e in error.errors())) from None
    case.prior()
    case.settings()
    return case


def import_function(reference: str, folder: str) -> Simulator:
    """The function behind ``module:function``; modules in ``folder`` come first."""
    module_name, _, name = reference.partition(":")
    if not module_name or not name.isidentifier():
        raise ArgumentError(f"python must be 'module:function'; got {reference!r}")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module_name:
            raise ArgumentError(
                f"python: there is no module {module_name!r} in {folder} or on Python's path"
            ) from error
        raise ArgumentError(f"python: importing {module_name!r} failed with {described(error)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        near = distributions.suggestion(name, [n for n in vars(module) if callable(getattr(module, n))])
        raise ArgumentError(f"python: {module.__file__} has no function {name!r}{near}")
    return cast(Simulator, function)


@contextmanager
def _named(table: str, strip: str = "") -> Iterator[None]:
    """Put the table's name before what is wrong with one of its keys."""
    try:
        yield
    except ArgumentError as error:
        raise CaseError(f"{table}{str(error).removeprefix(strip)}") from error


def _nearest(key: str, known: Sequence[str]) -> str:
    return distributions.suggestion(key, known) or f"; there are {', '.join(known)}"


def _explain(error: Any) -> str:
    """One problem in one line, by the path of its key."""
    *table, key = error["loc"] or ("",)
    place = [*table[:1], *table[2:], key] if table[:1] == ["model"] else [*table, key]  # without the kind of model
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).removeprefix(".")
    match error["type"]:
        case "missing":
            return f"{path} is missing"
        case "extra_forbidden":
            return f"{path} is not a key{_nearest(key, list(_TABLES[tuple(table)].model_fields))}"
        case "union_tag_not_found":
            return f"{path} must have one of the keys {', '.join(_KINDS)}{_nearest_kind(error['input'])}"
        case "model_type" | "dict_type":
            return f"{path} must be a table; got {error['input']!r}"
        case "value_error":
            return f"{path}{': ' if path else ''}{error['ctx']['error']}"
    return f"{path} {error['msg'].replace('Input should', 'must')}; got {error['input']!r}"


def _nearest_kind(model: Any) -> str:
    given = [str(k) for k in model] if isinstance(model, Mapping) else []
    kinds = [k for k in given if k in _KINDS]
    if kinds:
        return f"; got {' and '.join(kinds)}"
    near = next((s for k in given if (s := distributions.suggestion(k, _KINDS))), "")
    return f"; got {', '.join(given) or 'none'}{near}"


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return value
