"""Values of a case file: paths, programs, numbers, words and priors, checked and made independent of where it lies."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainValidator, ValidationInfo

from tbq.cli import distributions
from tbq.common.arguments import real
from tbq.common.errors import ArgumentError
from tbq.common.types import Array
from tbq.common.words import described
from tbq.run.outage import check_limits
from tbq.simulate.textfiles import read_csv, read_words

Simulator = Callable[[Array], Any]


def absolute(path: str, info: ValidationInfo) -> str:
    assert info.context is not None
    return str(Path(info.context["folder"], Path(path).expanduser()).resolve())


def _earlier(value: Any, info: ValidationInfo) -> Any:
    """The folder of an earlier run, or one for each level."""
    folders = value if isinstance(value, dict) else {"fine": value}
    if not set(folders) <= {"fine", "coarse"} or not all(isinstance(folder, str) for folder in folders.values()):
        raise ValueError(f"must be the folder of an earlier run, or a table such as {{coarse = 'old'}}; got {value!r}")
    found = {level: absolute(folder, info) for level, folder in folders.items()}
    return found if isinstance(value, dict) else found["fine"]


def program(command: list[str], info: ValidationInfo) -> list[str]:
    """A program with a slash in its name lies relative to the case file; others are on the PATH."""
    if command and "/" in command[0]:
        return [absolute(command[0], info), *command[1:]]
    return command


def _numbers(value: Any, info: ValidationInfo) -> Any:
    """A number, a list, a matrix, or ``{file = "...", column = "..."}``."""
    if isinstance(value, dict):
        path, column = _place(value, info)
        return read_csv(path, column)
    if isinstance(value, list):
        if len({len(row) if isinstance(row, list) else -1 for row in value}) > 1:
            raise ValueError("must have rows of one length")
        return [_numbers(v, info) for v in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"must be numbers, or a table such as {{file = 'measured.csv'}}; got {value!r}")
    return real(value)


def _observed(value: Any, info: ValidationInfo) -> Any:
    """As numbers, with gaps: nan, or an empty cell; several ``columns`` of a file are replicates."""
    if not isinstance(value, dict):
        return _numbers(value, info)
    columns = value.get("columns")
    if columns is None:
        path, column = _place(value, info)
        return read_csv(path, column, gaps=True)
    if (
        "column" in value
        or not isinstance(columns, list)
        or not all(isinstance(c, str) for c in columns)
        or not columns
    ):
        raise ValueError(f"columns must be the names of some columns, in the place of column; got {value!r}")
    path, _ = _place({k: v for k, v in value.items() if k != "columns"}, info)
    return [read_csv(path, column, gaps=True) for column in columns]


def _level(value: Any, info: ValidationInfo) -> Any:
    """Numbers where they are known, or ``{prior = {...}}``."""
    if isinstance(value, dict) and "prior" in value:
        if set(value) != {"prior"}:
            other = next(k for k in value if k != "prior")
            raise ValueError(f"{other!r} is not a key beside prior")
        return {"prior": marginal(value["prior"])}
    try:
        return _numbers(value, info)
    except ValueError as error:
        raise ValueError(f"{error}; or {{prior = {{distribution = ...}}}} where it is unknown") from None


def known_or_prior(value: Any) -> Any:
    """What a level of the file is: numbers, or a distribution."""
    return distributions.marginal(value["prior"]) if isinstance(value, dict) else value


def _words(value: Any, info: ValidationInfo) -> Any:
    """A list of texts, one that stands for all, or ``{file = "...", column = "..."}``."""
    if isinstance(value, dict):
        path, column = _place(value, info)
        if column is None:
            raise ValueError(f"must name the column of {path.name} that has the words; got {value!r}")
        return read_words(path, column)
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value)):
        return value
    raise ValueError(f"must be texts, or a table such as {{file = 'measured.csv', column = 'name'}}; got {value!r}")


def _place(value: dict[str, Any], info: ValidationInfo) -> tuple[Path, str | None]:
    """A file and perhaps one of its columns."""
    for key in value:
        if key not in ("file", "column"):
            raise ValueError(f"{key!r} is not a key{nearest(key, ['file', 'column'])}")
    if not all(isinstance(v, str) for v in value.values()) or "file" not in value:
        raise ValueError(f"must have a file, and a column of it if it has several; got {value!r}")
    return Path(absolute(value["file"], info)), value.get("column")


def limits(value: Any) -> tuple[float, float]:
    try:
        return check_limits(value)
    except ArgumentError as error:
        raise ValueError(str(error).removeprefix("outage_after ")) from error


def marginal(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"must be a table such as {{distribution = 'uniform', low = 0, high = 1}}; got {value!r}")
    distributions.marginal(value)
    return value


def scratch(path: str, info: ValidationInfo) -> str:
    """A folder; one with a variable in it is looked up where a run is made."""
    return path if "$" in path else absolute(path, info)


def one_or_several(value: Any, info: ValidationInfo) -> Any:
    """A path, or a list of them."""
    if isinstance(value, str):
        return absolute(value, info)
    if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
        return [absolute(v, info) for v in value]
    raise ValueError(f"must be the name of a file, or a list of names; got {value!r}")


def licence_pool(value: Any, info: ValidationInfo) -> Any:
    """A number of them for this case, or ``{limit = 2, folder = "..."}`` for all that name the folder."""
    limit, folder = (value.get("limit"), value.get("folder")) if isinstance(value, dict) else (value, "")
    whole = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1
    if not whole or not isinstance(folder, str) or (isinstance(value, dict) and value.keys() != {"limit", "folder"}):
        raise ValueError(f"must be a whole number of at least 1, or {{limit = 2, folder = '...'}}; got {value!r}")
    return {"limit": limit, "folder": absolute(folder, info)} if isinstance(value, dict) else limit


PathHere = Annotated[str, AfterValidator(absolute)]
Earlier = Annotated[Any, PlainValidator(_earlier)]
PathsHere = Annotated[Any, PlainValidator(one_or_several)]
Scratch = Annotated[str, AfterValidator(scratch)]
Numbers = Annotated[Any, PlainValidator(_numbers)]
Observed = Annotated[Any, PlainValidator(_observed)]
Level = Annotated[Any, PlainValidator(_level)]
Words = Annotated[Any, PlainValidator(_words)]
Returns = Literal["outputs", "log_likelihood"]


class Table(BaseModel):
    """A table of the case file, which refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def nearest(key: str, known: Sequence[str]) -> str:
    """What was meant, or what there is."""
    return distributions.suggestion(key, known) or f"; there are {', '.join(known)}"


def import_function(reference: str, folder: str) -> Callable[[Any], Any]:
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
    return cast(Callable[[Any], Any], function)
