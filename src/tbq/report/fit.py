"""Observed against predicted: intervals in units of the noise, curves with bands, and the numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tbq.common.errors import ArgumentError
from tbq.common.types import Array, IntArray
from tbq.problem.likelihood import GaussianLikelihood
from tbq.report import parts, style
from tbq.report.parts import Pictures, details, paragraph, section, table
from tbq.report.style import BLUE, INK, LINE, ORANGE, SKY, Axes, Figure, readable
from tbq.result import emulate
from tbq.result.emulate import Fit
from tbq.result.predict import Prediction, labelled
from tbq.result.result import Result
from tbq.result.verify import Verification

TrueRuns = Verification | Prediction

_MOST_ROWS = 24  # outputs with an interval each; more are drawn as a curve
_LEVELS = (0.05, 0.5, 0.95)


def of_data(result: Result, draw: Pictures, true_runs: TrueRuns | None = None) -> str:
    """The section of the page; empty where there are no outputs to compare."""
    fit = emulate.fit(result)
    if fit is None:
        return ""
    true = None if true_runs is None else from_runs(result, true_runs)
    inside = (
        f"{round(fit.covered * len(fit.noise_sd))} of {len(fit.noise_sd)} data lie in their 90 % predictive interval."
    )
    said = f"Predicted by {fit.source}" + ("" if true is None else f"; orange: by {true.source}") + f". {inside}"
    return section(
        "Fit to the data",
        paragraph(said),
        parts.pictures(draw.of(caption, figure, wide=False) for caption, figure in figures(fit, true)),
        details(f"The {len(fit.noise_sd)} data in numbers", _numbers(fit))
        if len(fit.noise_sd) > _MOST_ROWS
        else _numbers(fit),
    )


def from_runs(result: Result, runs: Any) -> Fit:
    """The same by true runs that were made at posterior draws."""
    likelihood = result.likelihood
    assert likelihood is not None
    rng = np.random.default_rng(0)
    if isinstance(runs, Verification):
        known = [e for e in runs.evaluations if not e.status.is_failure]
        if any(e.outputs is None for e in known):
            raise ArgumentError("report: true_runs have no outputs; verify with the tbq.GaussianLikelihood itself")
        rows = rng.choice(len(known), 4 * len(known), p=runs.weights)  # draws of the corrected posterior
        theta, outputs = runs.theta[rows], np.array([known[i].outputs for i in rows])
        source = f"{len(known)} true runs"
    elif isinstance(runs, Prediction):
        theta, outputs, source = runs.theta, runs.outputs, f"{len(runs.theta)} true runs"
    else:
        raise ArgumentError(
            f"report: true_runs must be what result.verify or result.predict returned; got {type(runs).__name__}"
        )
    if outputs.shape[1] != len(likelihood.observed):
        raise ArgumentError(
            f"report: true_runs must have the {len(likelihood.observed)} outputs that were observed; "
            f"got {outputs.shape[1]}"
        )
    return emulate.compare_with_data(likelihood, theta, outputs, source, rng)


def figures(fit: Fit, true: Fit | None = None) -> Iterator[tuple[str, Figure]]:
    """A picture for each experiment, with its caption."""
    of = fit.likelihood.experiment_of
    for k, experiment in enumerate(fit.likelihood.experiments):
        index = np.flatnonzero(of == k)
        which = f" of experiment {k + 1}" if len(fit.likelihood.experiments) > 1 else ""
        if experiment.labels.coordinates is None and len(index) <= _MOST_ROWS:
            caption = (
                f"Predicted less observed{which}, in units of the noise: thick the model's outputs (90 %), thin what "
                "would be measured"
            )
            height = 1.1 + 0.27 * len(index)
            yield caption, style.drawn(intervals, fit, index, true, width=4.6, height=height)
        else:
            caption = (
                f"Data{which} and posterior predictive: the inner band has the model's outputs (90 %), the outer what "
                "would be measured"
            )
            yield caption, curves(fit, index, true)


def intervals(fit: Fit, index: IntArray, true: Fit | None, axes: Axes) -> Axes:
    """A row for each output: predicted less observed, in units of the noise."""
    labels = labelled(fit.likelihood.names, fit.likelihood.units)
    rows = np.arange(len(index))[::-1]
    axes.axvspan(-2.0, 2.0, color=LINE, alpha=0.35, lw=0, zorder=0)
    axes.axvline(0.0, color=INK, lw=1, zorder=1)
    for values, width, colour in ((fit.draws, 1.6, SKY), (fit.outputs, 5.0, BLUE)):
        low, _, high = _in_noise(fit, values, index)
        axes.hlines(rows, low, high, color=colour, lw=width, zorder=2)
    axes.plot(_in_noise(fit, fit.outputs, index)[1], rows, "|", ms=9, color=INK, zorder=3)
    if true is not None:
        low, middle, high = _in_noise(fit, true.outputs, index)
        axes.hlines(rows - 0.27, low, high, color=ORANGE, lw=2.5, zorder=2)
        axes.plot(middle, rows - 0.27, "|", ms=6, color=INK, zorder=3)
    axes.set(yticks=rows, ylim=(-0.7, len(rows) - 0.3), xlabel="(predicted − observed) / noise sd")
    axes.set_yticklabels([readable(labels[i]) for i in index])
    return axes


def curves(fit: Fit, index: IntArray, true: Fit | None = None) -> Figure:
    """Data over their coordinate with bands of the prediction, and residuals in units of the noise below."""
    experiment = fit.likelihood.experiments[int(fit.likelihood.experiment_of[index[0]])]
    where = experiment.labels.coordinates
    x = np.arange(1, len(index) + 1) if where is None else where
    order = np.argsort(x, kind="stable")
    x, index = x[order], index[order]
    figure, (upper, lower) = style.subplots(2, 1, 4.6, 3.9, sharex=True, height_ratios=(3, 1))
    with style.look():
        for values, colour, alpha, label in (
            (fit.draws, SKY, 0.35, "would be measured, 90 %"),
            (fit.outputs, BLUE, 0.55, "model, 90 %"),
        ):
            low, middle, high = np.quantile(values[:, index], _LEVELS, axis=0)
            upper.fill_between(x, low, high, color=colour, alpha=alpha, lw=0, label=label)
        upper.plot(x, middle, color=BLUE, lw=1)
        if true is not None:
            low, _, high = np.quantile(true.outputs[:, index], _LEVELS, axis=0)
            upper.plot(x, low, color=ORANGE, lw=1.2, label="true runs, 90 %")
            upper.plot(x, high, color=ORANGE, lw=1.2)
        upper.plot(x, fit.likelihood.observed[index], "o", ms=2.8, color=INK, label="observed")
        units = {fit.likelihood.units[i] for i in index}
        unit = next(iter(units)) if len(units) == 1 else ""
        upper.set(ylabel=readable(f"output [{unit}]" if unit else "output"))
        upper.legend(ncols=2)
        lower.axhspan(-2.0, 2.0, color=LINE, alpha=0.35, lw=0)
        lower.axhline(0.0, color=INK, lw=1)
        lower.plot(x, fit.residuals[index], "o", ms=2.5, color=BLUE)
        lower.set(xlabel=readable(experiment.labels.along or ("coordinate" if where is not None else "datum")))
        lower.set(ylabel="residual / sd")
    return figure


def _in_noise(fit: Fit, values: Array, index: IntArray) -> Array:
    quantiles = np.quantile(values[:, index], _LEVELS, axis=0)
    return np.asarray((quantiles - fit.likelihood.observed[index]) / fit.noise_sd[index])


def where_and_what(likelihood: GaussianLikelihood) -> list[str]:
    """Names and units of the outputs, and where they were measured."""
    labels = labelled(likelihood.names, likelihood.units)
    places = [
        ["" for _ in e.observed]
        if e.labels.coordinates is None
        else [f" at {e.labels.along or 'coordinate'} = {x:g}" for x in e.labels.coordinates]
        for e in likelihood.experiments
    ]
    return [label + place for label, place in zip(labels, itertools.chain(*places), strict=True)]


def _numbers(fit: Fit) -> str:
    heads = ["output", "observed", "noise sd", "predicted: 5 %", "median", "95 %", "residual / sd"]
    columns = zip(
        where_and_what(fit.likelihood),
        fit.likelihood.observed,
        fit.noise_sd,
        *np.quantile(fit.draws, _LEVELS, axis=0),
        fit.residuals,
        strict=True,
    )
    rows = [[label, *(f"{v:.5g}" for v in numbers[:-1]), f"{numbers[-1]:+.2f}"] for label, *numbers in columns]
    return table(heads, rows, sortable=len(rows) > _MOST_ROWS)
