"""Pictures of results, with matplotlib (the ``plot`` extra). Each function draws on given axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tbq.errors import ArgumentError, MissingDependencyError
from tbq.evaluation import Evaluation
from tbq.prior import Prior
from tbq.problems import Problem
from tbq.result import Result
from tbq.surrogate import Surrogate
from tbq.types import Array

Axes = Any  # matplotlib's types are not ours to promise

_GRID = 201


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
    _density(axes, x, y, np.exp(result.log_density(grid)), result.prior.names)
    initial = [e for e in result.evaluations if e.origin == "initial"]
    runs(initial, [e for e in result.evaluations if e.origin != "initial"], axes)
    axes.set_title(title or f"{result.n_evaluations} runs, evidence {result.evidence:.4g}")
    return axes


def runs(initial: Sequence[Evaluation], chosen: Sequence[Evaluation], axes: Axes) -> Axes:
    """Where the likelihood was run: white squares the first design, orange dots the points chosen."""
    style = {"s": 18, "edgecolors": "black", "linewidths": 0.6, "zorder": 3}
    for evaluations, marker, colour in ((initial, "s", "white"), (chosen, "o", "#E69F00")):
        if evaluations:
            axes.scatter(*np.array([e.theta for e in evaluations]).T, marker=marker, c=colour, **style)
    return axes


def tempered_density(prior: Prior, surrogate: Surrogate[Any], gamma: float, axes: Axes) -> Axes:
    """The density proportional to E[L^γ] p of two parameters, normalised to a maximum of one."""
    grid, x, y = _mesh(*_limits(prior.sample(4000, 0)))
    value = surrogate.log_mean(surrogate.at(prior.to_working(grid)), gamma) + prior.log_density(grid)
    _density(axes, x, y, np.exp(value - value.max()), prior.names)
    return axes


def density_error(result: Result, axes: Axes, *, title: str | None = None) -> Axes:
    """Numerical standard deviation of the posterior density of two parameters, up to the density's maximum."""
    grid, x, y = _grid(result)
    largest = float(np.exp(result.log_density(grid)).max())
    _density(axes, x, y, result.density_sd(grid), result.prior.names, vmin=0.0, vmax=largest)
    axes.set_title(title or "its numerical standard deviation")
    return axes


def convergence(result: Result, axes: Axes) -> Axes:
    """The final stage's evidence against the number of runs, with one standard deviation of the surrogate's error."""
    records = [r for r in result.history if r.gamma == 1.0]
    n = np.array([r.n_evaluations for r in records])
    log_evidence = np.array([r.log_evidence for r in records])
    sd = np.sqrt(np.log1p(np.minimum([r.cov for r in records], 1e3) ** 2))
    axes.fill_between(n, log_evidence - sd, log_evidence + sd, color="#56B4E9", alpha=0.4, lw=0, label="± 1 sd then")
    axes.plot(n, log_evidence, color="#0072B2", lw=1.5)
    axes.axhline(result.log_evidence, color="black", lw=1, ls="--", label="final")
    axes.set(xlabel="runs", ylabel="log evidence", title="convergence, once γ reached 1")
    axes.legend(frameon=False)
    return axes


def marginal(prior: Prior, draws: Array, name: str, axes: Axes, *, truth: float | None = None) -> Axes:
    """Density of one parameter over posterior draws, its prior (dashed) and, where it is known, its true value."""
    before, after = prior.marginals[name], draws[:, prior.names.index(name)]
    low, high = before.ppf([0.001, 0.999])
    x = np.linspace(low, high, _GRID)
    axes.hist(after, bins=30, range=(low, high), density=True, color="#56B4E9", label="posterior")
    axes.plot(x, before.pdf(x), color="black", lw=1, ls="--", label="prior")
    if truth is not None:
        axes.axvline(truth, color="#D55E00", lw=1.5, label="true value")
    axes.set(xlabel=name, yticks=[])
    return axes


def pair(
    prior: Prior, draws: Array, names: tuple[str, str], axes: Axes, *, truth: tuple[float, float] | None = None
) -> Axes:
    """Joint density of two parameters over posterior draws; a cross marks the true values."""
    axes.hist2d(*draws[:, [prior.names.index(name) for name in names]].T, bins=40, cmap="cividis")
    if truth is not None:
        axes.scatter(*truth, marker="x", s=80, c="white", linewidths=2, zorder=3)
    axes.set(xlabel=names[0], ylabel=names[1])
    return axes


def exact_density(problem: Problem, axes: Axes, *, title: str | None = None) -> Axes:
    """Exact posterior density of a benchmark problem with two parameters."""
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
    axes.set(xlabel=names[0], ylabel=names[1], xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))


def _grid(result: Result) -> tuple[Array, Array, Array]:
    if result.prior.dim != 2:
        raise ArgumentError(f"this picture needs two parameters; the result has {result.prior.dim}")
    low, high = _limits(result.prior.sample(4000, 0))
    if len(result.samples):  # the posterior with some of what surrounds it
        first, last = _limits(result.samples)
        low, high = np.maximum(low, 1.5 * first - 0.5 * last), np.minimum(high, 1.5 * last - 0.5 * first)
    return _mesh(low, high)


def _limits(draws: Array) -> tuple[Array, Array]:
    return np.quantile(draws, 0.002, axis=0), np.quantile(draws, 0.998, axis=0)


def _mesh(low: Array, high: Array) -> tuple[Array, Array, Array]:
    x, y = np.linspace(low[0], high[0], _GRID), np.linspace(low[1], high[1], _GRID)
    return np.column_stack([a.ravel() for a in np.meshgrid(x, y)]), x, y
