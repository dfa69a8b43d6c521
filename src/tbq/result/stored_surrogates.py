"""Surrogates as numbers, words and arrays, and made again of them; each kind has a pair of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple, get_args

import numpy as np
from scipy.spatial import distance

from tbq.common.errors import TbqError
from tbq.common.types import Array
from tbq.gp import regression as gps
from tbq.gp.batch import Batch, build
from tbq.gp.common import Common
from tbq.gp.kernels import BY_NAME, Kernel
from tbq.gp.levels import Levels, Processes
from tbq.gp.values import Values
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.marginal import Rule
from tbq.problem.prior import Prior
from tbq.result.archive import DamagedError, Description, array, real
from tbq.surrogate.feasibility import Bounded, Region
from tbq.surrogate.guard import Guard
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.noisy_outputs import NoisyOutputs
from tbq.surrogate.outputs import Component, Outputs
from tbq.surrogate.protocol import SPREAD_CLIP, Surrogate
from tbq.surrogate.warp import Frame, Warp

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
    kernel, basis, dim = BY_NAME[d["kernel"]], d["basis"], context.prior.simulated.dim
    if basis not in get_args(gps.Basis):
        raise DamagedError("a process has an unknown mean")
    x = array(d, "x", None, dim)
    y, noise = array(d, "y", len(x)), array(d, "noise", len(x))
    offset, scale = (real({"units": unit}, "units") for unit in d["units"])
    parameters = array(d, "parameters", len(kernel.hyperprior(dim, 1.0).mean))
    if len(x) == 0 or noise.min() < 0.0:
        raise DamagedError("a process has no points, or numbers that no run has")
    _check_numbers((x, y, noise, np.array([offset])), np.array([scale]), parameters)
    gp = gps.build(x, y, noise, kernel, basis, parameters, (offset, scale))
    if not np.isfinite(gp.score):
        raise DamagedError("a process has numbers that do not go together")
    return gp


def _check_numbers(arrays: Sequence[Array], scale: Array, parameters: Array) -> None:
    """Refuse numbers whose squares are none."""
    largest = max(float(np.max(np.abs(a), initial=0.0)) for a in arrays)
    possible = largest < _HUGE and np.all((scale > 1.0 / _HUGE) & (scale < _HUGE))
    if not (possible and np.all(np.abs(parameters) < np.log(_HUGE))):
        raise DamagedError("a process has no points, or numbers that no run has")


def _factor(d: Description, key: str) -> float:
    """A number that standard deviations are multiplied by."""
    if not 0.0 < (value := real(d, key)) < _HUGE:
        raise DamagedError(f"{key} is not a positive number that a run could have")
    return value


def _describe_log_normal(s: LogNormal) -> Description:
    return {
        "gp": _describe_gp(s.gp),
        "cap": s.cap,
        "inflation": s.inflation,
        "warp": None if s.warp is None else asdict(s.warp),
        "deflation": s.deflation,
        "frame": None if s.frame is None else asdict(s.frame),
        "ceiling": s.ceiling,
        "clip": s.clip,
        "noise": s.noise,
        "level": s.level,
        "guard": None if s.guard is None else _describe_guard(s.guard),
        "local": s.local,
    }


def _describe_guard(guard: Guard) -> Description:
    return {"gp": _describe_gp(guard.gp), "warp": asdict(guard.warp), "floor": guard.floor, "margin": guard.margin}


def _log_normal(d: Description, context: Context) -> LogNormal:
    warp = None if d["warp"] is None else _warp(d["warp"], context.prior.dim)
    deflation = _factor({"deflation": 1.0, **d}, "deflation")  # which early files do not have, nor what follows
    frame = None if d.get("frame") is None else _frame(d["frame"], context.prior.dim)
    ceiling, clip = real({"ceiling": np.inf, **d}, "ceiling"), _factor({"clip": SPREAD_CLIP, **d}, "clip")
    noise, level = (real({name: 0.0, **d}, name) for name in ("noise", "level"))
    if not 0.0 <= level <= noise < _HUGE:
        raise DamagedError("a surrogate has noise that no run has")
    factors = (real(d, "cap"), _factor(d, "inflation"))
    guard = None if d.get("guard") is None else _guard(d["guard"], context)
    surrogate = LogNormal(_gp(d["gp"], context), *factors, warp, deflation, frame, ceiling, clip, noise, level, guard)
    return replace(surrogate, local=d.get("local") is True)


def _guard(d: Description, context: Context) -> Guard:
    margin = real(d, "margin")
    if margin < 0.0:
        raise DamagedError("a surrogate has log-depths with a negative margin")
    return Guard(_gp(d["gp"], context), _warp(d["warp"], context.prior.dim), real(d, "floor"), margin)


def _warp(d: Description, dim: int) -> Warp:
    tilt = None if d.get("tilt") is None else array(d, "tilt", dim)
    bowl = None if d.get("bowl") is None else array(d, "bowl", dim, dim + 1)
    return Warp(real(d, "top"), _factor(d, "depth"), tilt, bowl)


def _frame(d: Description, dim: int) -> Frame:
    return Frame(array(d, "center", dim), array(d, "matrix", dim, dim))


def _describe_bounded(s: Bounded) -> Description:
    return {"inner": describe(s.inner), "region": {"gp": _describe_gp(s.region.gp)}, "inflation": s.inflation}


def _bounded(d: Description, context: Context) -> Bounded:
    inflation = _factor(d, "inflation") if "inflation" in d else 1.0  # older files have none
    return Bounded(rebuilt(d["inner"], context), Region(_gp(d["region"]["gp"], context)), inflation)


def _describe_outputs(s: Outputs) -> Description:
    return {**_describe_processes(s), "outside": s.outside}


def _describe_noisy(s: NoisyOutputs) -> Description:
    return {**_describe_processes(s), "design": s.x, "rule": {"phi": s.rule.phi, "log_weights": s.rule.log_weights}}


def _describe_processes(s: Outputs | NoisyOutputs) -> Description:
    return {
        **_describe_levels(s.batch),
        "components": [{"experiment": c.experiment, "logarithm_of": c.logarithm_of} for c in s.components],
        "inflation": s.inflation,
    }


def _describe_levels(processes: Processes) -> Description:
    if isinstance(processes, Levels):
        units = np.stack([processes.centre, processes.spread])
        return {
            "processes": _describe_batch(processes.delta),
            "coarse": {"processes": _describe_batch(processes.coarse), "units": units},
        }
    assert isinstance(processes, (Batch, Common))
    return {"processes": _describe_batch(processes)}


def _describe_batch(batch: Batch | Common) -> Description:
    values = batch.values
    described = {
        "kernel": batch.kernel.name,
        "parameters": batch.parameters,
        "x": values.x,
        "y": values.y,
        "noise": values.noise,
        "seen": values.seen.astype(float),
        "linear": values.linear.astype(float),
        "units": np.stack([values.offset, values.scale]),
    }
    if values.slopes is not None:
        described["slopes"] = values.slopes
    return described if values.given is None else {**described, "given": values.given.astype(float)}


def _noisy(d: Description, context: Context) -> NoisyOutputs:
    noise = None if context.likelihood is None else context.likelihood.noise_model
    if noise is None or context.likelihood is None or context.prior.dim - context.prior.simulated.dim != noise.size:
        raise DamagedError("outputs were learned with noise parameters that the likelihood does not have")
    components = tuple(_component(c, 1) for c in d["components"])
    x = array(d, "design", len(noise.data), len(components) + 1)
    phi = array(d["rule"], "phi", None, noise.size)
    if noise.prior is not None and not noise.prior.contains(phi).all():
        raise DamagedError("its surrogate has noise parameters outside their prior")
    rule = Rule(phi, array(d["rule"], "log_weights", len(phi)))
    batch = _levels(d, len(components), context)
    return NoisyOutputs(batch, components, x, context.likelihood, context.prior, rule, _factor(d, "inflation"))


def _outputs(d: Description, context: Context) -> Outputs:
    if context.likelihood is None:
        raise DamagedError("outputs were learned, and there is no likelihood of them")
    experiments = len(context.likelihood.experiments)
    components = tuple(_component(c, experiments) for c in d["components"])
    outside, inflation = array(d, "outside", experiments), _factor(d, "inflation")
    batch = _levels(d, len(components), context) if "processes" in d else _batch_of_each(d, context)
    return Outputs(batch, components, outside, context.likelihood, context.prior, inflation)


def _levels(d: Description, size: int, context: Context) -> Processes:
    """The processes of one level, or of two."""
    if "coarse" not in d:
        return _batch(d["processes"], size, context)
    below = d["coarse"]
    count = len(below["processes"]["y"])
    coarse = _batch(below["processes"], count, context)
    centre, spread = array(below, "units", 2, count)
    _check_numbers((centre,), spread, np.zeros(1))
    return Levels(_batch(d["processes"], size, context, count), coarse, centre, spread)


def _batch(d: Description, size: int, context: Context, extra: int = 0) -> Batch:
    """``extra`` columns of the points are means of a coarse level."""
    kernel, dim = BY_NAME[d["kernel"]], context.prior.simulated.dim
    x = array(d, "x", None, dim + extra)
    y, noise, seen = (array(d, name, size, len(x)) for name in ("y", "noise", "seen"))
    linear, units = array(d, "linear", size), array(d, "units", 2, size)
    parameters = array(d, "parameters", size, len(kernel.hyperprior(dim, 1.0).mean))
    given = array(d, "given", size).astype(int) if extra else None
    if given is not None and (given.min() < -1 or given.max() >= extra):
        raise DamagedError("a process has a term that is not there")
    slopes = array(d, "slopes", dim) if "slopes" in d else None
    if slopes is not None and not (np.isfinite(slopes) & (slopes > 0.0)).all():
        raise DamagedError("a process has slopes of no width")
    values = Values(x, y, noise, seen > 0.0, linear > 0.0, units[0], units[1], given, extra, slopes)
    return _checked(values, kernel, parameters)


def _checked(values: Values, kernel: Kernel, parameters: Array) -> Batch:
    _check_numbers((values.x, values.y, values.noise, values.offset), values.scale, parameters)
    if len(values.seen) == 0 or not values.seen.any(axis=1).all() or values.noise.min() < 0.0:
        raise DamagedError("a process has no points, or numbers that no run has")
    batch = build(values, kernel, parameters)
    if not np.isfinite(batch.score).all():
        raise DamagedError("a process has numbers that do not go together")
    return batch


def _batch_of_each(d: Description, context: Context) -> Batch:
    """Early files have the processes of outputs one by one, each with the points of the runs that it saw."""
    each = [_gp(c["gp"], context) for c in d["components"]]
    x = np.unique(np.concatenate([gp.x for gp in each]), axis=0)
    y, noise, seen = np.zeros((len(each), len(x))), np.ones((len(each), len(x))), np.zeros((len(each), len(x)), bool)
    for k, gp in enumerate(each):
        rows = np.argmin(distance.cdist(gp.x, x), axis=1)
        y[k, rows], noise[k, rows], seen[k, rows] = gp.y, gp.noise, True
    linear = np.array([gp.basis == "linear" for gp in each])
    offset, scale = np.array([(gp.offset, gp.scale) for gp in each]).T
    if any(gp.kernel is not each[0].kernel or gp.basis == "quadratic" for gp in each):
        raise DamagedError("its processes are of different kinds")
    return _checked(
        Values(x, y, noise, seen, linear, offset, scale), each[0].kernel, np.array([g.parameters for g in each])
    )


def _component(d: Description, experiments: int) -> Component:
    experiment, logarithm = d["experiment"], d["logarithm_of"]
    if experiment not in range(experiments):
        raise DamagedError("an output belongs to no experiment")
    if logarithm is not None:
        observed, sd = (real({"logarithm_of": v}, "logarithm_of") for v in logarithm)
        logarithm = observed, sd
    return Component(experiment, logarithm)


_SURROGATES = {
    "outputs": Pair(Outputs, _describe_outputs, _outputs),
    "noisy_outputs": Pair(NoisyOutputs, _describe_noisy, _noisy),
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
            y = value.get("y")
            processes = len(y) if isinstance(y, np.ndarray) and y.ndim == 2 else 1
            yield processes * max(len(x), terms if value.get("basis") == "quadratic" else x.shape[1] + 1) ** 2
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _elements(item)
