"""A result in one file: what it is, described in numbers, words and arrays (:mod:`tbq.result.archive`).

Functions are not stored: not the simulator, not a prior's constraint, not a noise's scale. What they are needed for is
said when it is missing, and :func:`load` takes them again. A file may come from anybody: nothing in it is called or
believed before it was found to be what it must be.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from tbq.common.arguments import file_path
from tbq.common.errors import ArgumentError, TbqError
from tbq.common.types import Array
from tbq.common.words import described, one_line
from tbq.engine.records import ErrorBudget, Record, Stage, Stop
from tbq.problem import records
from tbq.problem.evaluation import Evaluation
from tbq.problem.families import families
from tbq.problem.joint_prior import JointPrior, joint
from tbq.problem.likelihood import Experiment, GaussianLikelihood, Labels
from tbq.problem.prior import Prior
from tbq.result import archive, stored_noise
from tbq.result import stored_surrogates as surrogates
from tbq.result.archive import DamagedError, Description, array, made, real
from tbq.result.posterior_prior import PosteriorPrior
from tbq.result.result import Result
from tbq.result.stored_surrogates import Context

_MOST_PARAMETERS = 1000  # that a file may have: ten times what anybody has learned with
_MOST_OPTIONS = 100  # likewise
_DRAWS = 8  # at which the surrogate of a file is asked for its density


class _GivenError(ArgumentError):
    """What was given to ``load`` does not go with the file."""


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
    archive.write(path, {"version": version, **_describe(result)})


def load(path: str | Path, *, prior: Prior | None = None, likelihood: GaussianLikelihood | None = None) -> Result:
    """Read a result that :meth:`tbq.Result.save` wrote.

    Nothing in the file is run, whoever wrote it: it holds numbers and words, and what is none of a result is refused.

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
    description = archive.read(path)
    try:
        surrogates.check_size(description)
        with np.errstate(all="ignore"):  # what comes of numbers that cannot be is looked at afterwards
            return _result(description, prior, likelihood)
    except _GivenError:
        raise
    except Exception as error:  # whatever a crafted file can bring about
        raise DamagedError(f"load: {path} is damaged: {_why(error)}") from error


def _why(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"there is no {one_line(str(error), 40)}"
    return one_line(str(error) if isinstance(error, TbqError) else described(error))


def _warn(message: str) -> None:
    warnings.warn(f"save: {message}", stacklevel=4)  # where Result.save was called


# --- results ------------------------------------------------------------------------------------------------


def _describe(result: Result) -> Description:
    """What is numbers, words and arrays as it is, the rest described."""
    return {
        **{f.name: getattr(result, f.name) for f in fields(result)},
        "prior": _describe_prior(result.prior),
        "surrogate": None if result.surrogate is None else surrogates.describe(result.surrogate),
        "errors": asdict(result.errors),
        "evaluations": [records.evaluation_record(e) for e in result.evaluations],
        "coarse": [records.evaluation_record(e) for e in result.coarse],
        "stages": [asdict(s) for s in result.stages],
        "history": [asdict(r) for r in result.history],
        "stop": result.stop.name,
        "likelihood": None if result.likelihood is None else _describe_likelihood(result.likelihood),
    }


def _result(d: Description, prior: Prior | None, likelihood: GaussianLikelihood | None) -> Result:
    likelihood = _likelihood(d["likelihood"], likelihood)
    prior = _prior(d["prior"], prior, None if likelihood is None else likelihood.noise_prior)
    d = {**d, "squared_z": d.get("squared_z", d.get("surprises", ()))}  # its name in older files
    stored = {f.name: d[f.name] for f in fields(Result) if f.name in d}  # what came later than the file has its default
    described = {
        "prior": prior,
        "surrogate": None if d["surrogate"] is None else surrogates.rebuilt(d["surrogate"], Context(prior, likelihood)),
        "log_evidence": real(d, "log_evidence"),
        "errors": made(ErrorBudget, d["errors"]),
        "samples": array(d, "samples", None, prior.dim),
        "evaluations": tuple(_evaluation(r, prior.simulated.dim) for r in d["evaluations"]),
        "coarse": tuple(_evaluation(r, prior.simulated.dim) for r in d.get("coarse", ())),
        "stages": tuple(made(Stage, s) for s in d["stages"]),
        "history": tuple(made(Record, {"error": r["cov"], **r}) for r in d["history"]),
        "stop": Stop[d["stop"]],
        "likelihood": likelihood,
    }
    result = Result(**{k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()} | described)
    _check_numbers(result)
    return result


def _evaluation(record: Description, dim: int) -> Evaluation:
    e = records.evaluation_of(record)
    if e.theta.shape != (dim,) or not np.all(np.isfinite(e.theta)) or (e.outputs is not None and e.outputs.ndim != 1):
        raise DamagedError("a run has no theta that the prior could have, or outputs that are no list")
    if e.log_likelihood_sd is not None and not 0.0 <= e.log_likelihood_sd < np.inf:
        raise DamagedError("a run's noise is not what it must be")
    if not all(isinstance(v, t) for v, t in ((e.id, int), (e.stage, int), (e.origin, str), (e.message, str))):
        raise DamagedError("a run has words for numbers, or numbers for words")
    return e


def _check_numbers(result: Result) -> None:
    """Refuse numbers that no run has, and a surrogate that does not know the posterior's own draws."""
    weights, squared_z = np.asarray(result.weights), np.asarray(result.squared_z)
    if any(a.ndim != 1 or a.dtype.kind != "f" or not np.all(a >= 0.0) for a in (weights, squared_z) if a.size):
        raise DamagedError("weights or squared z-scores are not positive numbers")
    words = (result.outage, *result.notes)
    if not all(isinstance(word, str) for word in words) or not isinstance(result.seed, int | None):
        raise DamagedError("notes, outage or seed are not what they must be")
    if not _plain_options(result.options):
        raise DamagedError("its options are not what they must be")
    if not real(vars(result), "seconds") >= 0.0:
        raise DamagedError("seconds are negative")
    data = None if result.likelihood is None else result.likelihood.observed.shape
    if not 0.0 <= real(vars(result), "coarse_cost") < np.inf:
        raise DamagedError("the cost of a coarse run is negative")
    runs = (*result.evaluations, *result.coarse)
    if data and any(e.outputs is not None and e.outputs.shape != data for e in runs):
        raise DamagedError("a run has other outputs than were observed")
    if result.surrogate is None:
        return
    if not (result.evaluations and result.stages and len(result.samples) and np.isfinite(result.log_evidence)):
        raise DamagedError("it has a surrogate, and no runs, stages, draws or evidence")
    if not _support(result.prior).contains(result.samples).all():
        raise DamagedError("it has draws outside the prior")
    if result.likelihood is not None and any(isinstance(e.scale, NotStored) for e in result.likelihood.experiments):
        return  # without its noise it has no density
    if not np.all(np.isfinite(result.log_density(result.samples[:_DRAWS]))):
        raise DamagedError("its surrogate has no density at the posterior's own draws")


def _plain_options(options: Any) -> bool:
    """Whether these are words, numbers and lists of numbers; tolerances are pairs of them."""
    if not isinstance(options, dict) or len(options) > _MOST_OPTIONS:
        return False
    pairs = [options.get(name) for name in ("tolerance", "tolerance_in_use")] if options else []
    if not all(isinstance(p, list) and [type(v) for v in p] == [float, float] for p in pairs):
        return False
    if options and not isinstance(options.get("max_evaluations"), int):
        return False
    values = [v for value in options.values() for v in (value if isinstance(value, list | tuple) else [value])]
    return all(isinstance(v, str | int | float) for v in values) and all(isinstance(k, str) for k in options)


def _support(prior: Prior) -> Prior:
    """The first of a chain of priors: all have its support."""
    return _support(prior.result.prior) if isinstance(prior, PosteriorPrior) else prior


# --- priors -------------------------------------------------------------------------------------------------


def _describe_prior(prior: Prior) -> Description:
    known_by: Description = {"known_by": records.prior_record(prior), "not_stored": _not_stored(prior)}
    known_by = known_by if prior.mixing is None else {**known_by, "whitened": True}
    if known_by["not_stored"]:
        return known_by
    if isinstance(prior, PosteriorPrior):
        return {**known_by, "posterior_of": _describe(prior.result)}
    if isinstance(prior, JointPrior):
        return {**known_by, "simulated": _describe_prior(prior.simulated), "noise": _describe_prior(prior.noise)}
    marginals = [{"name": name, **stored_noise.describe_marginal(m)} for name, m in prior.marginals.items()]
    return {**known_by, "marginals": marginals, "correlation": prior.correlation, "units": [*prior.units.items()]}


def _not_stored(prior: Prior) -> str:
    """What of a prior cannot be stored; nothing where all can."""
    if isinstance(prior, PosteriorPrior):
        scale = "the scale of the noise behind the prior is a function" if _has_scale(prior.result) else ""
        return _not_stored(prior.result.prior) or scale
    if isinstance(prior, JointPrior):
        return _not_stored(prior.simulated) or _not_stored(prior.noise)
    if prior.constraint is not None:
        return "the prior's constraint is a function"
    foreign = [n for n, m in prior.marginals.items() if type(families().get(m.dist.name)) is not type(m.dist)]
    return f"the distribution of {foreign[0]!r} is not one of scipy.stats" if foreign else ""


def _prior(d: Description, given: Prior | None, noise: Prior | None = None) -> Prior:
    known_by, missing = d["known_by"], d["not_stored"]
    was = one_line(known_by["description"])
    if given is None and missing:
        raise _GivenError(
            f"load: {one_line(missing)} and is not stored; give it: tbq.load(path, prior=...). It was {was}"
        )
    if given is not None and not isinstance(given, Prior):
        raise _GivenError(f"load: prior must be a tbq.Prior; got {type(given).__name__}")
    if given is not None and noise is not None and set(noise.names) <= set(known_by["names"]):
        given = joint(given, noise)
    prior = given or _rebuilt_prior(d)
    if not records.same_prior(known_by, prior):
        wrong = _GivenError if given else DamagedError
        raise wrong(f"load: prior must be the result's, {was}; got {prior!r}")
    return prior if d.get("whitened") else prior.unmixed  # as early files are


def _rebuilt_prior(d: Description) -> Prior:
    if "posterior_of" in d:
        return PosteriorPrior(_result(d["posterior_of"], None, None))
    if "simulated" in d:
        return joint(_rebuilt_prior(d["simulated"]), _rebuilt_prior(d["noise"]))
    if len(d["marginals"]) > _MOST_PARAMETERS:
        raise DamagedError(f"it has more than {_MOST_PARAMETERS} parameters")
    marginals = [(m["name"], stored_noise.marginal(m)) for m in d["marginals"]]
    return Prior(marginals, correlation=d["correlation"], units=dict(d.get("units", ())))


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
    return [_describe_experiment(e) for e in likelihood.experiments]


def _describe_experiment(e: Experiment) -> Description:
    labels = {"labels": asdict(e.labels)}
    if e.noise_model is not None:
        used = None if e.used is None else e.used.astype(float)
        return {"noise_model": stored_noise.describe(e.noise_model), "used": used, **labels}
    scaled = e.scale is not None
    return {"observed": e.observed, "factor": e.factor, "normalized": e.normalized, "scaled": scaled, **labels}


def _likelihood(d: list[Description] | None, given: GaussianLikelihood | None) -> GaussianLikelihood | None:
    if given is not None and not isinstance(given, GaussianLikelihood):
        raise _GivenError(f"load: likelihood must be a tbq.GaussianLikelihood; got {type(given).__name__}")
    if given is None:
        return None if d is None else GaussianLikelihood.of(tuple(_experiment(e) for e in d))
    if d is None:
        raise _GivenError("load: likelihood is given, but the result was not of a tbq.GaussianLikelihood")
    if len(d) != len(given.experiments) or not all(map(_same_experiment, d, given.experiments)):
        raise _GivenError("load: likelihood must be the result's; its data, noise or normalisation are others")
    return given


def _experiment(d: Description) -> Experiment:
    if "noise_model" in d:
        noise = stored_noise.rebuilt(d["noise_model"])
        used = None if d["used"] is None else array(d, "used", noise.outputs).astype(int)
        labels = _labels(d.get("labels", {}), noise.outputs)
        return Experiment.of_noise(NotStored("the likelihood's model"), noise, labels, used)
    observed = array(d, "observed", None)
    full = isinstance(d["factor"], np.ndarray) and d["factor"].ndim == 2
    factor = array(d, "factor", *([len(observed)] * (2 if full else 1)))
    if len(observed) == 0 or not np.all((np.diag(factor) if full else factor) > 0.0):
        raise DamagedError("an experiment has no data, or noise that is not positive")
    if not isinstance(d["scaled"], bool) or not isinstance(d["normalized"], bool):
        raise DamagedError("an experiment does not say how its noise is to be taken")
    scale = NotStored("the scale of the likelihood's noise") if d["scaled"] else None
    labels = _labels(d.get("labels", {}), len(observed))  # which early files do not have
    return Experiment(NotStored("the likelihood's model"), observed, factor, scale, d["normalized"], labels)


def _labels(d: Description, m: int) -> Labels:
    names, units, along = tuple(d.get("names", ())), tuple(d.get("units", ())), d.get("along", "")
    if not all(isinstance(w, str) for w in (*names, *units, along)) or {len(names), len(units)} - {0, m}:
        raise DamagedError("outputs have names or units that are none, or more than there are data")
    coordinates = None if d.get("coordinates") is None else array(d, "coordinates", m)
    return Labels(names, units, coordinates, along)


def _same_experiment(d: Description, e: Experiment) -> bool:
    if e.noise_model is not None or "noise_model" in d:
        both = [{k: v for k, v in one.items() if k != "labels"} for one in (d, _describe_experiment(e))]
        return stored_noise.same(*both)
    arrays = np.array_equal(d["observed"], e.observed) and np.array_equal(d["factor"], e.factor)
    return arrays and (d["normalized"], d["scaled"]) == (e.normalized, e.scale is not None)
