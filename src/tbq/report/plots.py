"""Pictures of results, with matplotlib (the ``plot`` extra). Each function draws on given axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tbq.acquisition.functions import ACQUISITIONS
from tbq.common.errors import ArgumentError, MissingDependencyError
from tbq.common.types import Array
from tbq.evidence.target import Target
from tbq.problem.evaluation import Evaluation
from tbq.problem.prior import Prior
from tbq.report.diagnostics import left_out
from tbq.result.result import Result
from tbq.surrogate.protocol import Surrogate

Axes = Any  # matplotlib's types are not ours to promise
Figure = Any

_GRID = 201
_NODES = 128  # posterior draws that an acquisition function is averaged over: double sums cost their square
_MOST = 6  # parameters in a picture of pairs
_MOST_NUMBERS = 8  # on the bars of the stages
_LARGEST_LOG = 700.0  # whose exponential is still a float
_FLOOR = -8.0  # nats below its maximum where the picture of an acquisition function ends
_BLUE, _SKY, _ORANGE, _VERMILION, _GREY = "#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#999999"  # Okabe and Ito's


def pyplot() -> Any:
    """matplotlib.pyplot, or a sentence that says how to get it."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise MissingDependencyError("plots need matplotlib: pip install 'tbq[plot]'") from error
    return plt


def posterior_density(result: Result, axes: Axes, *, title: str | None = None) -> Axes:
    """Mean posterior density of two parameters with the runs on it: squares the first design, dots the rest."""
    grid, x, y = _grid(result)
    log_density = result.log_density(grid)
    beyond = max(float(log_density.max()) - _LARGEST_LOG, 0.0)  # floats: then it is shown in a unit of its own
    _density(axes, x, y, np.exp(log_density - beyond), result.prior.labels)
    _all_runs(result, axes)
    axes.set_title(title or f"{result.n_evaluations} runs, evidence {result.evidence:.4g}")
    return axes


def runs(initial: Sequence[Evaluation], chosen: Sequence[Evaluation], axes: Axes) -> Axes:
    """Where the likelihood was run: white squares the first design, orange dots the points chosen."""
    style = {"s": 18, "edgecolors": "black", "linewidths": 0.6, "zorder": 3}
    for evaluations, marker, colour in ((initial, "s", "white"), (chosen, "o", _ORANGE)):
        if evaluations:
            axes.scatter(*np.array([e.theta for e in evaluations]).T, marker=marker, c=colour, **style)
    return axes


def _all_runs(result: Result, axes: Axes) -> None:
    initial = [e for e in result.evaluations if e.origin == "initial"]
    runs(initial, [e for e in result.evaluations if e.origin != "initial"], axes)


def tempered_density(prior: Prior, surrogate: Surrogate[Any], gamma: float, axes: Axes) -> Axes:
    """The density proportional to E[L^γ] p of two parameters, normalised to a maximum of one."""
    grid, x, y = _mesh(*_limits(prior.sample(4000, 0)))
    value = surrogate.log_mean(surrogate.at(prior.to_working(grid)), gamma) + prior.log_density(grid)
    _density(axes, x, y, np.exp(value - value.max()), prior.labels)
    return axes


def density_error(result: Result, axes: Axes, *, title: str | None = None) -> Axes:
    """Numerical standard deviation of the posterior density of two parameters, up to the density's maximum."""
    grid, x, y = _grid(result)
    largest = float(np.exp(result.log_density(grid)).max())
    _density(axes, x, y, result.density_sd(grid), result.prior.labels, vmin=0.0, vmax=largest)
    axes.set_title(title or "its numerical standard deviation")
    return axes


def convergence(result: Result, axes: Axes) -> Axes:
    """The final stage's evidence against the number of runs, with one standard deviation of the surrogate's error."""
    records = [r for r in result.history if r.gamma == 1.0]
    axes.set(xlabel="runs", ylabel="log evidence", title="convergence, once γ reached 1")
    if not records:
        axes.text(0.5, 0.5, "γ has not reached 1", ha="center", va="center", transform=axes.transAxes)
        return axes
    n = np.array([r.n_evaluations for r in records])
    log_evidence = np.array([r.log_evidence for r in records])
    sd = np.sqrt(np.log1p(np.minimum([r.cov for r in records], 1e3) ** 2))
    axes.fill_between(n, log_evidence - sd, log_evidence + sd, color=_SKY, alpha=0.4, lw=0, label="± 1 sd then")
    axes.plot(n, log_evidence, color=_BLUE, lw=1.5, marker="o", ms=3)
    axes.axhline(result.log_evidence, color="black", lw=1, ls="--", label="final")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    return axes


def gamma_schedule(result: Result, axes: Axes) -> Axes:
    """How the stages led from the prior (γ = 0) to the posterior (γ = 1)."""
    axes.plot(range(1, len(result.stages) + 1), [s.gamma for s in result.stages], color=_BLUE, marker="o")
    axes.axhline(1.0, color="black", lw=1, ls="--")
    axes.set(xlabel="stage", ylabel="γ", title="tempering", yscale="log")
    axes.xaxis.get_major_locator().set_params(integer=True)
    return axes


def stage_weights(result: Result, axes: Axes) -> Axes:
    """Points of each stage's population that carry weight in the next, and the fraction of its moves accepted."""
    stage = np.arange(1, len(result.stages) + 1)
    sizes = [s.effective_sample_size for s in result.stages]
    axes.bar(stage, sizes, color=_SKY)
    if len(stage) <= _MOST_NUMBERS:
        for x, size, s in zip(stage, sizes, result.stages, strict=True):
            axes.annotate(f"{100 * s.acceptance:.0f} %", (x, size), ha="center", va="bottom", fontsize=8)
    axes.set(
        xlabel="stage",
        ylabel="effective sample size",
        title="weights" + " (and moves accepted)" * (len(stage) <= _MOST_NUMBERS),
    )
    axes.margins(y=0.15)
    axes.xaxis.get_major_locator().set_params(integer=True)
    return axes


def predicted(result: Result, axes: Axes) -> Axes:
    """Runs that matter against what all other runs say of them, with two standard deviations."""
    runs = left_out(result)
    if runs is None:
        raise ArgumentError(f"the surrogate ({_learned(result).description}) does not offer leave-one-out predictions")
    off = np.abs(runs.scores) > 2.0
    for chosen, colour, label in ((~off, _BLUE, "within 2 sd"), (off, _VERMILION, "farther off")):
        k = chosen & runs.relevant
        if k.any():
            style = {"fmt": "o" if colour == _BLUE else "D", "ms": 4, "lw": 1, "color": colour, "label": label}
            axes.errorbar(runs.found[k], runs.expected[k], 2.0 * runs.sd[k], **style)
    best = runs.found.max()
    low = runs.found[runs.relevant].min()
    axes.axline((best, best), slope=1.0, color="black", lw=1, ls="--")
    pad = 0.05 * (best - low) + max(0.5, 4.0 * np.spacing(abs(best)))
    axes.set(xlim=(low - pad, best + pad), ylim=(low - 4 * pad, best + 4 * pad))
    axes.set(xlabel="log-likelihood found", ylabel="expected from all others", title="leave-one-out")
    axes.legend(frameon=False)
    return axes


def acquisition(result: Result, axes: Axes, name: str = "peur") -> Axes:
    """What a further run would be worth over two parameters, as logarithm relative to the best place for it."""
    if name not in ACQUISITIONS:
        raise ArgumentError(f"name must be one of {', '.join(ACQUISITIONS)}; got {name!r}")
    grid, x, y = _grid(result, 81)
    surrogate, prior = _learned(result), result.prior
    z = prior.to_working(result.samples[:: max(len(result.samples) // _NODES, 1)])
    weights = np.full(len(z), 1.0 / len(z))
    target = Target(surrogate, 1.0, result.log_evidence, surrogate.at(z), z, weights, prior.log_density_working)
    inside = prior.contains(grid)
    value = np.full(len(grid), -np.inf)
    value[inside] = ACQUISITIONS[name](target, prior.to_working(grid[inside]))
    _density(axes, x, y, np.maximum(value - value.max(), _FLOOR), prior.labels)
    _all_runs(result, axes)
    axes.set_title(f"worth of a further run (log {name.upper()})")
    return axes


def stages(result: Result) -> Figure:
    """A panel for each stage of two parameters: its tempered posterior as it is known now, with the runs by then."""
    _check_two_parameters(result)
    surrogate = _learned(result)
    columns = min(len(result.stages), 4)
    rows = -(-len(result.stages) // columns)
    size = (3.6 * columns, 3.2 * rows)
    figure, grid = pyplot().subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    count = 0
    for number, (axes, stage) in enumerate(zip(grid.flat, result.stages, strict=False), 1):
        tempered_density(result.prior, surrogate, stage.gamma, axes)
        before, count = count, count + stage.evaluations
        runs(result.evaluations[:before], result.evaluations[before:count], axes)
        axes.set_title(f"stage {number}: γ = {stage.gamma:.3g}, {stage.evaluations} runs")
    for axes in grid.flat[len(result.stages) :]:
        axes.remove()
    figure.suptitle("white: earlier runs, orange: runs of the stage")
    return figure


def marginal(prior: Prior, draws: Array, name: str, axes: Axes, *, truth: float | None = None) -> Axes:
    """Density of one parameter over posterior draws, its prior (dashed) and, where it is known, its true value."""
    before, after = prior.marginals[name], draws[:, prior.names.index(name)]
    low, high = before.ppf([0.001, 0.999])
    x = np.linspace(low, high, _GRID)
    axes.hist(after, bins=_bins(after, low, high), density=True, color=_SKY, label="posterior")
    axes.plot(x, before.pdf(x), color="black", lw=1, ls="--", label="prior")
    if truth is not None:
        axes.axvline(truth, color=_VERMILION, lw=1.5, label="true value")
    axes.set(xlabel=_label(prior, name), yticks=[])
    return axes


def pair(
    prior: Prior, draws: Array, names: tuple[str, str], axes: Axes, *, truth: tuple[float, float] | None = None
) -> Axes:
    """Joint density of two parameters over posterior draws; a cross marks the true values."""
    axes.hist2d(*draws[:, [prior.names.index(name) for name in names]].T, bins=40, cmap="cividis")
    if truth is not None:
        axes.scatter(*truth, marker="X", s=90, c=_VERMILION, edgecolors="white", linewidths=1.2, zorder=3)
    axes.set(xlabel=_label(prior, names[0]), ylabel=_label(prior, names[1]))
    return axes


def pairs(result: Result, names: Sequence[str] | None = None, truth: Mapping[str, float] | None = None) -> Figure:
    """Every parameter with its prior, and every pair: of those named, or of the six that the data narrowed most."""
    prior, draws = result.prior, result.samples
    _learned(result)
    names = list(names) if names is not None else most_narrowed(result)
    unknown = [n for n in (*names, *(truth or {})) if n not in prior.names]
    if unknown:
        raise ArgumentError(f"there is no parameter {unknown[0]!r}; there are {', '.join(prior.names)}")
    truth, n = truth or {}, len(names)
    size = (max(2.1 * n, 4.2), max(2.0 * n, 3.4))
    figure, grid = pyplot().subplots(n, n, figsize=size, layout="constrained", squeeze=False)
    for i, row in enumerate(names):
        marginal(prior, draws, row, grid[i, i], truth=truth.get(row))
        for j, column in enumerate(names[:i]):
            known = (truth[column], truth[row]) if column in truth and row in truth else None
            pair(prior, draws, (column, row), grid[i, j], truth=known)
            grid[i, j].set(xlabel=grid[i, j].get_xlabel() * (i == n - 1), ylabel=grid[i, j].get_ylabel() * (j == 0))
        for j in range(i + 1, n):
            grid[i, j].remove()
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper right" if n > 1 else "outside lower center", ncols=1 if n > 1 else 3)
    return figure


def most_narrowed(result: Result, most: int = _MOST) -> list[str]:
    """The parameters of which the data said most, in the prior's order."""
    after, before = result.samples, result.prior.sample(2**12, 0, "sobol")
    left = _width(after) / _width(before)
    return [result.prior.names[i] for i in sorted(np.argsort(left)[:most])]


def _width(draws: Array) -> Array:
    return np.diff(np.quantile(draws, [0.05, 0.95], axis=0), axis=0)[0]


def exact_density(problem: Any, axes: Axes, *, title: str | None = None) -> Axes:
    """Exact posterior density of a benchmark problem (:mod:`tbq.problems`) with two parameters."""
    low, high = _limits(problem.prior.sample(4000, 0))
    grid, x, y = _mesh(low, high)
    density = np.exp(problem.log_likelihood(grid) + problem.prior.log_density(grid) - problem.reference.log_evidence)
    _density(axes, x, y, density, problem.prior.names)
    axes.set_title(title or f"exact, evidence {problem.reference.evidence:.4g}")
    return axes


def _density(axes: Axes, x: Array, y: Array, density: Array, names: tuple[str, ...], **limits: float) -> None:
    values = density.reshape(len(y), len(x))
    mesh = axes.pcolormesh(x, y, values, cmap="cividis", shading="nearest", rasterized=True, **limits)
    axes.figure.colorbar(mesh, ax=axes, shrink=0.85)
    labels = [_readable(name) for name in names]
    axes.set(xlabel=labels[0], ylabel=labels[1], xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))


def _label(prior: Prior, name: str) -> str:
    return _readable(prior.labels[prior.names.index(name)])


def _readable(text: str) -> str:
    """The text as it is where matplotlib would stumble over its formula."""
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(text)
    except ValueError:
        return text.replace("$", r"\$")
    return text


def _bins(draws: Array, low: float, high: float) -> Array:
    """Some thirty bins over the draws and whatever of the prior's range they leave."""
    first, last = np.quantile(draws, [0.001, 0.999])
    width = max((last - first) / 30.0, (high - low) / 2000.0)
    low, high = min(low, draws.min()), max(high, draws.max())
    return np.linspace(low, high, round((high - low) / width) + 1)  # none reaches past a bound


def _learned(result: Result) -> Surrogate[Any]:
    if result.surrogate is None:
        raise ArgumentError(f"there is no posterior to draw. {result.stop.value}")
    return result.surrogate


def _check_two_parameters(result: Result) -> None:
    if result.prior.dim != 2:
        raise ArgumentError(f"this picture needs two parameters; the result has {result.prior.dim}")


def _grid(result: Result, size: int = _GRID) -> tuple[Array, Array, Array]:
    _check_two_parameters(result)
    low, high = _limits(result.prior.sample(4000, 0))
    if len(result.samples):  # the posterior with some of what surrounds it
        first, last = _limits(result.samples)
        low, high = np.maximum(low, 1.5 * first - 0.5 * last), np.minimum(high, 1.5 * last - 0.5 * first)
    return _mesh(low, high, size)


def _limits(draws: Array) -> tuple[Array, Array]:
    return np.quantile(draws, 0.002, axis=0), np.quantile(draws, 0.998, axis=0)


def _mesh(low: Array, high: Array, size: int = _GRID) -> tuple[Array, Array, Array]:
    x, y = np.linspace(low[0], high[0], size), np.linspace(low[1], high[1], size)
    return np.column_stack([a.ravel() for a in np.meshgrid(x, y)]), x, y
