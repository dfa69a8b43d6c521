"""Figures like the paper's, into docs/figures.

Run: python benchmarks/figures.py [bq] [tbq] [readme] [pairs] [battery]
"""

import csv
import runpy
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

import tbq
from tbq.acquisition.functions import ENSEMBLE
from tbq.baselines.tmcmc import tmcmc
from tbq.bench import paper
from tbq.common.types import Array
from tbq.engine import conclude
from tbq.engine.stages import advance
from tbq.problem.options import AcquisitionName
from tbq.problem.settings import resolve
from tbq.report import plots, style
from tbq.result.result import Result

FOLDER = Path("docs/figures")
SEED = 0
TMCMC_POPULATIONS = (100, 300, 1000)
TMCMC_SEEDS = 10


def bayesian_quadrature(name: str) -> None:
    """Posterior, training points, calls and evidence of BQ with each acquisition function (the paper's BQU1–BQU4)."""
    problem = tbq.problems.get(name)
    figure, axes = plots.pyplot().subplots(1, 5, figsize=(21, 4), layout="constrained", sharex=True, sharey=True)
    plots.exact_density(problem, axes[0])
    for axis, acquisition in zip(axes[1:], ENSEMBLE, strict=True):
        settings = resolve(
            2, algorithm="bq", acquisition=cast(AcquisitionName, acquisition), **paper.printed_settings(name, "bq")
        )
        result = Result.of(conclude(paper.drive(problem, settings, SEED)[0]))
        title = f"BQ-{acquisition.upper()}: {result.n_evaluations} runs, evidence {result.evidence:.4g}"
        plots.posterior_density(result, axis, title=title)
        axis.set_ylabel("")
    _save(figure, f"bq_{name}")


def stages(name: str) -> None:
    """The tempered posteriors of a default run with the training points that each stage added (TBQU1–TBQU4)."""
    problem = tbq.problems.get(name)
    settings = resolve(2)
    state, _ = paper.drive(problem, settings, SEED)
    populations = [*state.past[1:], state.population, advance(state).population]
    records = advance(state).stages
    count = len(records)
    figure, axes = plots.pyplot().subplots(1, count, figsize=(4.6 * count, 4), layout="constrained", squeeze=False)
    total = 0
    for axis, record, population, number in zip(
        axes[0], records, populations[-count:], range(1, count + 1), strict=True
    ):
        total += record.evaluations
        assert population.surrogate is not None
        plots.tempered_density(problem.prior, population.surrogate, record.gamma, axis)
        mine = [e for e in state.evaluations if e.stage == number]
        first = [e for e in state.evaluations if e.stage == 0] if number == 1 else []
        plots.runs(first, mine, axis)
        found = np.exp(record.log_evidence) if number < count else conclude(state).evidence
        axis.set_title(f"γ = {record.gamma:.3f}, {total} runs, evidence {found:.4g}")
    _save(figure, f"tbq_{name}")


def pairs(name: str, columns: list[tuple[int, int]]) -> None:
    """Pairwise marginals of a default run beside a reference sample (TenDPost, ThreeDOFPost)."""
    problem = tbq.problems.get(name)
    result = tbq.infer(problem.log_likelihood, problem.prior, seed=SEED)
    reference = tmcmc(
        problem.log_likelihood, problem.prior, population=20_000, chain_length=5, vectorized=True, seed=SEED
    )
    figure, axes = plots.pyplot().subplots(2, len(columns), figsize=(4.2 * len(columns), 7.6), layout="constrained")
    titles = (
        f"TBQ-PEUR, {result.n_evaluations} runs, evidence {result.evidence:.4g}",
        f"TMCMC, {reference.n_evaluations} runs; exact evidence {problem.reference.evidence:.4g}",
    )
    for row, draws, title in zip(axes, (result.sample(20_000, seed=SEED), reference.samples), titles, strict=True):
        for axis, pair in zip(row, columns, strict=True):
            _pair(axis, draws, pair, reference.samples, problem.prior.names)
        row[0].set_title(title, loc="left")
    _save(figure, f"{name}_pairs")


def readme() -> None:
    """The README's first picture: the posterior of its example, and what the evidence costs there and elsewhere.

    TMCMC is run here; nested sampling's calls and evidences are those that benchmarks/peers/study.py wrote down.
    """
    result = runpy.run_path("examples/readme.py")["result"]
    with style.look(), plots.pyplot().rc_context({"font.size": 10}):
        figure, axes = plots.pyplot().subplots(1, 2, figsize=(10.5, 4.3), layout="constrained")
        _frame_posterior(result, axes[0])
        _costs(result, axes[1])
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / "readme.png", dpi=110)
    print(FOLDER / "readme.png", flush=True)


def _frame_posterior(result: Result, axis: Any) -> None:
    plots.contours(result, axis)
    axis.set(xlabel="stiffness k1 [29.7 MN/m]", ylabel="stiffness k2 [29.7 MN/m]")
    for mode in result.modes:
        words = f"{100 * mode.mass:.0f} % of the posterior"
        right = mode.centre[0] > np.mean(axis.get_xlim())  # there it stands above, elsewhere beside the mode
        offset, side = ((30, 24), "center") if right else ((24, 16), "left")
        axis.annotate(words, mode.centre, offset, textcoords="offset points", ha=side)
    low, high = axis.get_ylim()
    axis.set_ylim(low, high + 0.22 * (high - low))
    marks = [
        Patch(facecolor=style.BLUE, alpha=0.65, label="half of the posterior"),
        Patch(facecolor=style.SKY, alpha=0.35, label="90 % of it"),
        Line2D([], [], marker="o", ms=3, lw=0, color=style.INK, alpha=0.55, label="run of the simulator"),
        Line2D([], [], marker="^", ms=6, lw=0, color=style.ORANGE, mec=style.INK, mew=0.6, label="best run"),
    ]
    axis.legend(handles=marks, loc="upper right", ncols=2, frameon=True, edgecolor="none", framealpha=0.9)
    axis.set_title(f"two frames explain two frequencies: found with {result.n_evaluations} runs")


def _costs(result: Result, axis: Any) -> None:
    """Evidence against calls: ours as it closes in, and what samplers need."""
    problem = tbq.problems.get("dof2")
    exact = problem.reference.log_evidence
    axis.axhline(exact, color=style.INK, lw=1, ls="--", label="exact")
    records = [r for r in result.history if r.gamma == 1.0]
    n = np.array([r.n_evaluations for r in records])
    values, sd = np.array([r.log_evidence for r in records]), np.array([np.sqrt(np.log1p(r.cov**2)) for r in records])
    bar = {"capsize": 3, "lw": 1.2, "ms": 5}
    axis.fill_between(n, values - 2 * sd, values + 2 * sd, color=style.SKY, alpha=0.4, lw=0)
    axis.plot(n, values, color=style.BLUE, lw=1.5)
    known = tbq.infer(problem.log_likelihood, problem.prior, seed=SEED)
    for r, mark, label in ((result, "o", "tbq"), (known, "D", "tbq, outputs learned")):
        calls = r.n_evaluations
        axis.errorbar(
            calls,
            r.log_evidence,
            2 * r.log_evidence_sd,
            fmt=mark,
            color=style.BLUE,
            label=f"{label}: {calls} runs",
            **bar,
        )
    for k, population in enumerate(TMCMC_POPULATIONS):
        runs = [
            tmcmc(problem.log_likelihood, problem.prior, population=population, chain_length=1, vectorized=True, seed=s)
            for s in range(TMCMC_SEEDS)
        ]
        calls, found = int(np.mean([r.n_evaluations for r in runs])), np.array([r.log_evidence for r in runs])
        error = np.sqrt(np.mean((found - exact) ** 2))
        print(f"TMCMC, population {population}: {calls} calls, rms error {error:.3f}, mean {np.mean(found):.3f}")
        label = f"TMCMC, {TMCMC_SEEDS} seeds" if k == 0 else ""
        axis.errorbar(calls, found.mean(), 2 * found.std(), fmt="s", color=style.ORANGE, label=label, **bar)
    with Path("docs/benchmarks/peers_runs.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (row["peer"], row["problem"]) == ("dynesty", "dof2")]
    for k, row in enumerate(rows):
        label = "nested sampling (dynesty)" if k == 0 else ""
        number = {key: float(row[key]) for key in ("calls", "log_evidence", "stated_sd")}
        axis.errorbar(
            number["calls"],
            number["log_evidence"],
            2 * number["stated_sd"],
            fmt="^",
            color=style.VERMILION,
            label=label,
            **bar,
        )
    axis.set(
        xscale="log", xlabel="runs of the simulator", ylabel="log evidence ± 2 sd", ylim=(exact - 1.3, exact + 1.0)
    )
    axis.set_title("what the model evidence costs")
    axis.legend(loc="lower right")


def _pair(axis: Any, draws: Array, pair: tuple[int, int], reference: Array, names: tuple[str, ...]) -> None:
    limits = [np.quantile(reference[:, i], [0.0005, 0.9995]) for i in pair]
    pads = [0.08 * (b - a) for a, b in limits]
    box = [(a - p, b + p) for (a, b), p in zip(limits, pads, strict=True)]
    axis.hist2d(draws[:, pair[0]], draws[:, pair[1]], bins=60, range=box, cmap="cividis")
    axis.set(xlabel=names[pair[0]], ylabel=names[pair[1]])


def _save(figure: Any, name: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / f"{name}.png", dpi=80)
    plots.pyplot().close(figure)
    print(FOLDER / f"{name}.png", flush=True)


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["bq", "tbq", "readme", "pairs", "battery"]
    for plane in ("u1", "u2", "u3", "u4"):
        if "bq" in wanted:
            bayesian_quadrature(plane)
        if "tbq" in wanted:
            stages(plane)
    if "readme" in wanted:
        readme()
    if "pairs" in wanted:
        pairs("dof3", [(0, 1), (0, 2), (1, 2)])
        pairs("ten", [(0, 1), (2, 3), (4, 5), (6, 7)])
    if "battery" in wanted:
        runpy.run_path("examples/battery.py")["main"](str(FOLDER))
