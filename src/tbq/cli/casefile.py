"""The case file: parameters and priors, model, data and settings of a run, as TOML.

:func:`load` checks everything that can be checked without running the model and makes the case independent of where it
lies: paths are absolute, data are read in. What is wrong is said with the path of the key and, where one is near, the
key that was meant.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_origin, get_type_hints

import numpy as np
import tomli_w
from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationError,
    create_model,
    model_validator,
)

from tbq.cli import distributions
from tbq.cli.casedata import CorrelationTable, DataTable, DiscrepancyTable, GroupTable
from tbq.cli.casefields import (
    Earlier,
    Numbers,
    Simulator,
    Table,
    limits,
    marginal,
    nearest,
)
from tbq.cli.casemodels import KINDS, CommandTable, Model, PythonTable, UmBridgeTable, nearest_kind
from tbq.cli.caseoutputs import OutputTable, check_outputs, data_of
from tbq.common.errors import ArgumentError
from tbq.common.types import Array
from tbq.problem.evaluation import Level
from tbq.problem.likelihood import GaussianLikelihood, noise_parameters
from tbq.problem.options import EngineOptions, Option, options_of
from tbq.problem.prior import Prior
from tbq.problem.settings import Settings, resolve
from tbq.run.options import RunOptions
from tbq.simulate.command import CommandModel

_NOT_IN_FILES = {"journal", "executor", "vectorized", "progress", "rng"}


# --- the schema ---------------------------------------------------------------------------------------------


def _in_file(name: str, hint: Any, option: Option) -> tuple[Any, Any]:
    """An option as a key of the ``[run]`` table: its type there, and its default with what it must not be below."""
    if name == "tolerance":
        return Numbers, option.default
    if name == "warm_start":
        return Earlier, option.default
    if name == "outage_after":
        return Annotated[Any, PlainValidator(limits)], option.default
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


class Case(Table):
    """A whole case."""

    title: str = ""
    correlation: Numbers = None
    parameters: dict[str, Annotated[dict[str, Any], BeforeValidator(marginal)]]
    model: Model | None = None  # none where runs are made elsewhere, and told
    outputs: list[OutputTable] = Field(default_factory=list)
    data: DataTable | None = None
    run: RunTable = Field(default_factory=RunTable)

    @model_validator(mode="before")
    @classmethod
    def _of_outputs(cls, content: Any) -> Any:
        """Data that the outputs have are empty lists until these are known."""
        outputs = content.get("outputs") if isinstance(content, dict) else None
        data = content.get("data", {}) if isinstance(content, dict) else None
        if not isinstance(data, dict) or not isinstance(outputs, list):
            return content
        measured = any(isinstance(output, dict) and "observed" in output for output in outputs)
        return {**content, "data": {"observed": [], "noise": [], **data}} if measured else content

    @model_validator(mode="after")
    def _with_outputs(self) -> Case:
        """What was measured of the outputs, as data."""
        program = isinstance(self.model, CommandTable)
        check_outputs(self.outputs, program)
        if isinstance(self.model, CommandTable) and (self.model.output is None) == (not self.outputs):
            given = "got both" if self.outputs else "is missing"
            raise ValueError(f"model.output {given}: it says what is read, or [[outputs]] do")
        if not self.outputs or self.outputs[0].observed is None:
            return self
        found = {key: value for key, value in data_of(self.outputs).items() if key in DataTable.model_fields}
        assert self.data is not None  # see _of_outputs
        for key in ("observed", "noise"):
            if str(getattr(self.data, key)) not in ("[]", str(found[key])):  # as words: nan is not equal to nan
                raise ValueError(f"data.{key} is what the outputs have together; leave it out")
        return self.model_copy(update={"data": self.data.model_copy(update=found)})

    @model_validator(mode="after")
    def _data_or_log_likelihood(self) -> Case:
        returns = None if self.model is None else self.model.returns
        below = None if self.model is None else self.model.coarse
        if below is not None and (returns != "outputs" or below.returns != "outputs" or below.coarse is not None):
            raise ValueError(
                "model.coarse must return outputs, as the model itself, and has no coarse model of its own"
            )
        if self.model is not None and self.model.cost is not None:
            raise ValueError("model.cost has no use here; it is that of a coarse run: model.coarse.cost")
        if self.data is None and returns == "outputs":
            raise ValueError("data is missing; or say model.returns = 'log_likelihood' if that is what it returns")
        if self.data is not None and returns == "log_likelihood":
            raise ValueError("data has no use where model.returns = 'log_likelihood'; leave one of them out")
        if self.data is not None and self.data.scale is not None and self.data.scale not in self.parameters:
            near = nearest(self.data.scale, list(self.parameters))
            raise ValueError(f"data.scale must name a parameter; got {self.data.scale!r}{near}")
        return self

    def prior(self) -> Prior:
        marginals = {name: distributions.marginal(description) for name, description in self.parameters.items()}
        units = {name: description["unit"] for name, description in self.parameters.items() if "unit" in description}
        with _named("parameters: ", "Prior: "):
            prior = Prior(marginals, units=units)
        with _named("", "Prior: "):
            return prior if self.correlation is None else Prior(marginals, correlation=self.correlation, units=units)

    @property
    def has_coarse(self) -> bool:
        return self.model is not None and self.model.coarse is not None

    def simulator(self, work: Path | None = None, level: Level = "fine") -> Simulator:
        """The model of a level as a function of all parameters. Commands run in directories under ``work``."""
        noise = self.data.scale if self.data else None
        names = tuple(name for name in self.parameters if name != noise)
        if self.model is None:
            raise CaseError("model is missing; `tbq ask` and `tbq tell` alone do without")
        table = self.model.coarse if level == "coarse" else self.model
        assert table is not None
        place = work / "coarse" if work is not None and level == "coarse" else work
        with _named("model." if level == "fine" else "model.coarse."):
            model: Simulator = table.build(names, place, self.run.timeout)
            if isinstance(table, CommandTable) and table.output is None and isinstance(model, CommandModel):
                model = replace(model, output=[output.output() for output in self.outputs])
        return model if noise is None else Without(model, list(self.parameters).index(noise))

    def log_likelihood(self, simulator: Simulator, coarse: Simulator | None = None) -> Simulator:
        """The simulator's outputs against the data; or the simulator, where it returns the log-likelihood itself."""
        if self.data is None:
            return simulator
        scale = None if self.data.scale is None else itemgetter(list(self.parameters).index(self.data.scale))
        with _named("data.", "GaussianLikelihood: "):
            return GaussianLikelihood(
                simulator,
                self.data.observed,
                scale=scale,
                normalized=self.data.normalized,
                **self.data.labels,
                **self.data.of_noise,
                coarse=coarse,
                cost=self.model.coarse.cost if self.model is not None and self.model.coarse is not None else None,
            )

    def settings(self, surrogate: str | None = None) -> Settings:
        """The run's settings, with those left to us chosen; or those of another surrogate."""
        chosen = self.run.model_dump(include=set(options_of(EngineOptions)))
        chosen["surrogate"] = surrogate or chosen["surrogate"]
        simulators = (np.asarray,) * (2 if self.has_coarse else 1)
        noise = noise_parameters(self.log_likelihood(*simulators))  # which the data have, whatever the simulators
        with _named("run."):
            return resolve(
                len(self.parameters),
                outputs=self.data is not None,
                noise=noise,
                coarse=self.has_coarse,
                **chosen,
            )

    def arguments(self) -> dict[str, Any]:
        """What :func:`tbq.infer` is to be called with."""
        arguments = self.run.model_dump(exclude={"workers"})
        tables = [table for table in (self.model, self.model and self.model.coarse) if table is not None]
        in_python = any(isinstance(table, PythonTable) for table in tables)
        if not in_python:  # they end their own runs, and need no process for it
            arguments["timeout"] = None
        elif self.run.timeout is not None:  # not before what the other level may take
            own = [getattr(table, "timeout", None) or 0.0 for table in tables]
            arguments["timeout"] = max(self.run.timeout, *own)
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
        update = {**numbers, "tolerance": self._tolerance(), "seed": seed}
        return self.model_copy(update={"run": self.run.model_copy(update=update)})

    def steered(
        self, *, max_evaluations: int | None = None, tolerance: float | None = None, workers: int | None = None
    ) -> Case:
        """This case with another budget, tolerance or number of workers, to go on with; None leaves one as it is."""
        changed = {"max_evaluations": max_evaluations, "tolerance": tolerance, "workers": workers}
        update = {name: value for name, value in changed.items() if value is not None}
        case = self.model_copy(update={"run": self.run.model_copy(update=update)})
        return case.model_copy(update={"run": case.run.model_copy(update={"tolerance": case._tolerance()})})

    def _tolerance(self) -> float | list[float]:
        """One number or a pair, as it was asked for: of log-likelihoods, since of outputs a part of it is used."""
        between, final = self.settings("log_likelihood").tolerance  # which also refuses what cannot be
        return [between, final] if math.isfinite(between) else final

    def to_toml(self) -> str:
        return tomli_w.dumps(_without_none(self.model_dump()))


_TABLES: dict[tuple[str, ...], type[Table]] = {
    (): Case,
    ("model", "python"): PythonTable,
    ("model", "command"): CommandTable,
    ("model", "url"): UmBridgeTable,
    ("outputs",): OutputTable,
    ("data",): DataTable,
    ("data", "groups", ""): GroupTable,
    ("run",): RunTable,
}


def _table_at(path: list[Any]) -> type[Table]:
    """The table that lies at a path of keys and places in lists."""
    path = [key for key in path if isinstance(key, str)]
    if path[2:3] == ["coarse"]:
        path = ["model", *path[3:]]
    if path[:2] == ["data", "groups"]:
        path = ["data", "groups", "", *path[3:]]
    if path[-1:] in (["correlation"], ["discrepancy"]) and len(path) > 1:
        return CorrelationTable if path[-1] == "correlation" else DiscrepancyTable
    return _TABLES[tuple(path)]


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


def load(path: str | Path, *, by_hand: bool = False) -> Case:
    """Read and check a case file. The model is not run; ``by_hand`` there may be none."""
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
    if case.model is None and not by_hand:
        raise CaseError("model is missing; `tbq ask` and `tbq tell` alone do without")
    case.prior()
    case.settings()
    return case


@contextmanager
def _named(table: str, strip: str = "") -> Iterator[None]:
    """Put the table's name before what is wrong with one of its keys."""
    try:
        yield
    except ArgumentError as error:
        raise CaseError(f"{table}{str(error).removeprefix(strip)}") from error


def _explain(error: Any) -> str:
    """One problem in one line, by the path of its key."""
    *table, key = error["loc"] or ("",)
    kinds = {1, 3} if table[:1] == ["model"] and table[2:3] == ["coarse"] else {1} if table[:1] == ["model"] else set()
    place = [*(part for i, part in enumerate(table) if i not in kinds), key]  # without the kind of model
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).removeprefix(".")
    match error["type"]:
        case "missing":
            return f"{path} is missing"
        case "extra_forbidden":
            return f"{path} is not a key{nearest(key, list(_table_at(table).model_fields))}"
        case "union_tag_not_found":
            return f"{path} must have one of the keys {', '.join(KINDS)}{nearest_kind(error['input'])}"
        case "model_type" | "dict_type":
            return f"{path} must be a table; got {error['input']!r}"
        case "value_error":
            return f"{path}{': ' if path else ''}{error['ctx']['error']}"
    return f"{path} {error['msg'].replace('Input should', 'must')}; got {error['input']!r}"


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return [_without_none(v) for v in value] if isinstance(value, list) else value
