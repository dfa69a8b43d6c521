"""Before the night: a few runs of a likelihood, compared with each other and with the data; what speaks against it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.linalg import norm

from tbq.common.arguments import floats, function
from tbq.common.errors import SimulatorError, TbqError
from tbq.common.randomness import stream
from tbq.common.types import Array
from tbq.common.words import described, duration, one_line
from tbq.problem.likelihood import GaussianLikelihood, noise_parameters
from tbq.problem.prior import Prior, check_prior
from tbq.problem.settings import Settings, resolve

_PATIENCE = 60.0  # seconds of a run from which on none is made a second time only to compare
_FAR = 1e3  # standard deviations of the noise: farther than this the data or their units may be wrong
_OUTSIDE = 10.0  # standard deviations, of runs and noise together, at which data are far from what the prior predicts
_READ = 0.01  # fraction of what outputs differ by between draws that the same theta, written shorter, may change
_DIGITS = 6  # significant digits of a theta that is written shorter
_LISTED = 3  # numbers of outputs that a sentence names


@dataclass(frozen=True)
class Seen:
    """One run."""

    theta: Array  # (d,)
    outputs: Array  # (m,); one log-likelihood where there are no data
    seconds: float
    error: str = ""


@dataclass(frozen=True)
class Preflight:
    """What was seen before a run. See :func:`check`."""

    runs: tuple[Seen, ...]  # at the prior mean and at two draws of the prior; then the first again, if it was short
    log_likelihoods: tuple[float, ...]  # of the first three
    warnings: tuple[str, ...]  # what speaks against it, in sentences
    forecast: str

    @property
    def ok(self) -> bool:
        return not self.warnings

    def summary(self) -> str:
        """All of it in words."""
        where = ("the prior mean", "a draw of the prior", "another draw")
        lines = []
        for place, run, value in zip(where, self.runs, self.log_likelihoods, strict=False):
            found = f"failed: {one_line(run.error)}" if run.error else f"log-likelihood {value:.6g}"
            lines.append(f"at {place:<20} {found}, {duration(run.seconds)}")
        lines += [f"! {warning}" for warning in self.warnings] or ["Nothing wrong was seen."]
        return "\n".join([*lines, self.forecast])

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        n = len(self.warnings)
        seen = "nothing wrong was seen" if n == 0 else f"{n} warning{'s' if n > 1 else ''}; print it"
        return f"<Preflight: {seen}>"


def check(log_likelihood: Callable[[Array], Any], prior: Prior, *, workers: int = 1, seed: int = 0) -> Preflight:
    """Make three or four runs before a long run, and say what speaks against it.

    They are made at the prior mean and at two draws of the prior; where a run takes less than a minute, the first is
    made again. A coarse model is run once.

    Parameters
    ----------
    log_likelihood
        As of :func:`tbq.infer`: a function of ``theta``, or a :class:`tbq.GaussianLikelihood`.
    prior
        A :class:`tbq.Prior`.
    workers
        Runs at a time that are planned, for the forecast.
    seed
        Of the two draws.

    Returns
    -------
    Preflight
        ``print`` it; ``ok`` says whether nothing was found, ``warnings`` has a sentence for each thing that was.

    Raises
    ------
    TbqError
        Where an argument is wrong. A run that fails is a warning.

    Examples
    --------
    >>> problem = tbq.problems.get("u1")
    >>> tbq.check(problem.log_likelihood, problem.prior).ok
    True
    """
    function("log_likelihood", log_likelihood)
    check_prior(prior)
    prior = prior.simulated
    gaussian = log_likelihood if isinstance(log_likelihood, GaussianLikelihood) else None
    model = (lambda theta: gaussian.evaluate(theta)[1]) if gaussian else log_likelihood
    runs = list(others(model, prior, attempt(model, prior_mean(prior)), seed=seed))
    values = [_value(run, gaussian) for run in runs[:3]]
    coarse = gaussian is not None and gaussian.has_coarse
    settings = resolve(prior.dim, outputs=gaussian is not None, noise=noise_parameters(log_likelihood), coarse=coarse)
    seconds = float(np.mean([run.seconds for run in runs[:3]]))
    found = (*doubts(runs, gaussian), *coarse_doubts(gaussian, runs[0].theta))
    return Preflight(tuple(runs), tuple(values), found, forecast(seconds, settings, workers))


def coarse_doubts(likelihood: GaussianLikelihood | None, theta: Array) -> Iterator[str]:
    """A sentence where a coarse model does not run, or returns something else than the model."""
    if likelihood is not None and likelihood.has_coarse:
        below = likelihood.at("coarse")
        run = attempt(lambda theta: below.evaluate(theta)[1], theta)
        if run.error:
            yield f"The coarse model's run at the prior mean failed: {one_line(run.error)}"


def _value(run: Seen, likelihood: GaussianLikelihood | None) -> float:
    """The log-likelihood of a run; nan where it has none."""
    if run.error or (likelihood is None and run.outputs.size != 1):
        return float("nan")
    return float(run.outputs[0] if likelihood is None else likelihood.from_outputs(run.theta, run.outputs))


def others(
    model: Callable[[Array], Any], prior: Prior, first: Seen, *, seed: int = 0, short: bool = False
) -> Iterator[Seen]:
    """The run at the prior mean, runs at two draws, and the first again if it was quick, by a theta written shorter."""
    yield first
    for theta in prior.sample(2, stream(seed, "preflight")):
        yield attempt(model, theta)
    if not first.error and first.seconds < _PATIENCE:
        yield attempt(model, shortened(first.theta) if short else first.theta)


def attempt(model: Callable[[Array], Any], theta: Array) -> Seen:
    """One run; what went wrong is part of it."""
    start = time.perf_counter()
    try:
        outputs, error = numbers_of(model, theta.copy()), ""
    except TbqError as problem:
        outputs, error = np.empty(0), str(problem) or type(problem).__name__
    return Seen(theta, outputs, time.perf_counter() - start, error)


def numbers_of(model: Callable[[Array], Any], theta: Array) -> Array:
    """What a model returns, as an array; raises a :class:`SimulatorError` in words where there is none."""
    try:
        outputs = model(theta)
    except TbqError:
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename}, line {frame.lineno}"
        raise SimulatorError(f"the model raised {described(error)} ({where})") from error
    try:
        return np.atleast_1d(floats(outputs))
    except Exception as error:
        raise SimulatorError(f"the model returned {type(outputs).__name__}, not numbers") from error


def prior_mean(prior: Prior) -> Array:
    """Means of the marginals; the median where there is no mean."""
    means = np.array([m.mean() for m in prior.marginals.values()])
    return np.where(np.isfinite(means), means, [m.median() for m in prior.marginals.values()])


def shortened(theta: Array) -> Array:
    """The same point to a few digits."""
    return np.array([float(f"{t:.{_DIGITS}g}") for t in theta])


def forecast(seconds: float, settings: Settings, workers: int = 1) -> str:
    """How long the runs will take."""
    each = seconds / max(workers, 1)
    return (
        f"At this pace the initial design takes {duration(each * settings.n_initial)} and the whole budget of "
        f"{settings.max_evaluations} runs {duration(each * settings.max_evaluations)}, besides our own work."
    )


# --- what speaks against it ---------------------------------------------------------------------------------


def doubts(runs: Sequence[Seen], likelihood: GaussianLikelihood | None, *, short: bool = False) -> Iterator[str]:
    """Sentences about runs at the prior mean, two draws and, where there is a fourth, the mean again."""
    three, again = [run for run in runs[:3] if not run.error], (runs[3] if len(runs) > 3 else None)
    for name, run in zip(("the prior mean", "a draw of the prior", "another draw of the prior"), runs, strict=False):
        if run.error:
            yield f"The run at {name} failed: {one_line(run.error)}"
    if likelihood is None:
        yield from _not_a_number(three)
    sizes = {run.outputs.shape for run in three}
    if len(sizes) > 1:
        yield f"The model returned arrays of different shapes: {', '.join(map(str, sorted(sizes)))}."
        return
    if len(three) > 1:
        yield from _constant(np.array([run.outputs for run in three]), likelihood)
    if again is not None and not again.error and not runs[0].error and len(three) > 1:
        yield from _changed(runs[0], again, np.array([run.outputs for run in three]), short)
    if likelihood is None:
        yield from _not_a_logarithm([float(run.outputs[0]) for run in three if run.outputs.size == 1])
    elif len(three) > 1:
        yield from _far_from_data(three, likelihood)


def _constant(outputs: Array, likelihood: GaussianLikelihood | None) -> Iterator[str]:
    same = np.all(outputs == outputs[0], axis=0)
    if same.all() and likelihood is None and outputs[0, 0] == -np.inf:
        yield f"The likelihood is zero (log-likelihood −inf) at all {len(outputs)} theta: is that intended?"
    elif same.all():
        what = "log-likelihood" if likelihood is None else "outputs"
        yield f"Runs at {len(outputs)} different theta gave the same {what}: does the simulator read its parameters?"
    elif same.any():
        yield f"{_named(same, likelihood)} the same at {len(outputs)} different theta: is it computed from them?"


def _changed(first: Seen, again: Seen, outputs: Array, short: bool) -> Iterator[str]:
    if np.array_equal(first.outputs, again.outputs, equal_nan=True):
        return
    if not short:
        change = np.max(np.abs(first.outputs - again.outputs))
        yield (
            f"The same theta gave other numbers the second time (by up to {change:.3g}): the model is not "
            "deterministic. Fix its random seed, or let it iterate longer; noise of a log-likelihood is learned from "
            "the runs or given (log_likelihood_noise), that of outputs is taken for their shape."
        )
        return
    spread = np.ptp(outputs, axis=0)
    off = np.abs(first.outputs - again.outputs) > _READ * spread
    if off.any():
        yield (
            f"Theta written with {_DIGITS} digits instead of 12 gave other outputs: the program reads a value "
            "otherwise than it was written (a field that is too short?), or is not deterministic. Give a format in "
            "the template, such as {k1:.6e}."
        )


def _not_a_number(runs: Sequence[Seen]) -> Iterator[str]:
    """A log-likelihood is one number, which nan is not."""
    if sizes := sorted({run.outputs.size for run in runs} - {1}):
        yield (
            f"The log-likelihood returned {sizes[0]} numbers, not one: a tbq.GaussianLikelihood makes one of outputs, "
            "data and noise."
        )
    wrong = [run for run in runs if run.outputs.size == 1 and not run.outputs.item() < np.inf]
    if wrong:
        yield (
            f"The log-likelihood returned {wrong[0].outputs.item()} at {len(wrong)} of {len(runs)} theta, which counts "
            "as a failed run. Where the likelihood is zero, return -numpy.inf."
        )


def _not_a_logarithm(values: Sequence[float]) -> Iterator[str]:
    """Likelihoods are never negative, and vanish far from the data; their logarithms are mostly negative."""
    known = np.array([v for v in values if np.isfinite(v)])
    small = len(known) > 1 and (known.min() < 1e-2 or known.max() <= 1.0)
    if small and np.all(known >= 0.0) and np.any(known != known[0]):
        shown = ", ".join(f"{v:.3g}" for v in known)
        yield f"The log-likelihoods {shown} look like likelihoods: return their natural logarithm."


def _far_from_data(runs: Sequence[Seen], likelihood: GaussianLikelihood) -> Iterator[str]:
    outputs = np.array([run.outputs for run in runs])
    measured = np.isfinite(likelihood.observed)
    if outputs.shape[1:] != likelihood.observed.shape or not np.all(np.isfinite(outputs[:, measured])):
        return
    noise = np.concatenate([e.factor if e.factor.ndim == 1 else norm(e.factor, axis=1) for e in likelihood.experiments])
    spread = np.hypot(np.ptp(outputs, axis=0), noise)
    low, high = outputs.min(axis=0) - _OUTSIDE * spread, outputs.max(axis=0) + _OUTSIDE * spread
    outside = (likelihood.observed < low) | (likelihood.observed > high)
    if outside.any():
        data = _named(outside, likelihood, "datum", "data")
        yield f"{data} far outside what the prior predicts: are units, the order of outputs and the prior right?"
    elif np.nanmax(np.abs(likelihood.whiten(outputs)), axis=1).min() > _FAR:
        yield (
            f"All runs are very far from the data, more than {_FAR:g} standard deviations of the noise. Are units and "
            "the order of outputs right, and is the noise too small?"
        )


def _named(mask: Array, likelihood: GaussianLikelihood | None, one: str = "output", many: str = "outputs") -> str:
    """Outputs or data by their names, or counted where they have none."""
    known = likelihood is not None and len(likelihood.names) == len(mask)
    names = likelihood.names if likelihood is not None and known else range(1, len(mask) + 1)
    numbers = [str(names[i]) for i in np.flatnonzero(mask)]
    if len(numbers) == 1:
        return f"{one.capitalize()} {numbers[0]} is"
    more = f" and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else ""
    return f"{many.capitalize()} {', '.join(numbers[:_LISTED])}{more} are"
