"""Results for other tools: xarray and ArviZ (the ``arviz`` extra), netCDF, CSV."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tbq.common.errors import MissingDependencyError, TbqError
from tbq.common.types import Array
from tbq.result.result import Result

_CHAINS = 4  # that draws are dealt out to: diagnostics compare chains
_PRIOR_DRAWS = 4000


def to_datatree(result: Result) -> Any:
    """An ``xarray.DataTree`` with the groups that ArviZ expects.

    ``posterior`` and ``prior`` have a variable per parameter, ``sample_stats`` the log posterior density of the draws
    (``lp``), ``observed_data`` the data of a Gaussian likelihood. Evidence and its error are attributes of the tree
    and of ``posterior``. Draws are independent chains' ends: in what chain they are put says nothing.
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
    names = result.prior.names
    groups = {
        "posterior": _dataset(xarray, dict(zip(names, result.samples.T, strict=True)), facts),
        "sample_stats": _dataset(xarray, {"lp": result.log_density(result.samples)}),
        "prior": _dataset(xarray, dict(zip(names, result.prior.sample(_PRIOR_DRAWS, seed=0).T, strict=True))),
    }
    if result.likelihood is not None:
        groups["observed_data"] = xarray.Dataset({"observed": ("datum", result.likelihood.observed)})
    return xarray.DataTree.from_dict({"/": xarray.Dataset(attrs=facts), **groups})


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
    columns = np.column_stack([result.samples, result.log_density(result.samples)])
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow([*result.prior.names, "log_density"])
        rows.writerows(columns.tolist())


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
