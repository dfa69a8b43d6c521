"""Results for other tools: xarray and ArviZ (the ``arviz`` extra), netCDF, CSV."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tbq.common.errors import MissingDependencyError, TbqError
from tbq.common.types import Array
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.result.result import Result

_CHAINS = 4  # that draws are dealt out to: diagnostics compare chains
_PRIOR_DRAWS = 4000


def to_datatree(result: Result) -> Any:
    """An ``xarray.DataTree`` with the groups that ArviZ expects.

    ``posterior`` and ``prior`` have a variable per parameter: under its name, or one with underscores where there can
    be none of that name (``E_E0`` for ``E/E0``); the name is its attribute ``long_name``, the unit ``units``.
    ``sample_stats`` has the log posterior density of the draws (``lp``), ``observed_data`` the data of a Gaussian
    likelihood. Evidence and its error are attributes of the tree and of ``posterior``. Draws are independent chains'
    ends: in what chain they are put says nothing.
    """
    from tbq.common.version import __version__ as version

    xarray = _needed("xarray")
    if len(result.samples) == 0:
        raise TbqError(f"there are no posterior draws to export. {result.stop.value}")
    facts = {
        "inference_library": "tbq",
        "inference_library_version": version,
        "log_evidence": result.log_evidence,
        "log_evidence_sd": result.log_evidence_sd,
        "n_evaluations": result.n_evaluations,
        "stop": result.stop.value,
    }
    groups = {
        "posterior": _parameters(xarray, result.prior, result.samples, facts),
        "sample_stats": _dataset(xarray, {"lp": result.log_density(result.samples)}),
        "prior": _parameters(xarray, result.prior, result.prior.sample(_PRIOR_DRAWS, seed=0)),
    }
    if result.likelihood is not None:
        groups["observed_data"] = _observed(xarray, result.likelihood)
    return xarray.DataTree.from_dict({"/": xarray.Dataset(attrs=facts), **groups})


def _observed(xarray: Any, likelihood: GaussianLikelihood) -> Any:
    """The data under the user's names, with their units and coordinates where there are some."""
    coordinates: dict[str, Any] = {"datum": list(likelihood.names)}
    if any(likelihood.units):
        coordinates["unit"] = ("datum", list(likelihood.units))
    where = [e.labels.coordinates for e in likelihood.experiments if e.labels.coordinates is not None]
    if len(where) == len(likelihood.experiments):
        coordinates["coordinate"] = ("datum", np.concatenate(where))
    return xarray.Dataset({"observed": ("datum", likelihood.observed)}, coords=coordinates)


def to_arviz(result: Result) -> Any:
    """What the installed ArviZ works with: the tree itself from 1.0 on, before that an ``InferenceData`` of it."""
    tree = to_datatree(result)
    arviz = _needed("arviz")
    return tree if int(arviz.__version__.split(".")[0]) >= 1 else arviz.InferenceData.from_datatree(tree)


def to_netcdf(result: Result, path: str | Path) -> None:
    """The tree of :func:`to_datatree` as a file that ArviZ, xarray and other languages read."""
    _needed("h5netcdf")
    to_datatree(result).to_netcdf(path, engine="h5netcdf")


def to_csv(result: Result, path: str | Path) -> None:
    """Posterior draws and their log density, a column each under its name; every digit is kept."""
    if "log_density" in result.prior.names:
        raise TbqError("to_csv: the column log_density would be there twice; give the parameter of this name another")
    columns = np.column_stack([result.samples, result.log_density(result.samples)])
    write_csv(path, [*result.prior.names, "log_density"], columns)


def runs_to_csv(result: Result, path: str | Path) -> None:
    """Every run: number, stage, origin, status, log-likelihood, seconds, message, and a column per parameter."""
    table = result.evaluations_table()
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(table)
        rows.writerows(zip(*table.values(), strict=True))


def write_csv(path: str | Path, names: Sequence[str], columns: Array) -> None:
    """Columns under their names, whatever those have in them; whole or not at all."""
    path = Path(path)
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(names)
            rows.writerows(columns.tolist())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _parameters(xarray: Any, prior: Prior, draws: Array, attributes: dict[str, Any] | None = None) -> Any:
    variables = _variables(prior.names)
    dataset = _dataset(xarray, dict(zip(variables, draws.T, strict=True)), attributes)
    for variable, name in zip(variables, prior.names, strict=True):
        dataset[variable].attrs["long_name"] = name
        if name in prior.units:
            dataset[variable].attrs["units"] = prior.units[name]
    return dataset


def _variables(names: Sequence[str]) -> list[str]:
    """A name for each that xarray and netCDF can have; those that can stay as they are do."""
    taken = {name for name in names if name == _variable(name)}
    found = []
    for name in names:
        variable = _variable(name)
        while variable != name and variable in taken:
            variable += "_"
        taken.add(variable)
        found.append(variable)
    return found


def _variable(name: str) -> str:
    """Without slashes, which are paths there, or blanks at its end; the name of no dimension, and not a lone dot."""
    name = name.replace("/", "_").rstrip()
    return f"{name}_" if name in ("chain", "draw", ".") else name


def _dataset(xarray: Any, columns: dict[str, Array], attributes: dict[str, Any] | None = None) -> Any:
    dealt = {name: (("chain", "draw"), _deal(values)) for name, values in columns.items()}
    chains, draws = next(iter(dealt.values()))[1].shape
    coordinates = {"chain": np.arange(chains), "draw": np.arange(draws)}
    return xarray.Dataset(dealt, coords=coordinates, attrs=attributes)


def _deal(values: Array) -> Array:
    """As cards are dealt: row k has values k, k + 4, …; up to three are left over."""
    chains = _CHAINS if len(values) >= _CHAINS else 1
    return values[: len(values) // chains * chains].reshape(-1, chains).T


def _needed(module: str) -> Any:
    from importlib import import_module

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # ArviZ 0.23 announces 1.0 whenever it is imported
            return import_module(module)
    except ImportError as error:
        raise MissingDependencyError(f"this export needs {module}: pip install 'tbq[arviz]'") from error
