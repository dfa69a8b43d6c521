"""What of a simulator's outputs is modelled where a coarse model of it helps, and by which processes.

Every component of the fine outputs may be modelled by itself or on the same component of the coarse ones
(:mod:`tbq.gp.levels`); also by logarithms. Which of these it is, is what the fine values prefer: a coarse model that is
of no use loses. Where no coarse run was made at a fine one, or it failed, the coarse process goes on as expected there
and the difference bears what it got wrong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.spatial import distance

from tbq.common.types import Array, BoolArray, IntArray
from tbq.gp import batch_fitting
from tbq.gp.batch import Batch, build
from tbq.gp.kernels import BY_NAME, Kernel, KernelChoice
from tbq.gp.levels import Levels, Processes, with_coarse
from tbq.gp.values import Values, values_of
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.problem.tuning import Tuning
from tbq.surrogate.outputs import Component, Outputs
from tbq.surrogate.reduction import Form, Memory, Modelled, Series, is_positive, modelled, scores_of, upright

_SAME = 1e-9  # points this close in working coordinates are one
_LEAST_SPREAD = 1e-12  # of coarse values that are all the same

ALONE, ON_COARSE, LINEAR_ON_COARSE = 0, 1, 2  # terms of the mean beside a constant: {x}, {g}, {x, g}


class Coarse(NamedTuple):
    """Runs of the coarse model."""

    z: Array  # (n, d)
    outputs: Array  # (n, m)


def fit(
    z: Array,
    outputs: Array,
    coarse: Coarse,
    likelihood: GaussianLikelihood,
    prior: Prior,
    choice: KernelChoice,
    memory: Memory,
    tuning: Tuning,
) -> tuple[Outputs, Memory]:
    """As :func:`tbq.surrogate.reduction.fit`, with runs of a coarse model."""
    least = np.exp(np.min(likelihood.log_scales(prior.from_working(z)), axis=0))
    white = likelihood.whiten(outputs), likelihood.whiten(coarse.outputs)
    series, outside, memory = _decompose(*white, likelihood, least, memory, tuning)
    noise_sd = tuning.noise_sd * least
    processes, components, memory = fit_levels(z, coarse.z, series, noise_sd, choice, memory, tuning)
    return Outputs(processes, components, outside, likelihood, prior), memory


def _decompose(
    fine: Array, coarse: Array, likelihood: GaussianLikelihood, least: Array, memory: Memory, tuning: Tuning
) -> tuple[list[Series], Array, Memory]:
    """As :func:`tbq.surrogate.reduction.decompose`, by axes that stay as long as they carry the fine runs."""
    series: list[Series] = []
    kept: list[Array] = []
    outside = np.zeros(len(likelihood.experiments))
    for k, experiment in enumerate(likelihood.experiments):
        mine = likelihood.experiment_of == k
        one, other, negligible = fine[:, mine], coarse[:, mine], tuning.neglected * float(least[k]) ** 2
        complete = one[np.isfinite(one).all(axis=1)]
        axes = memory.axes[k] if memory.axes else None
        if axes is None or _lost(complete, axes) > negligible:
            axes = axes_of(complete, other[np.isfinite(other).all(axis=1)], negligible, tuning.most_components)
            memory = Memory(memory.starts, memory.coarse, 0, memory.axes)
        kept.append(axes)
        if one.shape[1] > tuning.few_outputs or len(axes) < one.shape[1]:
            mean = complete.mean(axis=0)
            beyond = mean - axes.T @ (axes @ mean)
            outside[k] = beyond @ beyond
            scores = [scores_of(part, axes, beyond).T for part in (one, other)]
            series += [Series(f, k, None, c) for f, c in zip(*scores, strict=True)]
            continue
        for f, c, observed, sd in zip(one.T, other.T, experiment.observed, experiment.factor, strict=True):
            series.append(Series(f, k, (float(observed), float(sd)) if np.ndim(sd) == 0 else None, c))
    return series, outside, Memory(memory.starts, memory.coarse, memory.coarse_at, tuple(kept))


def _lost(complete: Array, axes: Array) -> float:
    """Mean square of what runs have outside of axes, their mean apart."""
    centred = complete - complete.mean(axis=0)
    return float(np.mean(np.sum((centred - centred @ axes.T @ axes) ** 2, axis=1)))


def axes_of(fine: Array, coarse: Array, negligible: float, most: int) -> Array:
    """Principal axes (k, m) of runs of both levels and of the step between them, in units of the noise.

    Few fine runs do not span what the next one may do. ``negligible`` is the summed variance of the axes left out.
    """
    step = fine.mean(axis=0) - coarse.mean(axis=0)
    rows = [(part - part.mean(axis=0)) / np.sqrt(len(part)) for part in (fine, coarse)]
    _, values, axes = linalg.svd(np.vstack([*rows, step]), full_matrices=False)
    tail = np.cumsum((values**2)[::-1])[::-1]
    return upright(axes[: min(max(int(np.sum(tail > negligible)), 1), most)])


def fit_levels(
    z: Array,
    coarse_z: Array,
    series: list[Series],
    noise_sd: Array,
    choice: KernelChoice,
    memory: Memory,
    tuning: Tuning,
) -> tuple[Processes, tuple[Component, ...], Memory]:
    """As :func:`tbq.surrogate.reduction.fit_processes`, for series that have coarse values too; all forms compete."""
    kernel = BY_NAME["se" if choice == "se" else "matern52"]
    below = [Form(j, log) for j, one in enumerate(series) for log in (False, True) if not log or _positive(one, tuning)]
    coarse, memory = _coarse_processes(coarse_z, series, below, noise_sd, kernel, memory, tuning)
    columns = _informed(coarse, z).project(z).mean
    centre, spread = columns.mean(axis=1), np.maximum(coarse.values.scale, _LEAST_SPREAD)
    values, forms, jacobians = _contestants(with_coarse(z, columns, centre, spread), z, series, below, noise_sd, tuning)
    batch, ends = batch_fitting.fit(values, kernel, [memory.starts.get(f) for f in forms])
    score = batch.score + jacobians
    best = np.array([max(_of(j, forms), key=lambda i: float(score[i])) for j in range(len(series))])
    components = tuple(
        Component(one.experiment, one.raw if forms[i].logarithm else None) for one, i in zip(series, best, strict=True)
    )
    processes = _pruned(values.take(best), batch.parameters[best], coarse, z, centre, spread)
    starts = dict(zip(forms, ends, strict=True))
    return processes, components, Memory(starts, memory.coarse, memory.coarse_at, memory.axes)


def _of(component: int, forms: list[Form]) -> list[int]:
    return [i for i, f in enumerate(forms) if f.component == component]


def _coarse_processes(
    z: Array, series: list[Series], below: list[Form], noise_sd: Array, kernel: Kernel, memory: Memory, tuning: Tuning
) -> tuple[Batch, Memory]:
    """Processes of the coarse values; their hyperparameters are searched again when there are many more runs."""
    each = [_of_coarse(series[f.component], f, noise_sd, tuning) for f in below]
    linear = np.array([m.known >= z.shape[1] + 4 for m in each])
    values = values_of(z, np.array([m.values for m in each]), np.array([m.noise for m in each]), linear)
    warm = [memory.coarse.get(f) for f in below]
    known = [end.parameters for end in warm if end is not None]
    if len(known) == len(below) and len(z) < tuning.coarse_growth * memory.coarse_at:
        return build(values, kernel, np.array(known)), memory
    batch, ends = batch_fitting.fit(values, kernel, warm)
    return batch, Memory(memory.starts, dict(zip(below, ends, strict=True)), len(z), memory.axes)


def _informed(coarse: Batch, z: Array) -> Batch:
    """With values as expected at fine points where a process has none: no coarse run, or not all of its outputs."""
    complete = coarse.x[coarse.values.seen.all(axis=0)]
    apart = distance.cdist(z, complete).min(axis=1, initial=np.inf) > _SAME
    for row in z[apart]:
        coarse = coarse.condition_on_mean(row)
    return coarse


def _contestants(
    x: Array, z: Array, series: list[Series], below: list[Form], noise_sd: Array, tuning: Tuning
) -> tuple[Values, list[Form], Array]:
    """All forms of all components at points ``x``, which have the coarse processes as further columns."""
    forms: list[Form] = []
    data: list[Modelled] = []
    given: list[int] = []
    d = z.shape[1]
    for column, (j, log, _) in enumerate(below):
        one = modelled(series[j], log, noise_sd[series[j].experiment], tuning)
        terms = [ALONE, ON_COARSE, *([LINEAR_ON_COARSE] if one.known >= d + 5 else [])]
        forms += [Form(j, log, t) for t in terms]
        data += [one] * len(terms)
        given += [-1 if t == ALONE else column for t in terms]
    linear: BoolArray = np.array(
        [
            f.terms == LINEAR_ON_COARSE or (f.terms == ALONE and m.known >= d + 4)
            for f, m in zip(forms, data, strict=True)
        ]
    )
    y, noise = np.array([m.values for m in data]), np.array([m.noise for m in data])
    values = values_of(x, y, noise, linear, np.array(given), len(below))
    return values, forms, np.array([m.log_jacobian for m in data])


def _pruned(values: Values, parameters: Array, coarse: Batch, z: Array, centre: Array, spread: Array) -> Processes:
    """The chosen processes on those of the coarse level that they use; of one level where they use none."""
    assert values.given is not None
    used: IntArray = np.unique(values.given[values.given >= 0])
    if len(used) == 0:
        return build(replace(values, x=z, given=None, extra=0), coarse.kernel, parameters)
    given = np.where(values.given >= 0, np.searchsorted(used, values.given), -1)
    x = np.hstack([z, values.x[:, z.shape[1] + used]])
    delta = build(replace(values, x=x, given=given, extra=len(used)), coarse.kernel, parameters)
    below = _informed(build(coarse.values.take(used), coarse.kernel, coarse.parameters[used]), z)
    return Levels(delta, below, centre[used], spread[used])


def _positive(series: Series, tuning: Tuning) -> bool:
    """Whether the values of both levels have logarithms."""
    return is_positive(series, tuning) and is_positive(_coarse_series(series), tuning)


def _of_coarse(series: Series, form: Form, noise_sd: Array, tuning: Tuning) -> Modelled:
    return modelled(_coarse_series(series), form.logarithm, noise_sd[series.experiment], tuning)


def _coarse_series(series: Series) -> Series:
    assert series.coarse is not None
    return Series(series.coarse, series.experiment, series.raw)
