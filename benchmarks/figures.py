"""Figures like the paper's, into docs/figures.

Run: python benchmarks/figures.py [bq] [tbq] [readme] [pairs] [battery]
"""

import runpy
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np

import tbq
from tbq.acquisition.functions import ENSEMBLE
from tbq.baselines.tmcmc import tmcmc
from tbq.bench import paper
from tbq.common.types import Array
from tbq.engine import conclude
from tbq.engine.stages import advance
from tbq.problem.options import AcquisitionName
from tbq.problem.settings import resolve
from tbq.report import plots
from tbq.result.result import Result

FOLDER = Path("docs/figures")
SEED = 0


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
    """The picture of the README's example."""
    result = runpy.run_path("examples/readme.py")["result"]
    figure, axes = plots.pyplot().subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    plots.posterior_density(result, axes[0])
    plots.convergence(result, axes[1])
    _save(figure, "readme")


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
