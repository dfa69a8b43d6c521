"""Noise with parameters as numbers, words and arrays, and made again of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tbq.common.types import Distribution, IntArray
from tbq.problem.families import frozen
from tbq.problem.noise import Block, Correlated, Missing, NoiseModel, Term
from tbq.result.archive import DamagedError, Description, array, real

_KINDS = ("exponential", "squared_exponential")
_MOST = 1000  # parameters and blocks that a file may have


def describe(model: NoiseModel) -> Description:
    """A model of noise in numbers, words and arrays."""
    return {
        "data": model.data,
        "out": model.out.astype(float),
        "blocks": [_describe_block(b) for b in model.blocks],
        "future": [_describe_block(b) for b in model.future],
        "names": list(model.names),
        "marginals": [describe_marginal(m) for m in model.marginals],
    }


def rebuilt(d: Description) -> NoiseModel:
    """The model of a description, which may come from anybody."""
    data = array(d, "data", None)
    names, marginals = tuple(d["names"]), tuple(marginal(m) for m in d["marginals"])
    if len(names) != len(marginals) or len(names) > _MOST or not all(isinstance(n, str) for n in names):
        raise DamagedError("noise parameters have no names, or no priors")
    future = tuple(_block(b, len(names), None) for b in _listed(d, "future"))
    m = sum(b.size for b in future)
    blocks = tuple(_block(b, len(names), len(data)) for b in _listed(d, "blocks"))
    for parts, size in ((future, m), (blocks, len(data))):
        if not np.array_equal(np.sort(np.concatenate([b.rows for b in parts])), np.arange(size)):
            raise DamagedError("noise does not have each datum once")
    out = _indices(d, "out", len(data), m)
    if len(blocks) != len(future) or len(data) == 0:
        raise DamagedError("noise has other groups for what would be measured than for the data")
    return NoiseModel(data, out, blocks, future, names, marginals)


def same(a: Any, b: Any) -> bool:
    """Whether two descriptions are of the same."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    return bool(a == b)


def describe_marginal(marginal: Distribution) -> Description:
    arguments = {k: float(v) for k, v in marginal.kwds.items()}
    return {"distribution": marginal.dist.name, "args": [float(a) for a in marginal.args], "kwds": arguments}


def marginal(d: Description) -> Distribution:
    return frozen(d["distribution"], d["args"], d["kwds"])


def _listed(d: Description, key: str) -> list[Any]:
    if not isinstance(d[key], list) or not 0 < len(d[key]) <= _MOST:
        raise DamagedError(f"noise has no {key}")
    return d[key]


def _describe_block(b: Block) -> Description:
    correlation = b.correlation and {
        "kind": b.correlation.kind,
        "length": list(b.correlation.length),
        "white": b.correlation.white,
    }
    return {
        "rows": b.rows.astype(float),
        "unit": b.unit,
        "level": list(b.level),
        "share": b.share and list(b.share),
        "freedom": b.freedom and list(b.freedom),
        "correlation": correlation,
        "discrepancy": b.discrepancy and [list(t) for t in b.discrepancy],
        "coordinates": b.coordinates,
        "replicate": None if b.replicate is None else b.replicate.astype(float),
    }


def _block(d: Description, parameters: int, data: int | None) -> Block:
    rows = _indices(d, "rows", None, data)
    n = len(rows)
    full = isinstance(d["unit"], np.ndarray) and d["unit"].ndim == 2
    unit = array(d, "unit", *([n] * (2 if full else 1)))
    if not np.all((np.diag(unit) if full else unit) > 0.0):
        raise DamagedError("noise is not positive")
    correlation, discrepancy = d["correlation"], d["discrepancy"]
    if correlation is not None:
        white = real(correlation, "white")
        if correlation["kind"] not in _KINDS or not 0.0 <= white < 1.0:
            raise DamagedError("residuals are correlated in no way that is known")
        correlation = Correlated(correlation["kind"], _term(correlation["length"], parameters), white)
    if discrepancy is not None:
        amplitude, length = discrepancy
        discrepancy = Missing(_term(amplitude, parameters), _term(length, parameters))
    along = None if d["coordinates"] is None else array(d, "coordinates", n)
    if along is None and (correlation or discrepancy):
        raise DamagedError("residuals are correlated along nothing")
    replicate = None if d["replicate"] is None else _indices(d, "replicate", n, None)
    share, freedom = (None if d[k] is None else _term(d[k], parameters) for k in ("share", "freedom"))
    level = _term(d["level"], parameters)
    return Block(rows, unit, level, share, freedom, correlation, discrepancy, along, replicate)


def _term(value: Any, parameters: int) -> Term:
    number, column = value
    if not isinstance(column, int) or not -1 <= column < parameters:
        raise DamagedError("noise has a parameter that there is none of")
    number = real({"value": number}, "value")
    if column < 0 and not number > 0.0:
        raise DamagedError("noise has a number that is not positive")
    return Term(number, column)


def _indices(d: Description, key: str, n: int | None, most: int | None) -> IntArray:
    """Whole numbers from 0, below ``most``."""
    values = array(d, key, n)
    whole = values.astype(int)
    if np.any(whole != values) or np.any(whole < 0) or (most is not None and np.any(whole >= most)):
        raise DamagedError(f"{key} are no indices")
    return whole
