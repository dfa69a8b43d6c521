"""`tbq bench scale`: whole runs with many parameters and many outputs, their errors, and our own time."""

from __future__ import annotations

import json
import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tbq import problems
from tbq.bench import studies
from tbq.bench.scale_models import CASES, Reference
from tbq.common.types import Array
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.run.infer import infer

_REFERENCES = Path(__file__).with_name("scale_references.json")
PROBLEMS = ("dof2", "dof3", "decay", "battery")  # of the registry, beside the cases of their own
NAMES = (*PROBLEMS, *CASES)
# seconds of our own, and calls of the simulator, that a run is to take at most
SECONDS = {"dof3": 3, "battery": 10, "chain6": 5, "chain10": 20, "chain15": 60, "chain20": 90, "field": 30}
CALLS = {"chain20": 160, "mild20": 60, "mild30": 90}
COLUMNS = (
    "case",
    "parameters",
    "outputs",
    "components",
    "runs",
    "calls",
    "error of log Z, mean (largest)",
    "stated",
    "means off by, in sd",
    "converged",
    "own seconds (wanted)",
    "before",
    "MB",
)


@dataclass(frozen=True)
class Row:
    """What one run gave."""

    case: str
    seed: int
    parameters: int
    outputs: int
    components: int  # that the last surrogate had
    calls: int
    error: float  # of log Z
    stated: float
    off: float  # largest error of a posterior mean, in posterior standard deviations; nan where it is not known
    converged: bool
    seconds: float  # of processor time, without the simulator's
    peak_mb: float


def references() -> dict[str, Reference]:
    """Evidence and posterior of each case, as :func:`tbq.bench.scale_models.reference` found them."""
    stored = json.loads(_REFERENCES.read_text())
    return {
        k: Reference(v["log_evidence"], v["log_evidence_sd"], tuple(v["mean"]), tuple(v["sd"]))
        for k, v in stored.items()
    }


def measure(case: str, seed: int) -> Row:
    """One run with default settings, in a process of its own, so that its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run, case, seed).result()


def run(case: str, seed: int) -> Row:
    """One run with default settings."""
    likelihood, prior, log_evidence, known = _problem(case)
    likelihood, spent = _timed(likelihood)
    start = time.process_time()
    result = infer(likelihood, prior, seed=seed, progress=False)
    seconds = time.process_time() - start - spent()
    off = np.nan
    if known is not None:
        off = float(np.max(np.abs(np.mean(result.samples, axis=0) - known.mean) / np.array(known.sd)))
    return Row(
        case=case,
        seed=seed,
        parameters=prior.dim,
        outputs=len(likelihood.observed),
        components=len(getattr(result.surrogate, "components", ())),
        calls=result.n_evaluations,
        error=result.log_evidence - log_evidence,
        stated=result.log_evidence_sd,
        off=off,
        converged=result.converged,
        seconds=seconds,
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def _problem(name: str) -> tuple[GaussianLikelihood, Prior, float, Reference | None]:
    if name in CASES:
        case, known = CASES[name](), references()[name]
        return case.likelihood, case.prior, known.log_evidence, known
    problem = problems.get(name)
    assert isinstance(problem.log_likelihood, GaussianLikelihood)
    return problem.log_likelihood, problem.prior, problem.reference.log_evidence, None


def _timed(likelihood: GaussianLikelihood) -> tuple[GaussianLikelihood, Callable[[], float]]:
    """The same likelihood, and how many seconds its models have taken."""
    spent = [0.0]

    def timed(model: Callable[[Array], Any]) -> Callable[[Array], Any]:
        def call(theta: Array) -> Any:
            start = time.process_time()
            outputs = model(theta)
            spent[0] += time.process_time() - start
            return outputs

        return call

    experiments = tuple(replace(e, model=timed(e.model)) for e in likelihood.experiments)
    return GaussianLikelihood.of(experiments), lambda: spent[0]


def study(
    names: Sequence[str], seeds: Sequence[int], folder: Path, on_progress: Callable[[int], None] = lambda done: None
) -> list[Row]:
    """Make what is missing of the runs, one after the other, and the table of all there are."""
    path = folder / "scale_runs.csv"
    done = {(r.case, r.seed): r for r in studies.read_rows(Row, path)}
    wanted = [(name, seed) for name in names for seed in seeds]
    missing = [task for task in wanted if task not in done]
    before = len(wanted) - len(missing)
    on_progress(before)
    new = studies.run_missing(measure, missing, 1, path, lambda n: on_progress(before + n))
    done |= {(r.case, r.seed): r for r in new}
    (folder / "scale.md").write_text(report(list(done.values()), studies.read_rows(Row, folder / "scale_before.csv")))
    return [done[task] for task in wanted]


def table_rows(rows: Sequence[Row], before: Sequence[Row] = ()) -> list[list[str]]:
    """A line for each case; ``before`` are runs of the engine before processes were one object."""
    return [_cells(some, [b for b in before if b.case == name]) for name in NAMES if (some := _of(name, rows))]


def _of(name: str, rows: Sequence[Row]) -> list[Row]:
    return [r for r in rows if r.case == name]


def _cells(rows: Sequence[Row], before: Sequence[Row]) -> list[str]:
    name, errors = rows[0].case, np.abs([r.error for r in rows])
    wanted = f" ({SECONDS[name]})" if name in SECONDS else ""
    off = max(r.off for r in rows)
    return [
        name,
        str(rows[0].parameters),
        str(rows[0].outputs),
        f"{np.median([r.components for r in rows]):.0f}",
        str(len(rows)),
        _calls(rows) + (f", wanted {CALLS[name]}" if name in CALLS else ""),
        f"{errors.mean():.3f} ({errors.max():.3f})",
        f"{np.median([r.stated for r in rows]):.3f}",
        "" if np.isnan(off) else f"{off:.2f}",
        f"{sum(r.converged for r in rows)}",
        f"{_median(rows):.1f}{wanted}",
        f"{_median(before):.1f}, {_calls(before)} calls, {np.mean(np.abs([r.error for r in before])):.3f}"
        if before
        else "",
        f"{max(r.peak_mb for r in rows):.0f}",
    ]


def _calls(rows: Sequence[Row]) -> str:
    calls = [r.calls for r in rows]
    return f"{np.mean(calls):.1f} ({min(calls)}–{max(calls)})"


def _median(rows: Sequence[Row]) -> float:
    return float(np.median([r.seconds for r in rows]))


def report(rows: Sequence[Row], before: Sequence[Row]) -> str:
    """The page."""
    return "\n".join(
        [
            TEXT,
            f"| {' | '.join(COLUMNS)} |",
            "|" + "---|" * len(COLUMNS),
            *(f"| {' | '.join(cells)} |" for cells in table_rows(rows, before)),
            "",
        ]
    )


TEXT = """# Many parameters, many outputs

Made by `tbq bench scale`: default settings, one call of `tbq.infer` per seed. Own seconds are processor time on one
thread without the simulator's, the median over the runs; in brackets what is wanted at most. *Before* is the engine
that had its processes one by one: own seconds, calls, mean error of log Z. Errors are against importance sampling
with the true model (`scale_references.json`), and so are posterior means. `chainN` is a shear building of N unknown
stiffnesses, `field` the displacement of a membrane at 500 points, `mildN` a slightly bent model of N parameters,
`mild10of60` one of 60 of which ten do something. Every run: `scale_runs.csv`; before: `scale_before.csv`.
"""
