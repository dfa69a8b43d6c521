"""A result in one file: a zip of ``result.json`` and NumPy arrays, so that ``numpy.load`` reads it too. No pickles.

Functions are not stored: not the simulator, not a prior's constraint, not a noise's scale. What they are needed for is
said when it is missing, and :func:`load` takes them again.
"""

from __future__ import annotations

import json
import math
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from tbq.common.arguments import file_path
from tbq.common.errors import ArgumentError, TbqError
from tbq.common.types import Array, Distribution
from tbq.engine.records import ErrorBudget, Record, Stage, Stop
from tbq.gp import regression as gps
from tbq.gp.kernels import BY_NAME
from tbq.problem import records
from tbq.problem.likelihood import Experiment, GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.result.posterior_prior import PosteriorPrior
from tbq.result.result import Result
from tbq.surrogate.feasibility import Bounded, Region
from tbq.surrogate.lognormal import LogNormal, Warp
from tbq.surrogate.outputs import Component, Outputs
from tbq.surrogate.protocol import Surrogate

FORMAT = 1
_TEXT = "result.json"
Description = Mapping[str, Any]  # of numbers, words, arrays, and lists and mappings of them


def save(result: Result, path: str | Path) -> None:
    """Write a result to one file, whole or not at all."""
    from tbq.common.version import __version__ as version

    path = file_path("save", path)
    if reason := _not_stored(result.prior):
        _warn(f"{reason} and is not stored; to read the file, give the prior: tbq.load(path, prior=...)")
    if _has_scale(result):
        _warn(
            "the scale of the likelihood's noise is a function and is not stored; to go on from the file, give the "
            "likelihood: tbq.load(path, likelihood=...)"
        )
    arrays: dict[str, Array] = {}
    text = json.dumps(_pack({"format": FORMAT, "version": version, **_describe(result)}, "", arrays), allow_nan=False)
    part = path.with_name(f"{path.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(_TEXT, text)
            for name, array in arrays.items():
                with file.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise TbqError(f"save: {path} cannot be written: {error.strerror}") from error


def load(path: str | Path, *, prior: Prior | None = None, likelihood: GaussianLikelihood | None = None) -> Result:
    """Read a result that :meth:`tbq.Result.save` wrote.

    Parameters
    ----------
    path
        The file.
    prior
        The result's prior, where it has a constraint or a distribution that is not one of ``scipy.stats``.
    likelihood
        The result's :class:`tbq.GaussianLikelihood`, for its model, and for its noise where that has a scale.
    """
    path = file_path("load", path)
    description = _read(path)
    try:
        return _result(description, prior, likelihood)
    except (KeyError, TypeError) as error:
        raise TbqError(f"load: {path} is damaged: {type(error).__name__} {error}") from error


def _warn(message: str) -> None:
    warnings.warn(f"save: {message}", stacklevel=4)  # where Result.save was called


# --- the file -----------------------------------------------------------------------------------------------


def _read(path: Path) -> Description:
    try:
        with zipfile.ZipFile(path) as file:
            text = json.loads(file.read(_TEXT))
            if text["format"] != FORMAT:
                raise TbqError(
                    f"load: {path} has format {text['format']} of tbq {text['version']}; this tbq reads format {FORMAT}"
                )
            arrays = {n: _array(file, n) for n in file.namelist() if n.endswith(".npy")}
    except OSError as error:
        raise TbqError(f"load: {path} cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise TbqError(f"load: {path} is not a result that tbq saved, or it is damaged: {error}") from error
    return _unpack(text, arrays)


def _array(file: zipfile.ZipFile, name: str) -> Array:
    with file.open(name) as member:
        return np.lib.format.read_array(member, allow_pickle=False)


def _pack(value: Any, name: str, arrays: dict[str, Array]) -> Any:
    """The same with arrays moved to ``arrays`` under the path that leads to them, and numbers as JSON has them."""
    if isinstance(value, Mapping):
        return {k: _pack(v, f"{name}.{k}" if name else k, arrays) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_pack(v, f"{name}.{i}", arrays) for i, v in enumerate(value)]
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"number": str(float(value))}
    return value.item() if isinstance(value, np.generic) else value


def _unpack(value: Any, arrays: Mapping[str, Array]) -> Any:
    if isinstance(value, list):
        return [_unpack(v, arrays) for v in value]
    if not isinstance(value, dict):
        return value
    if [*value] == ["array"]:
        return arrays[f"{value['array']}.npy"]
    return float(value["number"]) if [*value] == ["number"] else {k: _unpack(v, arrays) for k, v in value.items()}


# --- results ------------------------------------------------------------------------------------------------


def _describe(result: Result) -> Description:
    """What is numbers, words and arrays as it is, the rest described."""
    return {
        **{f.name: getattr(result, f.name) for f in fields(result)},
        "prior": _describe_prior(result.prior),
        "surrogate": None if result.surrogate is None else _describe_surrogate(result.surrogate),
        "errors": asdict(result.errors),
        "evaluations": [records.evaluation_record(e) for e in result.evaluations],
        "stages": [asdict(s) for s in result.stages],
        "history": [asdict(r) for r in result.history],
        "stop": result.stop.name,
        "likelihood": None if result.likelihood is None else _describe_likelihood(result.likelihood),
    }


def _result(d: Description, prior: Prior | None, likelihood: GaussianLikelihood | None) -> Result:
    prior = _prior(d["prior"], prior)
    likelihood = _likelihood(d["likelihood"], likelihood)
    d = {**d, "squared_z": d.get("squared_z", d.get("surprises", ()))}  # its name in older files
    stored = {f.name: d[f.name] for f in fields(Result) if f.name in d}  # what came later than the file has its default
    described = {
        "prior": prior,
        "surrogate": None if d["surrogate"] is None else _surrogate(d["surrogate"], Context(prior, likelihood)),
        "errors": ErrorBudget(**d["errors"]),
        "evaluations": tuple(records.evaluation_of(r) for r in d["evaluations"]),
        "stages": tuple(Stage(**s) for s in d["stages"]),
        "history": tuple(Record(**r) for r in d["history"]),
        "stop": Stop[d["stop"]],
        "likelihood": likelihood,
    }
    return Result(**{k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()} | described)


# --- priors -------------------------------------------------------------------------------------------------


def _describe_prior(prior: Prior) -> Description:
    known_by = {"known_by": records.prior_record(prior), "not_stored": _not_stored(prior)}
    if known_by["not_stored"]:
        return known_by
    if isinstance(prior, PosteriorPrior):
        return {**known_by, "posterior_of": _describe(prior.result)}
    marginals = [{"name": name, **_describe_marginal(m)} for name, m in prior.marginals.items()]
    return {**known_by, "marginals": marginals, "correlation": prior.correlation, "units": prior.units}


def _not_stored(prior: Prior) -> str:
    """What of a prior cannot be stored; nothing where all can."""
    if isinstance(prior, PosteriorPrior):
        scale = "the scale of the noise behind the prior is a function" if _has_scale(prior.result) else ""
        return _not_stored(prior.result.prior) or scale
    if prior.constraint is not None:
        return "the prior's constraint is a function"
    foreign = [n for n, m in prior.marginals.items() if type(getattr(stats, m.dist.name, None)) is not type(m.dist)]
    return f"the distribution of {foreign[0]!r} is not one of scipy.stats" if foreign else ""


def _prior(d: Description, given: Prior | None) -> Prior:
    if given is None and d["not_stored"]:
        raise ArgumentError(
            f"load: {d['not_stored']} and is not stored; give it: tbq.load(path, prior=...). "
            f"It was {d['known_by']['description']}"
        )
    prior = _rebuilt_prior(d) if given is None else given
    if not isinstance(prior, Prior):
        raise ArgumentError(f"load: prior must be a tbq.Prior; got {type(prior).__name__}")
    if not records.same_prior(d["known_by"], prior):
        raise ArgumentError(f"load: prior must be the result's, {d['known_by']['description']}; got {prior!r}")
    return prior


def _rebuilt_prior(d: Description) -> Prior:
    if "posterior_of" in d:
        return PosteriorPrior(_result(d["posterior_of"], None, None))
    marginals = [(m["name"], _marginal(m)) for m in d["marginals"]]
    return Prior(marginals, correlation=d["correlation"], units=d.get("units"))


def _describe_marginal(marginal: Distribution) -> Description:
    arguments = {k: float(v) for k, v in marginal.kwds.items()}
    return {"distribution": marginal.dist.name, "args": [float(a) for a in marginal.args], "kwds": arguments}


def _marginal(d: Description) -> Distribution:
    return getattr(stats, d["distribution"])(*d["args"], **d["kwds"])


# --- likelihoods --------------------------------------------------------------------------------------------


class NotStored:
    """Stands for a function that a file cannot hold."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self, theta: Array) -> Any:
        raise TbqError(f"{self.what} is a function and was not stored; give it: tbq.load(path, likelihood=...)")


def _has_scale(result: Result) -> bool:
    return result.likelihood is not None and result.likelihood.scaled


def _describe_likelihood(likelihood: GaussianLikelihood) -> list[Description]:
    return [
        {"observed": e.observed, "factor": e.factor, "normalized": e.normalized, "scaled": e.scale is not None}
        for e in likelihood.experiments
    ]


def _likelihood(d: list[Description] | None, given: GaussianLikelihood | None) -> GaussianLikelihood | None:
    if given is not None and not isinstance(given, GaussianLikelihood):
        raise ArgumentError(f"load: likelihood must be a tbq.GaussianLikelihood; got {type(given).__name__}")
    if given is None:
        return None if d is None else GaussianLikelihood.of(tuple(_experiment(e) for e in d))
    if d is None:
        raise ArgumentError("load: likelihood is given, but the result was not of a tbq.GaussianLikelihood")
    if len(d) != len(given.experiments) or not all(map(_same_experiment, d, given.experiments)):
        raise ArgumentError("load: likelihood must be the result's; its data, noise or normalisation are others")
    return given


def _experiment(d: Description) -> Experiment:
    scale = NotStored("the scale of the likelihood's noise") if d["scaled"] else None
    return Experiment(NotStored("the likelihood's model"), d["observed"], d["factor"], scale, d["normalized"])


def _same_experiment(d: Description, e: Experiment) -> bool:
    arrays = np.array_equal(d["observed"], e.observed) and np.array_equal(d["factor"], e.factor)
    return arrays and (d["normalized"], d["scaled"]) == (e.normalized, e.scale is not None)


# --- surrogates ---------------------------------------------------------------------------------------------


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


def _gp(d: Description) -> gps.GP:
    units = (d["units"][0], d["units"][1])
    return gps.build(d["x"], d["y"], d["noise"], BY_NAME[d["kernel"]], d["basis"], d["parameters"], units)


def _describe_log_normal(s: LogNormal) -> Description:
    warp = None if s.warp is None else asdict(s.warp)
    return {"gp": _describe_gp(s.gp), "cap": s.cap, "inflation": s.inflation, "warp": warp, "deflation": s.deflation}


def _log_normal(d: Description, context: Context) -> LogNormal:
    warp = None if d["warp"] is None else Warp(**d["warp"])
    return LogNormal(_gp(d["gp"]), d["cap"], d["inflation"], warp, d.get("deflation", 1.0))


def _describe_bounded(s: Bounded) -> Description:
    return {"inner": _describe_surrogate(s.inner), "region": {"gp": _describe_gp(s.region.gp)}}


def _bounded(d: Description, context: Context) -> Bounded:
    return Bounded(_surrogate(d["inner"], context), Region(_gp(d["region"]["gp"])))


def _describe_outputs(s: Outputs) -> Description:
    components = [
        {"gp": _describe_gp(c.gp), "experiment": c.experiment, "logarithm_of": c.logarithm_of} for c in s.components
    ]
    return {"components": components, "outside": s.outside, "inflation": s.inflation}


def _outputs(d: Description, context: Context) -> Outputs:
    assert context.likelihood is not None
    components = tuple(
        Component(_gp(c["gp"]), c["experiment"], None if c["logarithm_of"] is None else tuple(c["logarithm_of"]))
        for c in d["components"]
    )
    return Outputs(components, d["outside"], context.likelihood, context.prior, d["inflation"])


_SURROGATES = {
    "outputs": Pair(Outputs, _describe_outputs, _outputs),
    "log_normal": Pair(LogNormal, _describe_log_normal, _log_normal),
    "bounded": Pair(Bounded, _describe_bounded, _bounded),
}


def _describe_surrogate(surrogate: Surrogate[Any]) -> Description:
    for kind, pair in _SURROGATES.items():
        if type(surrogate) is pair.of:
            return {"kind": kind, **pair.describe(surrogate)}
    raise TbqError(f"save: a surrogate of type {type(surrogate).__name__} cannot be stored")


def _surrogate(d: Description, context: Context) -> Surrogate[Any]:
    return _SURROGATES[d["kind"]].rebuild(d, context)
