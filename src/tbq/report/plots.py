"""Pictures of results, with matplotlib (the ``plot`` extra). Each function draws on given axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tbq.acquisition.functions import ACQUISITIONS
from tbq.common.errors import ArgumentError
from tbq.common.types import Array
from tbq.evidence.target import Target
from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.prior import Prior
from tbq.report.axes import own_axes, shown_once
from tbq.report.left_out import left_out
from tbq.report.pairs import contours, marginal, most_narrowed, pair, pairs
from tbq.report.style import BLUE, GREY, INK, ORANGE, SKY, VERMILION, Axes, Figure, pyplot, readable, subplots
from tbq.result.result import Result
from tbq.surrogate.protocol import Surrogate

__all__ = [
    "acquisition",
    "contours",
    "convergence",
    "density_error",
    "exact_density",
    "gamma_schedule",
    "marginal",
    "most_narrowed",
    "pair",
    "pairs",
    "posterior_density",
    "predicted",
    "pyplot",
    "runs",
    "stage_weights",
    "stages",
    "tempered_density",
    "timeline",
]

_GRID = 201
_NODES = 128  # posterior draws that an acquisition function is averaged over: double sums cost their square
_MOST_NUMBERS = 8  # on the bars of the stages
_HUGE = 1e150  # whose square is still a float
_LARGEST_LOG = 700.0  # whose exponential is still a float
FINAL = "final, ± 2 sd of all errors"
_USUAL = 0.9  # quantile of the bands that the picture of the convergence shows whole: one run may surprise for a while
_BESIDE = 2.0  # times the evidences' own range that a band may add on either side: a wider one goes out of the picture
_FAR = 3.0  # times as far off as most evidences of the stages: beyond that they are out of the picture
_LINEAR = 5.0  # nats below the best run that are drawn to scale; what lies deeper is on a logarithmic one
_FLOOR = -8.0  # nats below its maximum where the picture of an acquisition function ends


@own_axes
def posterior_density(result: Result, axes: Axes, *, title: str | None = None) -> Axes:
    """Mean posterior density of two parameters with the runs on it: squares the first design, dots the rest."""
    grid, x, y = _grid(result)
    log_density = result.log_density(grid)
    beyond = max(float(log_density.max()) - _LARGEST_LOG, 0.0)  # floats: then it is shown in a unit of its own
    _density(axes, x, y, np.exp(log_density - beyond), result.prior.labels, "posterior density")
    _all_runs(result, axes)
    axes.set_title(title or f"{result.n_evaluations} runs, evidence {result.evidence:.4g}")
    return axes


def runs(initial: Sequence[Evaluation], chosen: Sequence[Evaluation], axes: Axes) -> Axes:
    """Where the likelihood was run: white squares the first design, orange dots the points chosen, crosses failures."""
    style = {"s": 18, "edgecolors": INK, "linewidths": 0.6, "zorder": 3}
    failed = [e for e in (*initial, *chosen) if e.status.is_failure]
    for evaluations, marker, colour in ((initial, "s", "white"), (chosen, "o", ORANGE)):
        if known := [e for e in evaluations if not e.status.is_failure]:
            axes.scatter(*np.array([e.theta for e in known]).T, marker=marker, c=colour, **style)
    if failed:
        axes.scatter(*np.array([e.theta for e in failed]).T, marker="x", c=VERMILION, s=24, zorder=3)
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


@own_axes
def density_error(result: Result, axes: Axes, *, title: str | None = None) -> Axes:
    """Numerical standard deviation of the posterior density of two parameters, up to the density's maximum."""
    grid, x, y = _grid(result)
    largest = float(np.exp(result.log_density(grid)).max())
    _density(axes, x, y, result.density_sd(grid), result.prior.labels, "sd of the density", vmin=0.0, vmax=largest)
    axes.set_title(title or "its numerical standard deviation")
    return axes


@own_axes
def convergence(result: Result, axes: Axes) -> Axes:
    """The final stage's evidence against the number of runs, with the error that was stated then."""
    records = [r for r in result.history if r.gamma == 1.0]
    axes.set(xlabel="runs", ylabel="log evidence", title="convergence, once γ reached 1")
    if not records:
        axes.text(0.5, 0.5, "γ has not reached 1", ha="center", va="center", transform=axes.transAxes)
        return axes
    n = np.array([r.n_evaluations for r in records])
    log_evidence = np.array([r.log_evidence for r in records])
    sd = np.minimum([r.error for r in records], _LARGEST_LOG)
    own = np.minimum(sd, np.sqrt(np.log1p(np.square(np.minimum([r.cov for r in records], _HUGE)))))
    for band, alpha, label in ((sd, 0.3, "with what may be hidden"), (own, 0.6, "± 1 sd of the surrogate")):
        axes.fill_between(n, log_evidence - band, log_evidence + band, color=SKY, alpha=alpha, lw=0, label=label)
    axes.plot(n, log_evidence, color=BLUE, lw=1.5, marker="o", ms=3)
    axes.axhline(result.log_evidence, color=INK, lw=1, ls="--")
    end = {"fmt": "D", "ms": 4, "color": ORANGE, "capsize": 3, "label": FINAL, "zorder": 3}
    known = min(result.log_evidence_sd, _LARGEST_LOG)
    axes.errorbar([result.n_evaluations], [result.log_evidence], 2.0 * known, **end)
    off = np.abs(log_evidence - result.log_evidence)
    near = off <= _FAR * np.quantile(off, _USUAL, method="lower")
    ends = [*log_evidence[near], result.log_evidence - 2.0 * known, result.log_evidence + 2.0 * known]
    usual = min(1.1 * float(np.quantile(sd, _USUAL)), _BESIDE * max(float(np.ptp(ends)), known))
    air = 0.05 * np.ptp(ends) + max(usual, 1e-6, 8.0 * np.spacing(np.abs(ends).max()))
    axes.set_ylim(min(ends) - air, max(ends) + air)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend()
    return axes


@own_axes
def timeline(result: Result, axes: Axes) -> Axes:
    """The log-likelihood of every run in its order; those that gave none are crosses at the foot."""
    known = [e for e in result.evaluations if np.isfinite(e.log_likelihood)]
    best = max((e.log_likelihood for e in known), default=0.0)
    foot = 2.0 * min([e.log_likelihood - best for e in known], default=0.0) - _LINEAR
    for initial, colour, label in ((True, GREY, "initial"), (False, BLUE, "chosen")):
        chosen = [(e.id, e.log_likelihood - best) for e in known if (e.origin == "initial") is initial]
        if chosen:
            axes.plot(*np.array(chosen).T, "o", ms=3.5, color=colour, label=label)
    lost = [e for e in result.evaluations if not np.isfinite(e.log_likelihood)]
    for infeasible, colour, marker in ((True, ORANGE, "d"), (False, VERMILION, "x")):
        runs_of = [e.id for e in lost if (e.status is Status.INFEASIBLE) is infeasible]
        if runs_of:
            label = "infeasible" if infeasible else "failed"
            axes.plot(runs_of, np.full(len(runs_of), foot), marker, ms=5, color=colour, label=label)
    axes.set(xlabel="run", ylabel="log-likelihood, nats below the best")
    axes.set_yscale("symlog", linthresh=_LINEAR)
    if foot < -2.0 * _LINEAR:
        tens = -(10.0 ** np.arange(1, np.log10(-foot)))
        axes.set_yticks([0.0, *tens[:: -(-len(tens) // 6)]])
        axes.set_yticks([], minor=True)
    axes.margins(y=0.1)
    axes.xaxis.get_major_locator().set_params(integer=True)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)
    return axes


@own_axes
def gamma_schedule(result: Result, axes: Axes) -> Axes:
    """How the stages led from the prior (γ = 0) to the posterior (γ = 1)."""
    axes.plot(range(1, len(result.stages) + 1), [s.gamma for s in result.stages], color=BLUE, marker="o")
    axes.axhline(1.0, color=INK, lw=1, ls="--")
    axes.set(xlabel="stage", ylabel="γ", title="tempering", yscale="log")
    axes.xaxis.get_major_locator().set_params(integer=True)
    return axes


@own_axes
def stage_weights(result: Result, axes: Axes) -> Axes:
    """Points of each stage's population that carry weight in the next, and the fraction of its moves accepted."""
    stage = np.arange(1, len(result.stages) + 1)
    sizes = [s.effective_sample_size for s in result.stages]
    axes.bar(stage, sizes, color=SKY)
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


@own_axes
def predicted(result: Result, axes: Axes) -> Axes:
    """Runs that matter against what all other runs say of them, with two standard deviations."""
    runs = left_out(result)
    if runs is None:
        raise ArgumentError(f"the surrogate ({_learned(result).description}) does not offer leave-one-out predictions")
    off = np.abs(runs.scores) > 2.0
    for chosen, colour, label in ((~off, BLUE, "within 2 sd"), (off, VERMILION, "farther off")):
        k = chosen & runs.relevant
        if k.any():
            style = {"fmt": "o" if colour == BLUE else "D", "ms": 4, "lw": 1, "color": colour, "label": label}
            axes.errorbar(runs.found[k], runs.expected[k], 2.0 * runs.sd[k], **style)
    best = runs.found.max()
    low = runs.found[runs.relevant].min()
    axes.axline((best, best), slope=1.0, color=INK, lw=1, ls="--")
    pad = 0.05 * (best - low) + max(0.5, 4.0 * np.spacing(abs(best)))
    axes.set(xlim=(low - pad, best + pad), ylim=(low - 4 * pad, best + 4 * pad))
    axes.set(xlabel="log-likelihood found", ylabel="expected from all others", title="leave-one-out")
    axes.legend()
    return axes


@own_axes
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
    _density(axes, x, y, np.maximum(value - value.max(), _FLOOR), prior.labels, "nats below the best place")
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
    figure, grid = subplots(rows, columns, *size, squeeze=False)
    count = 0
    for number, (axes, stage) in enumerate(zip(grid.flat, result.stages, strict=False), 1):
        tempered_density(result.prior, surrogate, stage.gamma, axes)
        before, count = count, count + stage.evaluations
        runs(result.evaluations[:before], result.evaluations[before:count], axes)
        axes.set_title(f"stage {number}: γ = {stage.gamma:.3g}, {stage.evaluations} runs")
    for axes in grid.flat[len(result.stages) :]:
        axes.remove()
    figure.suptitle("densities up to their maximum (yellow); white: earlier runs, orange: runs of the stage")
    return shown_once(figure)


def exact_density(problem: Any, axes: Axes, *, title: str | None = None) -> Axes:
    """Exact posterior density of a benchmark problem (:mod:`tbq.problems`) with two parameters."""
    low, high = _limits(problem.prior.sample(4000, 0))
    grid, x, y = _mesh(low, high)
    density = np.exp(problem.log_likelihood(grid) + problem.prior.log_density(grid) - problem.reference.log_evidence)
    _density(axes, x, y, density, problem.prior.names, "posterior density")
    axes.set_title(title or f"exact, evidence {problem.reference.evidence:.4g}")
    return axes


def _density(
    axes: Axes, x: Array, y: Array, density: Array, names: tuple[str, ...], what: str = "", **limits: float
) -> None:
    values = density.reshape(len(y), len(x))
    mesh = axes.pcolormesh(x, y, values, cmap="cividis", shading="nearest", rasterized=True, **limits)
    if what:
        axes.figure.colorbar(mesh, ax=axes, shrink=0.85, label=what)
    labels = [readable(name) for name in names]
    axes.set(xlabel=labels[0], ylabel=labels[1], xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))


def _learned(result: Result) -> Surrogate[Any]:
    if result.surrogate is None:
        raise ArgumentError(f"there is no posterior to draw. {result.stop.value}")
    return result.surrogate


def of_two(result: Result) -> bool:
    """Whether there are two parameters, both the simulator's: pictures of the plane have the runs in it."""
    return result.prior.dim == result.prior.simulated.dim == 2


def _check_two_parameters(result: Result) -> None:
    if not of_two(result):
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
