"""The continuous distributions of ``scipy.stats`` by name: nothing else is ever called by a name that a file has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

from tbq.common.arguments import real
from tbq.common.errors import ArgumentError
from tbq.common.types import Distribution


@cache
def families() -> Mapping[str, Any]:
    """Name → distribution with free parameters."""
    return {name: value for name, value in vars(stats).items() if isinstance(value, stats.rv_continuous)}


def shapes(family: Any) -> list[str]:
    """Its parameters besides ``loc`` and ``scale``, in their order."""
    return family.shapes.replace(" ", "").split(",") if family.shapes else []


def parameters(marginal: Distribution) -> dict[str, float]:
    """All parameters of a frozen distribution by name, however it was written: ``norm(1)`` has a ``scale`` of 1."""
    names = [*shapes(marginal.dist), "loc", "scale"]
    given = dict(zip(names, marginal.args, strict=False)) | marginal.kwds
    return {"loc": 0.0, "scale": 1.0} | {name: float(value) for name, value in given.items()}


def frozen(name: Any, args: Sequence[Any], kwds: Mapping[str, Any]) -> Distribution:
    """The distribution of a name and numbers, both from who knows where."""
    if not isinstance(name, str) or name not in families():
        raise ArgumentError(f"{str(name)[:40]!r} is not a continuous distribution of scipy.stats")
    family = families()[name]
    known = [*shapes(family), "loc", "scale"]
    values = [real(value) for value in (*args, *kwds.values())]
    if len(args) > len(known) or not set(kwds) <= set(known) or np.isnan(values).any():
        raise ArgumentError(f"{name} takes numbers for {', '.join(known)}; got other arguments")
    return family(*values[: len(args)], **dict(zip(kwds, values[len(args) :], strict=True)))
