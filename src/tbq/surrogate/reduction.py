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
from tbq.gp import fitting
from tbq.gp import regression as gps
from tbq.gp.kernels import BY_NAME, KernelChoice
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.problem.tuning import Tuning
from tbq.surrogate.outputs import Component, Outputs


class Form(NamedTuple):
    """How a component is modelled."""

    kernel: str
    logarithm: bool


@dataclass(frozen=True)
class Memory:
    """What one fit leaves to the next: the forms in use, when they were chosen, and all hyperparameters."""

    chosen: tuple[Form, ...] = ()
    chosen_at: int = 0
    warm: Mapping[tuple[int, Form], Array] = field(default_factory=dict)


class Series(NamedTuple):
    """A component's values in the runs, nan where they are missing."""

    values: Array  # (n,)
    experiment: int
    raw: tuple[float, float] | None  # observed value and noise, where the component is an output by itself


def fit(
    z: Array,
    outputs: Array,
    likelihood: GaussianLikelihood,
    prior: Prior,
    choice: KernelChoice,
    memory: Memory,
    tuning: Tuning,
) -> tuple[Outputs, Memory]:
    """Condition processes on all runs; every few runs let kernels and logarithms compete again.

    The criterion is the marginal likelihood of the values times the hyperparameters' prior, with the logarithm's
    Jacobian. ``tuning.noise_sd`` is what a process may miss a value by, in units of the noise.
    """
    # Where the noise is unknown, what may be neglected is measured by the smallest that a run was made with.
    least = np.exp(np.min(likelihood.log_scales(prior.from_working(z)), axis=0))
    series, outside = decompose(likelihood.whiten(outputs), likelihood, least, tuning)
    n = len(z)
    due = n - memory.chosen_at >= tuning.forms_every or len(series) != len(memory.chosen)
    components, chosen, warm = [], [], dict(memory.warm)
    for j, one in enumerate(series):
        forms = _forms(one, choice, tuning)
        if not due and memory.chosen[j] in forms:  # a logarithm ends with the first value that has none
            forms = [memory.chosen[j]]
        error = tuning.noise_sd * least[one.experiment]
        fitted = {f: _component(z, one, f, error, tuning, warm.get((j, f)), cold=due) for f in forms}
        best = max(fitted, key=lambda f: fitted[f][1])
        warm.update({(j, f): c.gp.parameters for f, (c, _) in fitted.items()})
        components.append(fitted[best][0])
        chosen.append(best)
    memory = Memory(tuple(chosen), n if due else memory.chosen_at, warm)
    return Outputs(tuple(components), outside, likelihood, prior), memory


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

    ``negligible`` is the summed variance of the components left out, ``most`` how many there may be. A run with
    missing outputs has scores where the others determine them.
    """
    missing = np.isnan(white)
    complete = white[~missing.any(axis=1)]
    mean = complete.mean(axis=0)
    _, values, rows = linalg.svd(complete - mean, full_matrices=False)
    tail = np.cumsum((values**2 / len(complete))[::-1])[::-1]
    axes = rows[: min(max(int(np.sum(tail > negligible)), 1), most)]
    axes = axes * np.sign(axes[np.arange(len(axes)), np.argmax(np.abs(axes), axis=1)])[:, None]
    beyond = mean - axes.T @ (axes @ mean)
    scores = np.where(missing, 0.0, white) @ axes.T
    for i in np.flatnonzero(missing.any(axis=1)):
        seen = ~missing[i]
        scores[i] = np.nan
        if np.sum(seen) >= 2 * len(axes):
            scores[i] = linalg.lstsq(axes[:, seen].T, (white[i] - beyond)[seen])[0]
    return scores, float(beyond @ beyond)


def _forms(series: Series, choice: KernelChoice, tuning: Tuning) -> list[Form]:
    kernel = "matern52" if choice == "auto" else choice  # se fits as well and is three times too sure of itself
    return [Form(kernel, log) for log in ((False, True) if _positive(series, tuning) else (False,))]


def _positive(series: Series, tuning: Tuning) -> bool:
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


def _component(
    z: Array, series: Series, form: Form, noise_sd: float, tuning: Tuning, warm: Array | None, *, cold: bool
) -> tuple[Component, float]:
    """A component in one form, at its best hyperparameters, and its score."""
    seen = np.isfinite(series.values)
    values, noise, jacobian = series.values[seen], np.full(seen.sum(), noise_sd**2), 0.0
    if form.logarithm:
        assert series.raw is not None
        output = _raw(series)[seen]
        values, noise = np.log(output), noise * (series.raw[1] / output) ** 2
        jacobian = float(np.sum(np.log(series.raw[1] / output)))
    noise = noise + (tuning.repeatable * np.std(values)) ** 2
    basis: gps.Basis = "linear" if len(values) >= z.shape[1] + 4 else "constant"
    gp = fitting.fit(z[seen], values, noise, BY_NAME[form.kernel], basis, warm, cold)
    return Component(gp, series.experiment, series.raw if form.logarithm else None), gp.score + jacobian
