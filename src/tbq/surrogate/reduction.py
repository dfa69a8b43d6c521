"""What of a simulator's outputs is modelled, and by which Gaussian process.

A few outputs have a process each; more, and those that depend on each other, are first reduced to principal components
in units of the noise.
Positive outputs may be modelled by their logarithm. Kernel and logarithm are what the data prefer, output by output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import linalg

from tbq.common.types import Array
from tbq.gp import batch_fitting, common
from tbq.gp.batch import build
from tbq.gp.kernels import BY_NAME, ArdKernel, KernelChoice
from tbq.gp.levels import Processes
from tbq.gp.values import FEWEST_FREE, values_of
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.problem.tuning import Tuning
from tbq.surrogate.outputs import Component, Outputs


class Form(NamedTuple):
    """How a component is modelled."""

    component: int
    logarithm: bool
    terms: int = 0  # of the mean, where there is a coarse model: see :mod:`tbq.surrogate.levels`


@dataclass(frozen=True)
class Memory:
    """What one fit leaves to the next: the forms in use and where the search for their hyperparameters ended.

    Without it all forms compete, and are searched from the prior's centre.
    """

    starts: Mapping[Form, batch_fitting.End] = field(default_factory=dict)
    coarse: Mapping[Form, batch_fitting.End] = field(default_factory=dict)  # the same of the coarse model's values
    coarse_at: int = 0  # coarse runs when those were last searched
    axes: tuple[Array, ...] = ()  # principal axes of each experiment, where there is a coarse model
    together: Array | None = None  # logarithms of what all processes share: see :mod:`tbq.gp.common`


class Series(NamedTuple):
    """A component's values in the runs, nan where they are missing."""

    values: Array  # (n,)
    experiment: int
    raw: tuple[float, float] | None  # observed value and noise, where the component is an output by itself
    coarse: Array | None = None  # (n_coarse,) its values in runs of a coarse model


def fit(
    z: Array,
    outputs: Array,
    likelihood: GaussianLikelihood,
    prior: Prior,
    choice: KernelChoice,
    memory: Memory,
    tuning: Tuning,
) -> tuple[Outputs, Memory]:
    """Condition processes on all runs; without a memory let logarithms compete.

    The criterion is the marginal likelihood of the values times the hyperparameters' prior, with the logarithm's
    Jacobian. ``tuning.noise_sd`` is what a process may miss a value by, in units of the noise.
    """
    # Where the noise is unknown, what may be neglected is measured by the smallest that a run was made with.
    least = np.exp(np.min(likelihood.log_scales(prior.from_working(z)), axis=0))
    series, outside = decompose(likelihood.whiten(outputs), likelihood, least, tuning)
    batch, components, memory = fit_processes(z, series, tuning.noise_sd * least, choice, memory, tuning)
    return Outputs(batch, components, outside, likelihood, prior), memory


def fit_processes(
    z: Array, series: list[Series], noise_sd: Array, choice: KernelChoice, memory: Memory, tuning: Tuning
) -> tuple[Processes, tuple[Component, ...], Memory]:
    """A process of each series at points z, in the form that its values prefer; ``noise_sd`` is by experiment.

    Where there are many parameters all have the same length-scales, which no series could tell by itself; not where a
    value is missing or a logarithm may be better.
    """
    forms = _forms(series, memory, tuning)
    data = [modelled(series[f.component], f.logarithm, noise_sd[series[f.component].experiment], tuning) for f in forms]
    linear = np.array([m.known >= z.shape[1] + FEWEST_FREE for m in data])
    values = values_of(z, np.array([m.values for m in data]), np.array([m.noise for m in data]), linear)
    # se fits as well as matern52 and is three times too sure of itself
    kernel = BY_NAME["matern52" if choice == "auto" else choice]
    without_choice = values.complete and not any(is_positive(one, tuning) for one in series)
    if z.shape[1] >= tuning.common_from and without_choice and isinstance(kernel, ArdKernel):
        together = common.fit(values, kernel, memory.together)
        return together, tuple(Component(one.experiment) for one in series), Memory(together=together.shared)
    batch, ends = batch_fitting.fit(values, kernel, [memory.starts.get(f) for f in forms])
    score = batch.score + [m.log_jacobian for m in data]
    best = np.array([max(_of(j, forms), key=lambda i: float(score[i])) for j in range(len(series))])
    if len(best) < len(forms):
        batch = build(values.take(best), kernel, batch.parameters[best])
    components = [
        Component(one.experiment, one.raw if forms[i].logarithm else None) for one, i in zip(series, best, strict=True)
    ]
    return batch, tuple(components), Memory({forms[i]: ends[i] for i in best})


def _forms(series: list[Series], memory: Memory, tuning: Tuning) -> list[Form]:
    """The forms that are fitted: those in use, and all of a component that has none any more.

    A logarithm ends with the first value that has none.
    """
    possible = [
        Form(j, log)
        for j, one in enumerate(series)
        for log in ((False, True) if is_positive(one, tuning) else (False,))
    ]
    kept = {f.component: f for f in possible if f in memory.starts}
    return [f for f in possible if kept.get(f.component, f) == f]


def _of(component: int, forms: list[Form]) -> list[int]:
    return [i for i, f in enumerate(forms) if f.component == component]


def decompose(white: Array, likelihood: GaussianLikelihood, least: Array, tuning: Tuning) -> tuple[list[Series], Array]:
    """Components of whitened outputs (n, m), and each experiment's squared misfit that none of them carries.

    ``least`` is the smallest scale of each experiment's noise.
    """
    series: list[Series] = []
    outside = np.zeros(len(likelihood.experiments))
    for k, experiment in enumerate(likelihood.experiments):
        part = white[:, likelihood.experiment_of == k]
        scores, beyond = _principal(part, tuning.neglected * float(least[k]) ** 2, tuning.most_components)
        if (
            part.shape[1] > tuning.few_outputs or scores.shape[1] < part.shape[1]
        ):  # copies of an output do not err independently
            outside[k] = beyond
            series += [Series(column, k, None) for column in scores.T]
            continue
        for column, observed, sd in zip(part.T, experiment.observed, experiment.factor, strict=True):
            series.append(Series(column, k, (float(observed), float(sd)) if np.ndim(sd) == 0 else None))
    return series, outside


def _principal(white: Array, negligible: float, most: int) -> tuple[Array, float]:
    """Scores of the runs on the principal components, and the squared misfit outside their span.

    ``negligible`` is the summed variance of the components left out, ``most`` how many there may be. It is that of a
    new run: the runs that the axes were fitted to are closer to them, by generalised cross-validation the factor
    (1 − (axes + 1)/runs)². A run with missing outputs has scores where the others determine them.
    """
    missing = np.isnan(white)
    complete = white[~missing.any(axis=1)]
    mean = complete.mean(axis=0)
    _, values, rows = linalg.svd(complete - mean, full_matrices=False)
    tail = np.cumsum((values**2 / len(complete))[::-1])[::-1]
    left = 1.0 - np.arange(1, len(values) + 1) / len(complete)
    tail /= np.maximum(left, 1.0 / len(complete)) ** 2
    axes = rows[: min(max(int(np.sum(tail > negligible)), 1), most)]
    axes = upright(axes)
    beyond = mean - axes.T @ (axes @ mean)
    return scores_of(white, axes, beyond), float(beyond @ beyond)


def upright(axes: Array) -> Array:
    """Axes whose largest elements are positive: their signs mean nothing."""
    return np.asarray(axes * np.sign(axes[np.arange(len(axes)), np.argmax(np.abs(axes), axis=1)])[:, None])


def scores_of(white: Array, axes: Array, beyond: Array) -> Array:
    """Scores (n, k) of runs on axes (k, m); of one with missing outputs, where the others determine them.

    ``beyond`` (m,) is what all runs have outside of the axes.
    """
    missing = np.isnan(white)
    scores = np.where(missing, 0.0, white) @ axes.T
    for i in np.flatnonzero(missing.any(axis=1)):
        seen = ~missing[i]
        scores[i] = np.nan
        if np.sum(seen) >= 2 * len(axes):
            scores[i] = linalg.lstsq(axes[:, seen].T, (white[i] - beyond)[seen])[0]
    return np.asarray(scores)


def is_positive(series: Series, tuning: Tuning) -> bool:
    """Whether an output has a logarithm: all its values are positive, and so is what was observed, beyond its noise.

    Otherwise a negative value would be no worse than zero, and the logarithm could not tell that there are any.
    """
    if series.raw is None:
        return False
    observed, sd = series.raw
    return observed > tuning.positive_beyond * sd and bool(np.nanmin(_raw(series)) > 0.0)


def _raw(series: Series) -> Array:
    assert series.raw is not None
    observed, sd = series.raw
    return observed + sd * series.values


class Modelled(NamedTuple):
    """Values of a component in one form, with their noise, and what its logarithm costs the score."""

    values: Array  # (n,), nan where missing
    noise: Array  # (n,) variances
    log_jacobian: float

    @property
    def known(self) -> int:
        return int(np.isfinite(self.values).sum())


def modelled(series: Series, logarithm: bool, noise_sd: float, tuning: Tuning) -> Modelled:
    values, noise, log_jacobian = series.values, np.full(len(series.values), noise_sd**2), 0.0
    if logarithm:
        assert series.raw is not None
        slope = series.raw[1] / _raw(series)
        values, noise = np.log(_raw(series)), np.where(np.isfinite(slope), noise * slope**2, noise_sd**2)
        log_jacobian = float(np.nansum(np.log(slope)))
    return Modelled(values, noise + (tuning.repeatable * np.nanstd(values)) ** 2, log_jacobian)
