"""Every parameter and every pair: contours of the posterior, with the prior, the runs and the true values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tbq.common.errors import ArgumentError
from tbq.common.types import Array, IntArray
from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.prior import Prior
from tbq.report import density, style
from tbq.report.axes import own_axes, shown_once
from tbq.report.style import BLUE, INK, LINE, ORANGE, SKY, VERMILION, Axes, Figure
from tbq.result.result import Result

MOST = 10  # parameters in a picture
_FRACTIONS = (0.9, 0.5)  # of the posterior, in the filled contours
_FILLS = ((SKY, 0.35), (BLUE, 0.65))
_GRID = 60  # points across
_COARSE = 40  # the same where there are many parameters, and panels are small
_FINE = 30  # points across each narrow piece
_NARROW = 0.2  # fraction of the view
_SMOOTH = 4  # points between two of the grid, of a curve
_FLAT = 2.5  # times the density at the border of 90 %: a maximum below that is no hill, and its contours are chance
_FILLED = 0.8  # of the view, by the 90 % of a flat density; where it takes up less there is an empty side to show
_EVEN = 2.0  # the same for the border of 50 %; of a normal density it is five times as high
_EDGE = 0.005  # quantile of each piece at which the view ends, before it is padded
_PAD = 0.3  # of the piece's width
_AIR = 0.03  # of the view, beyond that: a narrow piece does not stand in a corner
_MOST_DRAWS = 2000  # under a kernel estimate
_STRIP = 0.012  # fraction of the prior: the least that a mark in the strip is wide
_CROWDED = 5  # parameters from which on letters are smaller
_LEFT = 0.6  # inches between a panel and its name
_RUN = {"s": 7, "linewidths": 0, "alpha": 0.55, "zorder": 3}


@dataclass(frozen=True)
class View:
    """A parameter's axis: where it is looked at, on which grid, and where the posterior stands in the prior."""

    name: str
    label: str
    index: int
    low: float
    high: float
    grid: Array  # (g,)
    ends: tuple[float, float]  # of the prior's support


def marginal(
    prior: Prior,
    draws: Array,
    name: str,
    axes: Axes,
    *,
    truth: float | None = None,
    clusters: IntArray | None = None,
) -> Axes:
    """Density of one parameter over posterior draws, its prior (dashed) and, where it is known, its true value.

    The strip above shows which part of the prior the posterior takes up, from its lowest to its highest percentile.
    """
    draws, clusters = _thinned(draws, clusters)
    view = _view(prior, draws, name, clusters)
    values = draws[:, [view.index]]
    low, high = (np.array([end]) for end in view.ends)
    grid = np.unique(np.concatenate([np.linspace(*pair, _SMOOTH) for pair in itertools.pairwise(view.grid)]))
    height = density.estimate(grid[:, None], values, clusters, low, high) / density.unit(values)
    axes.fill_between(grid, height, color=SKY, alpha=0.35, lw=0, zorder=1)
    axes.plot(grid, height, color=BLUE, lw=1.2, zorder=2, label="posterior")
    axes.plot(grid, prior.marginals[name].pdf(grid), color=INK, lw=1, ls="--", zorder=2, label="prior")
    if truth is not None:
        axes.axvline(truth, color=VERMILION, lw=1.5, zorder=2, label="true value")
    axes.set(xlabel=view.label, yticks=[], xlim=(view.low, view.high), ylim=(0.0, None))
    axes.spines["left"].set_visible(False)
    _strip(prior, values[:, 0], clusters, name, axes)
    return axes


def pair(
    prior: Prior,
    draws: Array,
    names: tuple[str, str],
    axes: Axes,
    *,
    truth: tuple[float, float] | None = None,
    clusters: IntArray | None = None,
) -> Axes:
    """Smallest regions that hold 50 and 90 % of the posterior of two parameters; a cross marks the true values."""
    draws, clusters = _thinned(draws, clusters)
    return _kernel_pair(prior, draws, names, axes, truth, clusters, _GRID)


def _kernel_pair(
    prior: Prior,
    draws: Array,
    names: tuple[str, str],
    axes: Axes,
    truth: tuple[float, float] | None,
    clusters: IntArray,
    points: int,
) -> Axes:
    views = _view(prior, draws, names[0], clusters, points), _view(prior, draws, names[1], clusters, points)
    two = draws[:, [v.index for v in views]]
    low, high = np.array([v.ends for v in views]).T
    height = density.estimate(_mesh(views), two, clusters, low, high)
    return _contours(height, views, axes, truth)


@own_axes
def contours(result: Result, axes: Axes) -> Axes:
    """Of two parameters: regions that hold 50 and 90 % of the posterior, by the surrogate's density, and the runs."""
    if result.prior.dim != 2 or result.surrogate is None:
        raise ArgumentError(f"this picture needs a posterior of two parameters; the result has {result.prior.dim}")
    draws, clusters = _thinned(result.samples, clusters_of(result))
    a, b = result.prior.names
    _exact_pair(result, draws, (a, b), axes, None, clusters)
    mark_runs(result, (a, b), best_run(result), axes)
    return axes


def pairs(result: Result, names: Sequence[str] | None = None, truth: Mapping[str, float] | None = None) -> Figure:
    """Every parameter with its prior, and every pair: of those named, or of the ten that the data narrowed most.

    Contours hold 50 and 90 % of the posterior; dots are runs.
    """
    prior, truth = result.prior, dict(truth or {})
    if result.surrogate is None:
        raise ArgumentError(f"there is no posterior to draw. {result.stop.value}")
    names = list(names) if names is not None else most_narrowed(result)
    unknown = [n for n in (*names, *truth) if n not in prior.names]
    if unknown:
        raise ArgumentError(f"there is no parameter {unknown[0]!r}; there are {', '.join(prior.names)}")
    with style.look():
        figure, grid = _frame(len(names))
        draws, clusters = _thinned(result.samples, clusters_of(result), _MOST_DRAWS if len(names) <= _CROWDED else 1000)
        points, best = _GRID if len(names) <= _CROWDED else _COARSE, best_run(result)
        for i, row in enumerate(names):
            marginal(prior, draws, row, grid[i][i], truth=truth.get(row), clusters=clusters)
            if best is not None:
                _best_value(float(placed(result, best)[prior.names.index(row)]), grid[i][i])
            for j, column in enumerate(names[:i]):
                known = (truth[column], truth[row]) if column in truth and row in truth else None
                if prior.dim == 2:
                    _exact_pair(result, draws, (column, row), grid[i][j], known, clusters)
                else:
                    _kernel_pair(prior, draws, (column, row), grid[i][j], known, clusters, points)
                mark_runs(result, (column, row), best, grid[i][j], crowded=len(names) > _CROWDED)
            _outer_labels(grid[i], i, len(names))
        _legend(figure, len(names), result, bool(truth))
    return shown_once(figure)


def most_narrowed(result: Result, most: int = MOST) -> list[str]:
    """The parameters of which the data said most, in the prior's order."""
    return sorted(by_narrowing(result)[:most], key=result.prior.names.index)


def by_narrowing(result: Result) -> list[str]:
    """All parameters, first those of which the data said most."""
    left = _width(result.samples) / _width(result.prior.sample(2**12, 0, "sobol"))
    return [result.prior.names[i] for i in np.argsort(left, kind="stable")]


def outside(result: Result, names: Sequence[str]) -> int:
    """How many runs lie beyond the views of some of these parameters."""
    draws, clusters = _thinned(result.samples, clusters_of(result))
    views = [_view(result.prior, draws, name, clusters) for name in names]
    views = [v for v in views if v.index < result.prior.simulated.dim]
    seen = [all(v.low <= e.theta[v.index] <= v.high for v in views) for e in result.evaluations]
    return len(seen) - sum(seen)


def clusters_of(result: Result) -> IntArray:
    """Which mode each posterior draw belongs to."""
    clusters = np.zeros(len(result.samples), dtype=int)
    for k, mode in enumerate(result.modes):
        clusters[mode.rows] = k
    return clusters


def placed(result: Result, run: Evaluation) -> Array:
    """All parameters of a run: nan for those of the noise, which it has none of."""
    return np.append(run.theta, np.full(result.prior.dim - len(run.theta), np.nan))


def best_run(result: Result) -> Evaluation | None:
    """The run of highest posterior density."""
    known = [e for e in result.evaluations if e.status is Status.OK]
    return max(known, key=lambda e: e.log_likelihood + float(result.prior.simulated.log_density(e.theta)), default=None)


def mark_runs(
    result: Result, names: tuple[str, str], best: Evaluation | None, axes: Axes, *, crowded: bool = False
) -> None:
    """Dots where the model was run, crosses where that failed, a triangle at the best."""
    index = [result.prior.names.index(n) for n in names]
    for failed, marker, colour in ((False, "o", INK), (True, "x", VERMILION)):
        at = np.array([placed(result, e)[index] for e in result.evaluations if e.status.is_failure is failed])
        if len(at):
            style_of = {**_RUN, "s": 18, "linewidths": 1, "alpha": 0.9} if failed else _RUN
            style_of = {**style_of, "s": style_of["s"] / (3.0 if crowded else 1.0)}
            axes.scatter(*at.T, marker=marker, c=colour, **style_of)
    if best is not None:
        axes.scatter(
            *placed(result, best)[index],
            marker="^",
            s=18 if crowded else 34,
            c=ORANGE,
            edgecolors=INK,
            linewidths=0.6,
            zorder=4,
        )


# --- parts --------------------------------------------------------------------------------------------------


def _thinned(draws: Array, clusters: IntArray | None, most: int = _MOST_DRAWS) -> tuple[Array, IntArray]:
    rows = np.unique(np.linspace(0, len(draws) - 1, min(len(draws), most)).astype(int))
    return draws[rows], np.zeros(len(rows), dtype=int) if clusters is None else clusters[rows]


def _view(prior: Prior, draws: Array, name: str, clusters: IntArray, points: int = _GRID) -> View:
    """The axis that shows all of the posterior: every piece of it, and a fine grid for those that are narrow."""
    index = prior.names.index(name)
    values, support = draws[:, index], prior.marginals[name].support()
    spans = np.array([_padded(values[clusters == k]) for k in np.unique(clusters)])
    air = _AIR * (spans.max() - spans.min())
    low, high = max(spans.min() - air, support[0]), min(spans.max() + air, support[1])
    grid = [np.linspace(low, high, points)]
    for a, b in spans:
        if b - a < _NARROW * (high - low):
            grid.append(np.linspace(max(a, low), min(b, high), _FINE))
    label = style.readable(prior.labels[index])
    return View(name, label, index, low, high, np.unique(np.concatenate(grid)), (float(support[0]), float(support[1])))


def _padded(values: Array) -> tuple[float, float]:
    a, b = np.quantile(values, [_EDGE, 1.0 - _EDGE])
    pad = _PAD * (b - a) or 1e-6 * (abs(a) or 1.0)
    return float(a - pad), float(b + pad)


def _mesh(views: tuple[View, View]) -> Array:
    return np.column_stack([a.ravel() for a in np.meshgrid(views[0].grid, views[1].grid)])


def _exact_pair(
    result: Result,
    draws: Array,
    names: tuple[str, str],
    axes: Axes,
    truth: tuple[float, float] | None,
    clusters: IntArray,
) -> None:
    """Of a problem with two parameters: the surrogate's own density."""
    views = tuple(_view(result.prior, draws, name, clusters) for name in names)
    value = result.log_density(_mesh((views[0], views[1]))[:, np.argsort([v.index for v in views])])
    _contours(np.exp(value - value.max()), (views[0], views[1]), axes, truth)


def _contours(height: Array, views: tuple[View, View], axes: Axes, truth: tuple[float, float] | None) -> Axes:
    x, y = views
    height = height.reshape(len(y.grid), len(x.grid))
    areas = np.outer(*(density.cells((v.grid - v.low) / (v.high - v.low)) for v in (y, x)))
    outer, inner = density.levels(height, areas, _FRACTIONS)
    (light, thin), (dark, thick) = _FILLS
    top = float(height.max()) * (1.0 + 1e-9)
    held = float(areas[height >= outer].sum() / areas.sum())  # of the view, by the region of 90 %
    if top < _FLAT * outer and held > _FILLED:
        axes.axvspan(x.low, x.high, color=light, alpha=thin, lw=0, zorder=1)
    else:
        axes.contourf(x.grid, y.grid, height, [outer, top], colors=[light], alpha=thin, zorder=1)
        axes.contour(x.grid, y.grid, height, [outer], colors=[dark], linewidths=0.7, zorder=2)
    if inner > _EVEN * outer:
        axes.contourf(x.grid, y.grid, height, [inner, top], colors=[dark], alpha=thick, zorder=1)
        axes.contour(x.grid, y.grid, height, [inner], colors=[dark], linewidths=0.7, zorder=2)
    if truth is not None:
        axes.scatter(*truth, marker="X", s=60, c=VERMILION, edgecolors="white", linewidths=0.8, zorder=5)
    axes.set(xlabel=x.label, ylabel=y.label, xlim=(x.low, x.high), ylim=(y.low, y.high))
    return axes


def _strip(prior: Prior, values: Array, clusters: IntArray, name: str, axes: Axes) -> None:
    """A thin bar above the axes: the prior from its lowest to its highest percentile, and where the posterior is."""
    place = prior.marginals[name].cdf
    bar = axes.inset_axes((0.0, 1.04, 1.0, 0.05))
    bar.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xticks=[], yticks=[])
    bar.set_facecolor(LINE)
    for spine in bar.spines.values():
        spine.set_visible(False)
    for own in np.unique(clusters):
        a, b = (float(place(v)) for v in np.quantile(values[clusters == own], [0.05, 0.95]))
        middle, half = 0.5 * (a + b), 0.5 * max(b - a, _STRIP)
        bar.axvspan(middle - half, middle + half, color=BLUE, lw=0)


def _best_value(value: float, axes: Axes) -> None:
    axes.plot([value], [0.0], marker="^", ms=5.5, color=ORANGE, mec=INK, mew=0.6, clip_on=False, zorder=4)


def _panel(n: int) -> float:
    """Inches of a panel."""
    return 2.3 if n <= 3 else max(7.6 / n, 1.12)


def _frame(n: int) -> tuple[Figure, list[list[Any]]]:
    """A triangle of axes: a column shares its axis with the parameter above it, a row its own."""
    size = _panel(n)
    left, bottom, right, top, gap = _LEFT + 0.2, 0.85, 0.15, 0.3, 0.13 if n <= _CROWDED else 0.1
    legend = 0.0 if n > 1 else 1.9
    width = left + n * size + (n - 1) * gap + right + legend
    height = bottom + n * size + (n - 1) * gap + top
    figure = style.pyplot().figure(figsize=(width, height))
    grid: list[list[Any]] = []
    for i in range(n):
        grid.append([])
        for j in range(i + 1):
            x, y = left + j * (size + gap), bottom + (n - 1 - i) * (size + gap)
            box = (x / width, y / height, size / width, size / height)
            shared = {"sharex": grid[j][j] if i > j else None, "sharey": grid[i][0] if 0 < j < i else None}
            grid[i].append(figure.add_axes(box, **shared))
    return figure, grid


def _outer_labels(row: list[Any], i: int, n: int) -> None:
    """Numbers and names at the left and at the bottom only, in letters that fit."""
    from matplotlib.ticker import MaxNLocator

    small = 6.5 if n > _CROWDED else 8.0
    for j, axes in enumerate(row):
        axes.xaxis.set_major_locator(MaxNLocator(3, prune="both"))
        if j < i:
            axes.yaxis.set_major_locator(MaxNLocator(3, prune="both"))
        axes.tick_params(labelsize=small, labelbottom=i == n - 1, labelleft=j == 0 and j < i)
        axes.tick_params(axis="x", labelrotation=45 if n > 3 else 0)
        axes.set_xlabel(axes.get_xlabel() if i == n - 1 else "", fontsize=small + 0.5)
        axes.set_ylabel(axes.get_ylabel() if j == 0 and i > 0 else "", fontsize=small + 0.5)
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_offset_text().set_fontsize(small)
        axes.xaxis.set_label_coords(0.5, -(0.5 if n > 3 else 0.35) / _panel(n))
    row[0].yaxis.set_label_coords(-_LEFT / _panel(n), 0.5)


def _legend(figure: Figure, n: int, result: Result, truth: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    failed = any(e.status.is_failure for e in result.evaluations)
    marks: list[Any] = [
        Patch(facecolor=BLUE, alpha=0.65, label="50 % of the posterior"),
        Patch(facecolor=SKY, alpha=0.35, label="90 % of the posterior"),
        Line2D([], [], color=INK, lw=1, ls="--", label="prior"),
        Patch(facecolor=BLUE, edgecolor=LINE, lw=3, label="strip: its place in the prior"),
        Line2D([], [], color=INK, marker="o", ms=3, lw=0, alpha=0.55, label="run"),
        Line2D([], [], color=ORANGE, marker="^", mec=INK, mew=0.6, lw=0, label="best run"),
    ]
    if n == 1:
        del marks[4]
    if failed and n > 1:
        marks.append(Line2D([], [], color=VERMILION, marker="x", lw=0, label="failed run"))
    if truth:
        mark = {"marker": "X", "lw": 0} if n > 1 else {"lw": 1.5}
        marks.append(Line2D([], [], color=VERMILION, label="true value", **mark))
    figure.legend(handles=marks, loc="upper right", labelcolor=INK)


def _width(draws: Array) -> Array:
    return np.diff(np.quantile(draws, [0.05, 0.95], axis=0), axis=0)[0]
