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

_MOST_TERMS = 1000  # of a distribution that is computed term by term: more take memory and time without end


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
    arguments = dict(zip(known, values, strict=False)) | dict(zip(kwds, values[len(args) :], strict=True))
    if arguments.get("n", 0.0) > _MOST_TERMS:
        raise ArgumentError(f"{name} is computed for an n of at most {_MOST_TERMS}; got {arguments['n']:g}")
    return family(*values[: len(args)], **dict(zip(kwds, values[len(args) :], strict=True)))


def together(marginals: list[Distribution]) -> Distribution:
    """Distributions of one family, given by the same arguments, as one whose arguments are arrays."""
    if len(marginals) == 1:
        return marginals[0]
    first = marginals[0]
    arguments = [np.array(values, dtype=float) for values in zip(*(m.args for m in marginals), strict=True)]
    return first.dist(*arguments, **{k: np.array([m.kwds[k] for m in marginals], dtype=float) for k in first.kwds})


def describe(marginal: Distribution) -> str:
    """``norm(1, 0.2)``."""
    arguments = [_digits(a) for a in marginal.args] + [f"{k}={_digits(v)}" for k, v in marginal.kwds.items()]
    return f"{marginal.dist.name}({', '.join(arguments)})"


def in_words(marginal: Distribution) -> str:
    """``normal, mean 1, sd 0.2``: for readers who do not know that scipy's uniform has a start and a length."""
    has = parameters(marginal)
    loc, scale = has["loc"], has["scale"]
    match marginal.dist.name:
        case "uniform":
            return f"uniform from {loc:.6g} to {loc + scale:.6g}"
        case "loguniform" | "reciprocal" if loc == 0.0:
            return f"loguniform from {scale * has['a']:.6g} to {scale * has['b']:.6g}"
        case "norm":
            return f"normal, mean {loc:.6g}, sd {scale:.6g}"
        case "truncnorm":
            ends = {"below": loc + scale * has["a"], "above": loc + scale * has["b"]}
            cut = " and ".join(f"{side} {end:.6g}" for side, end in ends.items() if np.isfinite(end))
            return f"normal, mean {loc:.6g}, sd {scale:.6g}" + (f", cut off {cut}" if cut else "")
        case "lognorm" if loc == 0.0:
            return f"lognormal, median {scale:.6g}, sd of the logarithm {has['s']:.6g}"
        case _:
            return describe(marginal)


def _digits(x: float) -> str:
    """All that tell it from other numbers, and no others."""
    return repr(float(x)).removesuffix(".0")
