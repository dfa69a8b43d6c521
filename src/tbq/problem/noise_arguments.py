"""From what a user says of the noise to the model of it: groups, levels, correlation, discrepancy, gaps, replicates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg, stats

from tbq.common.arguments import real
from tbq.common.errors import ArgumentError
from tbq.common.types import Array, Distribution, IntArray
from tbq.common.words import steers
from tbq.problem.noise import (
    Block,
    Correlated,
    Discrepancy,
    Exponential,
    Missing,
    NoiseModel,
    SquaredExponential,
    Term,
    refuse,
)


@dataclass(frozen=True)
class Given:
    """What the user said, apart from the data."""

    noise: Any
    groups: Any = None
    relative: Any = None
    freedom: Any = None
    correlation: Any = None
    discrepancy: Any = None

    @property
    def plain(self) -> bool:
        """Whether it is known numbers alone, one for each datum or for all."""
        others = (self.groups, self.relative, self.freedom, self.correlation, self.discrepancy)
        return all(o is None for o in others) and not isinstance(self.noise, Mapping) and not _is_prior(self.noise)


@dataclass
class _Parameters:
    """The noise parameters met so far."""

    names: list[str] = field(default_factory=list)
    marginals: list[Distribution] = field(default_factory=list)

    def term(self, name: str, value: Any) -> Term:
        """A known number, or a new parameter; the same name is the same parameter."""
        if _is_prior(value):
            if not float(value.support()[0]) >= 0.0:
                raise refuse(f"the prior of {name} must be of positive numbers", f"one from {value.support()[0]:g} on")
            if name not in self.names:
                self.names.append(name)
                self.marginals.append(value)
            return Term(0.0, self.names.index(name))
        number = real(value)
        if not 0.0 < number < np.inf:
            raise refuse(f"{name} must be a positive number or its prior, a scipy.stats distribution", repr(value))
        return Term(number)


@dataclass(frozen=True)
class Group:
    """Some of the columns of the data, and what is said of their noise."""

    name: str
    columns: IntArray
    unit: Array  # (columns,), or a covariance
    level: Term
    share: Term | None
    freedom: Term | None
    correlation: Correlated | None
    discrepancy: Missing | None


def noise_model(observed: Array, out: IntArray, coordinates: Array | None, given: Given) -> NoiseModel:
    """For data (replicates, columns), nan where there is none, each column being of one of the outputs."""
    seen = np.isfinite(observed)
    if not seen.any():
        raise refuse("observed must have a number", "nan alone")
    parameters = _Parameters()
    groups = _groups(given, observed.shape[1], parameters)
    replicate, column = np.nonzero(seen)
    blocks, future = [], []
    for group in groups:
        _check(group, coordinates)
        rows = np.flatnonzero(np.isin(column, group.columns))
        blocks.append(_block(group, rows, column[rows], replicate[rows], coordinates))
        _, first = np.unique(out[group.columns], return_index=True)  # one measurement of each output
        once = group.columns[np.sort(first)]
        future.append(_block(group, out[once], once, np.zeros(len(once), dtype=int), coordinates))
    data = observed[replicate, column]
    for block in blocks:
        _check_apart(block)
    return NoiseModel(
        data, out[column], tuple(blocks), tuple(future), tuple(parameters.names), tuple(parameters.marginals)
    )


def _block(group: Group, rows: IntArray, columns: IntArray, replicate: IntArray, x: Array | None) -> Block:
    """Data of a group, by the columns and replicates that they are of."""
    where = np.array([int(np.flatnonzero(group.columns == c)[0]) for c in columns], dtype=int)
    if group.unit.ndim == 1:
        unit = group.unit[where]
    else:
        parts = [where[replicate == r] for r in np.unique(replicate)]
        unit = linalg.block_diag(*(linalg.cholesky(group.unit[np.ix_(p, p)], lower=True) for p in parts))
    along = None if x is None else x[columns]
    rest = (group.level, group.share, group.freedom, group.correlation, group.discrepancy)
    return Block(rows, unit, *rest, along, replicate)


# --- groups -------------------------------------------------------------------------------------------------


def _groups(given: Given, columns: int, parameters: _Parameters) -> list[Group]:
    members = _members(given.groups, columns)
    parts: dict[str, dict[str, Any]] = {name: {} for name in members}
    for key, needed in (("noise", True), ("relative", False), ("freedom", False)):
        for name, (title, value) in _each(key, getattr(given, key), members, needed).items():
            parts[name][key] = (
                _level(title, value, members[name], columns, parameters) if needed else (parameters.term(title, value))
            )
    for name, (title, value) in _each("correlation", given.correlation, members, False).items():
        parts[name]["correlation"] = _correlated(title, value, parameters)
    for name, (title, value) in _each("discrepancy", given.discrepancy, members, False).items():
        parts[name]["discrepancy"] = _missing(title, value, parameters)
    return [
        Group(
            name,
            members[name],
            part["noise"][0],
            part["noise"][1],
            part.get("relative"),
            part.get("freedom"),
            part.get("correlation"),
            part.get("discrepancy"),
        )
        for name, part in parts.items()
    ]


def _members(groups: Any, columns: int) -> dict[str, IntArray]:
    """The columns of each group."""
    if groups is None:
        return {"": np.arange(columns)}
    if not isinstance(groups, Mapping) or not groups:
        raise refuse('groups must be names and which data each has, as {"a": slice(0, 5)}', repr(groups))
    found = {}
    for name, which in groups.items():
        if not isinstance(name, str) or not name.strip() or any(map(steers, name)):
            raise refuse("the name of a group must be text on one line", repr(name))
        try:
            found[name] = np.atleast_1d(np.arange(columns)[which])
        except (IndexError, TypeError, ValueError):
            raise refuse(
                f"groups: {name!r} must be a slice, indices or a mask of {columns} data", repr(which)
            ) from None
    counts = np.bincount(np.concatenate(list(found.values())), minlength=columns)
    if np.any(counts != 1):
        wrong = int(np.flatnonzero(counts != 1)[0])
        many = "in none" if counts[wrong] == 0 else f"in {counts[wrong]}"
        raise refuse("groups must have each datum once", f"datum {wrong} {many}")
    return found


def _each(key: str, value: Any, members: Mapping[str, IntArray], needed: bool) -> dict[str, tuple[str, Any]]:
    """What is said of each group, with the name of its parameter: common to all, or by name."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return dict.fromkeys(members, (key, value))
    unknown = [name for name in value if name not in members]
    lacking = [name for name in members if name not in value] if needed else []
    if unknown or lacking:
        names = ", ".join(repr(n) for n in members if n) or "none; give groups"
        got = ", ".join(map(repr, value)) or "none"
        raise refuse(f"{key} must be by the names of the groups, {names}", got)
    return {name: (f"{key}.{name}", one) for name, one in value.items()}


# --- parts --------------------------------------------------------------------------------------------------


def _level(title: str, value: Any, members: IntArray, columns: int, parameters: _Parameters) -> tuple[Array, Term]:
    """Known standard deviations, or a covariance, and what multiplies them."""
    if _is_prior(value):
        return np.ones(len(members)), parameters.term(title, value)
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise refuse(f"{title} must be numbers or a prior, a scipy.stats distribution", repr(value)) from None
    if array.ndim == 1 and len(array) == columns and len(members) != columns:
        array = array[members]
    if array.ndim == 2 and len(members) == columns:
        if array.shape != (columns, columns) or not np.allclose(array, array.T, rtol=1e-8, atol=0.0):
            raise refuse(
                f"{title} as a covariance must be symmetric, of shape ({columns}, {columns})", str(array.shape)
            )
        if not np.all(np.isfinite(array)) or linalg.eigvalsh(array)[0] <= 0.0:
            raise refuse(f"{title} as a covariance must be positive definite", "one that is not")
        return array, Term(1.0)
    if array.ndim > 1 or array.size not in (1, len(members)):
        raise refuse(f"{title} must have 1 or {len(members)} standard deviations", f"shape {array.shape}")
    if not np.all((array > 0.0) & np.isfinite(array)):
        raise refuse(f"{title} must be positive", f"{array[~((array > 0.0) & np.isfinite(array))].flat[0]}")
    return np.array(np.broadcast_to(array, len(members))), Term(1.0)


def _correlated(title: str, value: Any, parameters: _Parameters) -> Correlated:
    if isinstance(value, Exponential):
        return Correlated("exponential", parameters.term(f"{title}.length", value.length), 0.0)
    if isinstance(value, SquaredExponential):
        if not 0.0 < real(value.white) < 1.0:
            raise refuse(f"{title}: white must lie between 0 and 1", repr(value.white))
        length = parameters.term(f"{title}.length", value.length)
        return Correlated("squared_exponential", length, float(value.white))
    raise refuse(f"{title} must be tbq.Exponential(length=...) or tbq.SquaredExponential(length=...)", repr(value))


def _missing(title: str, value: Any, parameters: _Parameters) -> Missing:
    if not isinstance(value, Discrepancy):
        raise refuse(f"{title} must be tbq.Discrepancy(amplitude=..., length=...)", repr(value))
    amplitude = parameters.term(f"{title}.amplitude", value.amplitude)
    return Missing(amplitude, parameters.term(f"{title}.length", value.length))


def _check(group: Group, coordinates: Array | None) -> None:
    """Refuse what does not go together."""
    along = [n for n in ("correlation", "discrepancy") if getattr(group, n) is not None]
    if along and coordinates is None:
        raise refuse(f"coordinates are needed where there is a {along[0]}", "none")
    if group.unit.ndim == 2 and (group.share or group.freedom or group.correlation):
        raise ArgumentError(
            "GaussianLikelihood: noise as a covariance has its own correlation: it does not go with relative, freedom "
            "or correlation"
        )
    if group.freedom and along:
        raise ArgumentError(
            f"GaussianLikelihood: freedom does not go with a {along[0]}: outliers are of single data, each by itself"
        )


def _check_apart(block: Block) -> None:
    """Residuals at the same place, in the same test, with an exponential correlation would be the same."""
    if block.correlation is None or block.correlation.kind != "exponential" or block.size < 2:
        return
    assert block.coordinates is not None
    assert block.replicate is not None
    order = np.lexsort((block.coordinates, block.replicate))
    same = (np.diff(block.replicate[order]) == 0) & (np.diff(block.coordinates[order]) == 0.0)
    if same.any():
        where = block.coordinates[order][int(np.flatnonzero(same)[0])]
        raise refuse("coordinates must differ within a group of correlated residuals", f"{where:g} twice")


def _is_prior(value: Any) -> bool:
    return isinstance(getattr(value, "dist", None), stats.rv_continuous)
