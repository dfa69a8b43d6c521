"""Models side by side on one page: evidences, verdicts, their fits to the same data, parameters that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from tbq.common.types import Array, IntArray
from tbq.common.words import nats
from tbq.report import density, diagnostics, fit, parts, style
from tbq.report.pairs import clusters_of
from tbq.report.parts import Pictures, paragraph, section, table
from tbq.report.style import BLUE, INK, LINE, ORANGE, VERMILION, Axes, Figure, readable
from tbq.result import emulate
from tbq.result.compare import Comparison
from tbq.result.emulate import Fit
from tbq.result.predict import labelled
from tbq.result.result import Result

_COLOURS = (BLUE, VERMILION, "#009e73", "#cc79a7", ORANGE, "#999999")  # Okabe and Ito's, then again
_LINES = ("-", "--", "-.", ":")
_LEVELS = (0.05, 0.5, 0.95)
_MOST_ROWS = 24  # outputs with an interval for each model; more are curves
_DRAWS = 4000  # of the average prediction
_CURVE = 300  # points


def write(comparison: Comparison, path: str | Path, *, title: str = "") -> None:
    """The page of a comparison, in a file. Needs matplotlib."""
    file = parts.target(path)
    parts.write(file, parts.document(title or "Comparison of models", body(comparison)))


def body(comparison: Comparison) -> str:
    """All there is to say of several models."""
    draw, fits = Pictures(), _fits(comparison)
    content = [
        *(paragraph(line) for line in _verdicts(comparison)),
        _evidence(comparison, draw),
        _data(comparison, fits, draw),
        _average(comparison, fits, draw),
        _shared(comparison, draw),
        _trust(comparison),
    ]
    return "\n".join(part for part in content if part)


def _verdicts(comparison: Comparison) -> Iterator[str]:
    best, *others = comparison.names
    for other in others:
        yield comparison.verdict(best, other)
    rough = [name for name, r in comparison.results.items() if not r.converged]
    if rough:
        yield f"Not converged: {', '.join(rough)}. Their errors may be larger than they say."
    yield comparison.note


def _evidence(comparison: Comparison, draw: Pictures) -> str:
    low, high = comparison.probability_interval()
    rows = []
    for i, (name, r) in enumerate(comparison.results.items()):
        factor = "{:.3f} ± {:.3f}".format(*comparison.log_bayes_factor(comparison.names[0], name)) if i else ""
        chance = [f"{100 * p:.3g} %" for p in (comparison.probabilities[i], low[i], high[i])]
        evidence = f"{nats(r.log_evidence, 3)} ± {nats(r.log_evidence_sd, 3)}"
        rows.append(
            [name, evidence, factor, chance[0], f"{chance[1]} to {chance[2]}", f"{r.n_evaluations}", f"{r.prior.dim}"]
        )
    heads = ["model", "log evidence", "log B of the best", "probability", "90 % interval", "runs", "parameters"]
    with style.look():
        size = (8.4, 1.3 + 0.45 * len(rows))
        figure, axes = style.pyplot().subplots(1, 2, figsize=size, layout="constrained")
        comparison.plot(axes)
    caption = "Log evidences with two standard deviations of their numerical error, and probabilities of the models"
    note = "Natural logarithms. Errors are numerical: what the surrogates and the sums do not know."
    return section("Evidence", table(heads, rows), paragraph(note, "soft"), draw.of(caption, figure, wide=True))


def _fits(comparison: Comparison) -> dict[str, Fit]:
    found = {name: emulate.fit(r) for name, r in comparison.results.items()}
    return {name: f for name, f in found.items() if f is not None}


def _data(comparison: Comparison, fits: Mapping[str, Fit], draw: Pictures) -> str:
    missing = [name for name in comparison.names if name not in fits]
    said = f"Without outputs, which only a tbq.GaussianLikelihood has: {', '.join(missing)}." if missing else ""
    if not fits:
        return section("Fit to the data", paragraph(said))
    first = next(iter(fits.values()))
    figures = []
    if (
        _together(fits)
        and len(first.noise_sd) <= _MOST_ROWS
        and first.likelihood.experiments[0].labels.coordinates is None
    ):
        height = 1.2 + (0.16 * len(fits) + 0.14) * len(first.noise_sd)
        caption = "Predicted less observed in units of the noise: the models' outputs, medians and 90 % intervals"
        figures.append(draw.of(caption, style.drawn(side_by_side, fits, width=4.8, height=height)))
    else:
        of_models = {name: list(fit.figures(f)) for name, f in fits.items()}
        if _together(fits):
            for same in zip(*of_models.values(), strict=True):
                _share_axes([figure for _, figure in same])
        figures += [draw.of(f"{name}: {c}", figure) for name, found in of_models.items() for c, figure in found]
    rows = [
        [
            name,
            f"{np.sqrt(np.mean(f.residuals**2)):.2f}",
            f"{np.abs(f.residuals).max():.2f}",
            f"{100 * f.covered:.0f} %",
        ]
        for name, f in fits.items()
    ]
    heads = ["model", "rms residual / sd", "largest", "data in their 90 % interval"]
    return section("Fit to the data", paragraph(said), table(heads, rows), parts.pictures(figures))


def _together(fits: Mapping[str, Fit]) -> bool:
    """Whether all have the same outputs in the same order."""
    first = next(iter(fits.values())).likelihood
    return all(
        np.array_equal(f.likelihood.observed, first.observed, equal_nan=True) and f.likelihood.names == first.names
        for f in fits.values()
    )


def _share_axes(figures: Sequence[Figure]) -> None:
    """The same range in all of them, so that they can be compared by eye."""
    for same in zip(*(figure.axes for figure in figures), strict=True):
        x, y = np.array([axes.get_xlim() for axes in same]), np.array([axes.get_ylim() for axes in same])
        for axes in same:
            axes.set(xlim=(x[:, 0].min(), x[:, 1].max()), ylim=(y[:, 0].min(), y[:, 1].max()))


def side_by_side(fits: Mapping[str, Fit], axes: Axes) -> Axes:
    """A group of rows for each output, a row for each model."""
    first = next(iter(fits.values()))
    labels = labelled(first.likelihood.names, first.likelihood.units)
    step, rows = 0.8 / len(fits), np.arange(len(labels))[::-1]
    axes.axvspan(-2.0, 2.0, color=LINE, alpha=0.35, lw=0, zorder=0)
    axes.axvline(0.0, color=INK, lw=1, zorder=1)
    for k, (name, f) in enumerate(fits.items()):
        at = rows + step * (0.5 * (len(fits) - 1) - k)
        low, middle, high = (np.quantile(f.outputs, _LEVELS, axis=0) - f.likelihood.observed) / f.noise_sd
        axes.hlines(at, low, high, color=_colour(k), lw=3, zorder=2)
        axes.plot(middle, at, "o", ms=4, color=_colour(k), mec=INK, mew=0.4, label=readable(name), zorder=3)
    axes.set(yticks=rows, ylim=(-0.7, len(rows) - 0.3), xlabel="(predicted − observed) / noise sd")
    axes.set_yticklabels([readable(label) for label in labels])
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=min(len(fits), 3))
    return axes


def _average(comparison: Comparison, fits: Mapping[str, Fit], draw: Pictures) -> str:
    """What would be measured, by all models together, each as often as it is probable."""
    if len(fits) < len(comparison.names) or not _together(fits):
        return ""
    average = _mixed(comparison, fits)
    columns = zip(
        fit.where_and_what(average.likelihood),
        average.likelihood.observed,
        *np.quantile(average.draws, _LEVELS, axis=0),
        strict=True,
    )
    rows = [[label, *(f"{v:.5g}" for v in numbers)] for label, *numbers in columns]
    said = (
        "Draws of what would be measured, of each model as many as it is probable, by the surrogates and without a "
        "run; comparison.predict(n=...) makes true runs."
    )
    numbers = table(["output", "observed", "5 %", "median", "95 %"], rows, sortable=len(rows) > _MOST_ROWS)
    return section(
        "Model-averaged prediction",
        paragraph(said),
        parts.pictures(draw.of(caption, figure) for caption, figure in fit.figures(average)),
        parts.details(f"The {len(rows)} predictions in numbers", numbers) if len(rows) > _MOST_ROWS else numbers,
    )


def _mixed(comparison: Comparison, fits: Mapping[str, Fit]) -> Fit:
    """Predictions of all models together."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(_DRAWS, comparison.probabilities)
    chosen = [
        (f, rng.integers(0, len(f.draws), c)) for f, c in zip((fits[n] for n in comparison.names), counts, strict=True)
    ]
    return Fit(
        fits[comparison.names[0]].likelihood,
        noise_sd=np.sum([len(rows) / _DRAWS * f.noise_sd for f, rows in chosen], axis=0),
        outputs=np.vstack([f.outputs[rows] for f, rows in chosen]),
        draws=np.vstack([f.draws[rows] for f, rows in chosen]),
        source="all models together",
    )


# --- parameters ---------------------------------------------------------------------------------------------


def _shared(comparison: Comparison, draw: Pictures) -> str:
    learned = {name: r for name, r in comparison.results.items() if r.surrogate is not None}
    count: dict[str, int] = {}
    for r in learned.values():
        for parameter in r.prior.names:
            count[parameter] = count.get(parameter, 0) + 1
    shared = [parameter for parameter, times in count.items() if times > 1]
    figures = [
        draw.of(
            f"Posterior of {parameter} in each model that has it",
            style.drawn(overlaid, learned, parameter, width=4.6, height=2.8),
        )
        for parameter in shared
    ]
    return section("Parameters that models share", parts.pictures(figures))


def overlaid(results: Mapping[str, Result], parameter: str, axes: Axes) -> Axes:
    """One parameter's posterior in several models."""
    label = parameter
    for k, (name, r) in enumerate(results.items()):
        if parameter in r.prior.names:
            index = r.prior.names.index(parameter)
            label = r.prior.labels[index]
            x, height = _curve(r, index, clusters_of(r))
            axes.fill_between(x, height, color=_colour(k), alpha=0.15, lw=0)
            axes.plot(x, height, color=_colour(k), ls=_LINES[k % len(_LINES)], label=readable(name))
    axes.set(xlabel=readable(label), yticks=[], ylim=(0.0, None))
    axes.spines["left"].set_visible(False)
    axes.legend()
    return axes


def _curve(result: Result, index: int, clusters: IntArray) -> tuple[Array, Array]:
    values = result.samples[:, [index]]
    support = np.array(result.prior.marginals[result.prior.names[index]].support())
    low, high = np.quantile(values, [0.001, 0.999])
    pad = 0.15 * (high - low)
    x = np.linspace(max(low - pad, support[0]), min(high + pad, support[1]), _CURVE)
    return x, density.estimate(x[:, None], values, clusters, support[:1], support[1:]) / density.unit(values)


def _trust(comparison: Comparison) -> str:
    rows = [[name, diagnostics.verdict(diagnostics.findings(r))] for name, r in comparison.results.items()]
    return section("Can they be trusted?", table(["model", "checks"], rows, words=(0, 1)))


def _colour(k: int) -> str:
    return _COLOURS[k % len(_COLOURS)]
