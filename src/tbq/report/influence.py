"""What matters: Sobol indices with their intervals, what the data fix, and correlations, in pictures and numbers."""

from __future__ import annotations

import numpy as np

from tbq.common.types import Array
from tbq.report import parts, style
from tbq.report.parts import Pictures, details, paragraph, section, table
from tbq.report.style import BLUE, INK, ORANGE, Axes, readable
from tbq.result.result import Result
from tbq.result.sensitivity import Direction, Indices, Sensitivity

_MOST = 8  # quantities with a panel each, and parameters in it; more are in the table only
_MOST_ROWS = 45  # of the whole picture, which is printed on half a page
_MOST_PRINTED = 80  # rows of the table, two pages of paper
_FIXED = 0.5  # of its prior spread, below which a combination counts as known
_FREE = 0.9  # above which the data say nothing of it
_CROWDED = 6  # parameters above which a picture takes up the page
_WEAK = 0.1  # a correlation that has no number then
_STRONG = 0.3  # a correlation worth a line

_SECTION = (
    "Sobol indices, by the surrogate and without a run: the first order is the part of a quantity's variance that a "
    "parameter explains alone, the total one all in which it takes part. Bars are 90 % intervals; they hold what the "
    "surrogate does not know. Over the posterior parameters depend on each other: indices need not add up, and a total "
    "one is small where the others already tell the parameter."
)


def of_result(result: Result, draw: Pictures) -> str:
    """The section of the page."""
    found = result.sensitivity()
    rows_of = _largest(found)
    shown = _shown(found.prior, len(rows_of))
    height = 0.9 + 0.17 * (len(rows_of) + 1) * len(shown)
    left = f", of the {len(rows_of)} parameters with the largest" if len(rows_of) < result.prior.dim else ""
    figures = [
        draw.of(
            f"Sobol indices over the {which.over}{left}",
            style.drawn(sobol, which, shown, rows_of, width=4.4, height=height),
        )
        for which in (found.prior, found.posterior)
    ]
    if result.prior.dim > 2:
        side = max(2.6, 0.42 * result.prior.dim + 1.6)
        figure = style.drawn(correlations, result, found.correlation, width=side + 0.7, height=side)
        figures.append(draw.of("Correlations of the posterior", figure, wide=result.prior.dim > _CROWDED))
    rows = [row for which in (found.prior, found.posterior) for row in _rows(which)]
    heads = ["quantity", "over", "parameter", "first order", "5 %", "95 %", "total", "5 %", "95 %"]
    return section(
        "What matters",
        paragraph(_SECTION),
        parts.pictures(figures),
        _fixed(found, result),
        details(
            "All indices in a table",
            table(heads, rows, sortable=True, words=(0, 1, 2)),
            on_paper=len(rows) <= _MOST_PRINTED,
        ),
    )


def _shown(indices: Indices, parameters: int) -> list[int]:
    """The quantities that are drawn: the log-likelihood and some of the outputs."""
    last = len(indices.quantities) - 1
    most = min(last, _MOST, max(_MOST_ROWS // (parameters + 1) - 1, 1))
    return [last, *np.unique(np.linspace(0, last - 1, most).astype(int))] if last else [0]


def _largest(found: Sensitivity) -> list[int]:
    """The parameters that matter most for some quantity, over prior or posterior, in their order."""
    totals = np.vstack([found.prior.total, found.posterior.total])
    return sorted(np.argsort(-np.nan_to_num(totals).max(axis=0), kind="stable")[:_MOST].tolist())


def _rows(indices: Indices) -> list[list[str]]:
    numbers = [indices.first, *indices.first_interval, indices.total, *indices.total_interval]
    return [
        [quantity, indices.over, name, *(f"{n[q, i]:.3f}" for n in numbers)]
        for q, quantity in enumerate(indices.quantities)
        for i, name in enumerate(indices.parameters)
    ]


def sobol(indices: Indices, shown: list[int], parameters: list[int], axes: Axes) -> Axes:
    """A group of rows for each quantity: first order blue, total orange, of the parameters."""
    d = len(parameters)
    ticks, labels = [], []
    for group, q in enumerate(shown):
        for place, i in enumerate(parameters):
            row = -(group * (d + 1) + place)
            for value, interval, colour, shift in (
                (indices.first, indices.first_interval, BLUE, 0.18),
                (indices.total, indices.total_interval, ORANGE, -0.18),
            ):
                if np.isfinite(value[q, i]):
                    axes.hlines(row + shift, *interval[:, q, i], color=colour, lw=2.2, alpha=0.55)
                    axes.plot(value[q, i], row + shift, "o", ms=3.4, color=colour)
            ticks.append(row)
            labels.append(readable(indices.parameters[i]))
        words = {"ha": "left", "va": "bottom", "fontsize": 8, "fontweight": "bold", "color": INK}
        axes.annotate(readable(indices.quantities[q], 40), (0.0, 0.45 - group * (d + 1)), **words)
    axes.set(
        yticks=ticks, xlim=(-0.02, 1.05), ylim=(min(ticks) - 0.7, 1.3), xlabel=f"Sobol index over the {indices.over}"
    )
    axes.set_yticklabels(labels, fontsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.plot([], [], "o-", ms=3.4, color=BLUE, label="first order")
    axes.plot([], [], "o-", ms=3.4, color=ORANGE, label="total")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.0)
    axes.grid(axis="x", lw=0.5)
    return axes


def correlations(result: Result, matrix: Array, axes: Axes) -> Axes:
    """Correlations of the posterior, with their numbers; of many parameters those that are not weak."""
    names = [readable(n, 16) for n in result.prior.names]
    shown = np.where(np.tri(len(names), k=-1, dtype=bool), matrix, np.nan)[1:, :-1]
    image = axes.imshow(shown, cmap="PuOr", vmin=-1.0, vmax=1.0)
    axes.figure.colorbar(image, ax=axes, shrink=0.8, ticks=[-1, 0, 1], label="correlation")
    size, least = (8, 0.0) if len(names) <= _CROWDED else (7, _WEAK)
    for (i, j), value in np.ndenumerate(shown):
        if np.isfinite(value) and abs(value) >= least:
            colour = "white" if abs(value) > 0.7 else "#1d2431"  # on light fields, also where the page is dark
            axes.text(j, i, f"{value:.2f}".replace("-", "−"), ha="center", va="center", fontsize=size, color=colour)
    axes.set(xticks=range(len(names) - 1), yticks=range(len(names) - 1))
    axes.set_xticklabels(names[:-1], rotation=45, ha="right", fontsize=8)
    axes.set_yticklabels(names[1:], fontsize=8)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes


def _fixed(found: Sensitivity, result: Result) -> str:
    """Which combinations the data fix, and which they leave free."""
    fixed = [d for d in found.directions if d.left < _FIXED]
    free = [d for d in found.directions if d.left > _FREE]
    said = (
        f"The data fix {len(fixed)} of {result.prior.dim} independent combinations of the parameters to less than half "
        f"of their prior spread and leave {len(free) or 'none'} as they were."
    )
    if len(result.modes) > 1:
        said += " There are several modes: the spread between them counts too."
    some = found.directions if len(found.directions) <= _CROWDED else [d for d in found.directions if d.left <= _FREE]
    note = "Parameters count in standard deviations of their prior, positive ones by their logarithm where it says so."
    if len(some) < len(found.directions):
        note += " Those that are free are in result.sensitivity().directions."
    heads = ["combination", "posterior / prior sd", ""]
    rows = [[d.words, f"{d.left:.3g}", _word(d)] for d in some]
    strong = _strongest(found.correlation, result.prior.names)
    shown = table(heads, rows, words=(0, 2)) if rows else ""
    return paragraph(said) + paragraph(strong) + shown + paragraph(note, "soft")


def _word(direction: Direction) -> str:
    return "fixed" if direction.left < _FIXED else "free" if direction.left > _FREE else "narrowed"


def _strongest(matrix: Array, names: tuple[str, ...]) -> str:
    pairs = [(abs(matrix[i, j]), matrix[i, j], names[i], names[j]) for i in range(len(names)) for j in range(i)]
    found = sorted((p for p in pairs if p[0] >= _STRONG), reverse=True)[:5]
    if not found:
        return ""
    listed = ", ".join(f"{b} and {a} {value:+.2f}".replace("-", "−") for _, value, a, b in found)
    return f"Strongest correlations: {listed}."
