"""The model of a case file: a Python function, a command or a UM-Bridge server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, PlainValidator, Tag

from tbq.cli import distributions
from tbq.cli.casefields import (
    PathHere,
    PathsHere,
    Returns,
    Scratch,
    Simulator,
    Table,
    import_function,
    licence_pool,
    program,
)
from tbq.simulate.command import CommandModel
from tbq.simulate.licences import Licences
from tbq.simulate.umbridge import UmBridgeModel

KINDS = ("python", "command", "url")
_READ_LATER = "stdout.txt"  # what a program leaves in any case, until [[outputs]] say what to read


class PythonTable(Table):
    """A Python function ``module:function`` of theta."""

    python: str
    path: PathHere = Field(default=".", validate_default=True)  # folder to import from
    returns: Returns = "outputs"
    coarse: Model | None = None
    cost: float | None = Field(default=None, gt=0, le=1)  # of a coarse model

    def build(self, names: tuple[str, ...], work: Path | None, timeout: float | None) -> Simulator:
        return import_function(self.python, self.path)


class CommandTable(Table):
    """See :class:`tbq.adapters.CommandModel`."""

    command: Annotated[list[str], AfterValidator(program)]
    output: str | None = None  # or [[outputs]]
    pattern: str | None = None
    template: PathsHere = None
    files: list[PathHere] = Field(default_factory=list)
    links: list[PathHere] = Field(default_factory=list)
    environment: dict[str, str] = Field(default_factory=dict)
    prelude: list[str] = Field(default_factory=list)
    workdir: Scratch | None = None  # in place of a folder of the run's
    licences: Annotated[Any, PlainValidator(licence_pool)] = None
    timeout: float | None = Field(default=None, gt=0)
    keep: bool = False
    transient: list[int] = Field(default_factory=list)
    returns: Returns = "outputs"
    coarse: Model | None = None
    cost: float | None = Field(default=None, gt=0, le=1)  # of a coarse model

    def build(self, names: tuple[str, ...], work: Path | None, timeout: float | None) -> CommandModel:
        arguments = self.model_dump(exclude={"returns", "timeout", "workdir", "licences", "coarse", "cost"})
        shared = self.licences
        if isinstance(shared, int):  # of this case; a look at it makes one run at a time
            shared = None if work is None else {"limit": shared, "folder": work / "licences"}
        arguments["licences"] = None if shared is None else Licences(**shared)
        folder = self.workdir or work
        arguments["output"] = self.output or _READ_LATER
        return CommandModel(names, **arguments, folder=folder, timeout=self.timeout or timeout)


class UmBridgeTable(Table):
    """See :class:`tbq.adapters.UmBridgeModel`."""

    url: str
    name: str
    config: dict[str, Any] = Field(default_factory=dict)
    timeout: float | None = Field(default=None, gt=0)
    retries: int = Field(default=2, ge=0)
    returns: Returns = "outputs"
    coarse: Model | None = None
    cost: float | None = Field(default=None, gt=0, le=1)  # of a coarse model

    def build(self, names: tuple[str, ...], work: Path | None, timeout: float | None) -> UmBridgeModel:
        return UmBridgeModel(self.url, self.name, self.config, self.timeout or timeout, self.retries)


def _kind(model: Any) -> str | None:
    """Which model a table is for, or was; None unless it has one of the three keys."""
    kinds = [k for k in KINDS if (k in model if isinstance(model, Mapping) else hasattr(model, k))]
    return kinds[0] if len(kinds) == 1 else None


Model = Annotated[
    Annotated[PythonTable, Tag("python")]
    | Annotated[CommandTable, Tag("command")]
    | Annotated[UmBridgeTable, Tag("url")],
    Discriminator(_kind),
]


for _table in (PythonTable, CommandTable, UmBridgeTable):
    _table.model_rebuild()


def nearest_kind(model: Any) -> str:
    given = [str(k) for k in model] if isinstance(model, Mapping) else []
    kinds = [k for k in given if k in KINDS]
    if kinds:
        return f"; got {' and '.join(kinds)}"
    near = next((s for k in given if (s := distributions.suggestion(k, KINDS))), "")
    return f"; got {', '.join(given) or 'none'}{near}"
