"""Surrogates as numbers, words and arrays, and made again of them; each kind has a pair of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, get_args

import numpy as np

from tbq.common.errors import TbqError
from tbq.gp import regression as gps
from tbq.gp.kernels import BY_NAME
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.result.archive import DamagedError, Description, array, made, real
from tbq.surrogate.feasibility import Bounded, Region
from tbq.surrogate.lognormal import LogNormal, Warp
from tbq.surrogate.outputs import Component, Outputs
from tbq.surrogate.protocol import Surrogate

_MOST_ELEMENTS = 2**28  # of the matrices that all processes of a file need, 2 GiB: sixteen of four thousand points
_HUGE = 1e120  # beyond any log-likelihood that is believed; its square is still a number


class Context(NamedTuple):
    """What of the result a surrogate may be made of."""

    prior: Prior
    likelihood: GaussianLikelihood | None


class Pair(NamedTuple):
    """How a kind of surrogate is described, and rebuilt from that."""

    of: type
    describe: Callable[[Any], Description]
    rebuild: Callable[[Description, Context], Any]


def _describe_gp(gp: gps.GP) -> Description:
    return {
        "kernel": gp.kernel.name,
        "basis": gp.basis,
        "parameters": gp.parameters,
        "x": gp.x,
        "y": gp.y,
        "noise": gp.noise,
        "units": [gp.offset, gp.scale],
    }


def _gp(d: Description, context: Context) -> gps.GP:
    kernel, basis, dim = BY_NAME[d["kernel"]], d["basis"], context.prior.dim
    if basis not in get_args(gps.Basis):
        raise DamagedError("a process has an unknown mean")
    x = array(d, "x", None, dim)
    y, noise = array(d, "y", len(x)), array(d, "noise", len(x))
    offset, scale = (real({"units": unit}, "units") for unit in d["units"])
    parameters = array(d, "parameters", len(kernel.hyperprior(dim, 1.0).mean))
    largest = np.max([np.max(np.abs(a), initial=abs(offset)) for a in (x, y, noise)])
    possible = largest < _HUGE and 1.0 / _HUGE < scale < _HUGE and np.all(np.abs(parameters) < np.log(_HUGE))
    if len(x) == 0 or noise.min() < 0.0 or not possible:
        raise DamagedError("a process has no points, or numbers that no run has")
    gp = gps.build(x, y, noise, kernel, basis, parameters, (offset, scale))
    if not np.isfinite(gp.score):
        raise DamagedError("a process has numbers that do not go together")
    return gp


def _describe_log_normal(s: LogNormal) -> Description:
    warp = None if s.warp is None else asdict(s.warp)
    return {"gp": _describe_gp(s.gp), "cap": s.cap, "inflation": s.inflation, "warp": warp, "deflation": s.deflation}


def _log_normal(d: Description, context: Context) -> LogNormal:
    warp = None if d["warp"] is None else made(Warp, d["warp"])
    deflation = real({"deflation": 1.0, **d}, "deflation")  # which early files do not have
    return LogNormal(_gp(d["gp"], context), real(d, "cap"), real(d, "inflation"), warp, deflation)


def _describe_bounded(s: Bounded) -> Description:
    return {"inner": describe(s.inner), "region": {"gp": _describe_gp(s.region.gp)}}


def _bounded(d: Description, context: Context) -> Bounded:
    return Bounded(rebuilt(d["inner"], context), Region(_gp(d["region"]["gp"], context)))


def _describe_outputs(s: Outputs) -> Description:
    components = [
        {"gp": _describe_gp(c.gp), "experiment": c.experiment, "logarithm_of": c.logarithm_of} for c in s.components
    ]
    return {"components": components, "outside": s.outside, "inflation": s.inflation}


def _outputs(d: Description, context: Context) -> Outputs:
    if context.likelihood is None:
        raise DamagedError("outputs were learned, and there is no likelihood of them")
    experiments = len(context.likelihood.experiments)
    components = tuple(_component(c, experiments, context) for c in d["components"])
    return Outputs(
        components, array(d, "outside", experiments), context.likelihood, context.prior, real(d, "inflation")
    )


def _component(d: Description, experiments: int, context: Context) -> Component:
    experiment, logarithm = d["experiment"], d["logarithm_of"]
    if experiment not in range(experiments):
        raise DamagedError("an output belongs to no experiment")
    if logarithm is not None:
        observed, sd = (real({"logarithm_of": v}, "logarithm_of") for v in logarithm)
        logarithm = observed, sd
    return Component(_gp(d["gp"], context), experiment, logarithm)


_SURROGATES = {
    "outputs": Pair(Outputs, _describe_outputs, _outputs),
    "log_normal": Pair(LogNormal, _describe_log_normal, _log_normal),
    "bounded": Pair(Bounded, _describe_bounded, _bounded),
}


def describe(surrogate: Surrogate[Any]) -> Description:
    """A surrogate in numbers, words and arrays."""
    for kind, pair in _SURROGATES.items():
        if type(surrogate) is pair.of:
            return {"kind": kind, **pair.describe(surrogate)}
    raise TbqError(f"save: a surrogate of type {type(surrogate).__name__} cannot be stored")


def rebuilt(d: Description, context: Context) -> Surrogate[Any]:
    """The surrogate of a description."""
    return _SURROGATES[d["kind"]].rebuild(d, context)


def check_size(d: Description) -> None:
    """Refuse, before anything is made of it, what needs matrices without end."""
    if sum(_elements(d)) > _MOST_ELEMENTS:
        raise DamagedError(f"its surrogates need more than {_MOST_ELEMENTS >> 27} GiB of memory")


def _elements(value: Any) -> Iterator[int]:
    """Of each process's largest matrix: as many rows as it has points, or its mean has terms."""
    if isinstance(value, Mapping):
        if "kernel" in value and isinstance(x := value.get("x"), np.ndarray) and x.ndim == 2:
            terms = (x.shape[1] + 1) * (x.shape[1] + 2) // 2  # of a quadratic mean
            yield max(len(x), terms if value.get("basis") == "quadratic" else x.shape[1] + 1) ** 2
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _elements(item)
