"""`tbq bench paper`: the experiments of the paper, its figures beside ours.

Every run is one row of a CSV file, written as soon as it is done; a study that was interrupted goes on where it
stopped. The Markdown tables are made from that file alone.
"""

from __future__ import annotations

import csv
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from tbq import engine, problems
from tbq.acquisition.functions import ENSEMBLE
from tbq.baselines.tmcmc import tmcmc
from tbq.bench import studies
from tbq.common.errors import ArgumentError
from tbq.common.types import Array
from tbq.engine.stages import advance
from tbq.problem.settings import Settings, resolve
from tbq.problem.tuning import Tuning
from tbq.problems import Problem
from tbq.simulate.pool import evaluate

SETTINGS = ("paper", "default")

# What Section 5 states, and what it leaves open chosen as in its other examples: for dof2 nothing is stated at all.
_PLANE = {"n_initial": 12, "population": 5000, "chain_length": 30, "search": "continuous", "max_evaluations": 250}
_POOL = {"search": "pool", "chain_length": 30}
_MANY = {**_POOL, "n_initial": 20, "population": 5000, "max_evaluations": 400}
PAPER_SETTINGS: dict[str, dict[str, Any]] = {
    "u1": {**_PLANE, "kernel": "se", "tolerance": (0.04, 0.04), "temper_cov": 1.0},
    "u2": {**_PLANE, "kernel": "se", "tolerance": (0.04, 0.04), "temper_cov": 1.0},
    "u3": {**_PLANE, "kernel": "se", "tolerance": (0.02, 0.02), "temper_cov": 1.0},
    "u4": {**_PLANE, "kernel": "matern52", "tolerance": (0.01, 0.02), "temper_cov": 0.75},
    "ten": {**_MANY, "kernel": "se", "tolerance": (0.04, 0.04), "temper_cov": 0.7},
    "battery": {**_MANY, "kernel": "se", "tolerance": (0.04, 0.04), "temper_cov": 0.7},
    "dof3": {
        **_POOL,
        "kernel": "se",
        "tolerance": (0.02, 0.02),
        "temper_cov": 1.0,
        "n_initial": 12,
        "population": 10_000,
    }
    | {"max_evaluations": 200},
    "dof2": {**_POOL, "kernel": "se", "tolerance": (0.02, 0.02), "temper_cov": 1.0, "n_initial": 12, "population": 5000}
    | {"max_evaluations": 200},
}
# The paper's estimators: no inflation, plain populations; the exact stopping condition for all four functions and no
# weighting of the search, which measure closest to its call counts (docs/benchmarks/choices.md). The mean likelihood is
# the unbiased one of Section 3 for BQ and the biased one of Section 4 for TBQ.
AS_PRINTED = Tuning(
    ceiling=False,
    inflate=False,
    adjust_mean=False,
    assess_before_end=False,
    check_runs=False,
    prior_fraction=0.0,
    design="lhs",
    explore_every=0,
    bound_factor=np.inf,
)


def printed_settings(problem: str, algorithm: str) -> dict[str, Any]:
    """The paper's settings and estimators for one problem."""
    tuning = replace(AS_PRINTED, mean_cap=np.inf if algorithm == "bq" else 0.0)
    return {**PAPER_SETTINGS[problem], "tuning": tuning}


_REFERENCE_POPULATION = 20_000  # of TMCMC


@dataclass(frozen=True)
class Case:
    """One row of one of the paper's tables, at the paper's settings or at our default."""

    table: str
    problem: str
    method: str
    setting: str

    @property
    def algorithm(self) -> str:
        return self.method.split("-")[0].lower()

    @property
    def acquisition(self) -> str:
        name = self.method.split("-")[-1].lower()
        return "interval" if name == "original" else name


@dataclass(frozen=True)
class Run:
    """What one run gave."""

    table: str
    problem: str
    method: str
    setting: str
    seed: int
    calls: int
    evidence: float
    relative_error: float
    log_evidence_sd: float
    converged: bool
    stages: int
    largest_mode_error: float  # of the modes' masses; nan where they are not known
    seconds: float
    seconds_per_acquisition: float


@dataclass(frozen=True)
class PaperRow:
    """A row as printed; empty cells are nan."""

    table: str
    problem: str
    method: str
    n_call: float
    evidence_mean: float
    relative_error: float
    cov: float
    time_total_s: float
    time_acq_s: float
    stages: float


def paper_rows() -> list[PaperRow]:
    """The paper's tables as data."""
    text = resources.files("tbq.bench").joinpath("paper_tables.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    names = [f.name for f in fields(PaperRow)]
    numbers = [[float(r[n] or "nan") for n in names[3:]] for r in rows]
    return [PaperRow(r["table"], r["problem"], r["method"], *n) for r, n in zip(rows, numbers, strict=True)]


def cases(
    table: str | None = None,
    problem: str | None = None,
    acquisition: str | None = None,
    settings: Iterable[str] = SETTINGS,
) -> list[Case]:
    """The rows that we can run, filtered."""
    known = {r.table for r in paper_rows()}
    if table is not None and table not in known:
        raise ArgumentError(f"table must be one of {', '.join(sorted(known))}; got {table!r}")
    chosen = []
    for row in paper_rows():
        for setting in settings:
            case = Case(row.table, row.problem, row.method, setting)
            runs = case.acquisition in (*ENSEMBLE, "interval") or (row.method == "TMCMC" and setting == "default")
            wanted = table in (None, row.table) and problem in (None, row.problem)
            if runs and wanted and acquisition in (None, case.acquisition) and row.problem in problems.names():
                chosen.append(case)
    return chosen


def run(case: Case, seed: int) -> Run:
    """One run of one case."""
    problem = problems.get(case.problem)
    if case.method == "TMCMC":
        return _run_tmcmc(case, problem, seed)
    options = printed_settings(case.problem, case.algorithm) if case.setting == "paper" else {}
    settings = resolve(problem.prior.dim, algorithm=case.algorithm, acquisition=case.acquisition, **options)  # type: ignore[arg-type]
    start = time.perf_counter()
    state, asking = drive(problem, settings, seed)
    result = engine.conclude(state)
    seconds = time.perf_counter() - start
    printed = case.setting == "paper" and state.learned is not None and state.learned.gamma == 1.0
    log_evidence = _printed_estimate(state) if printed else result.log_evidence
    masses = [float(np.mean(m.contains(result.samples))) - m.mass for m in problem.reference.modes]
    return Run(
        **asdict(case),
        seed=seed,
        calls=result.n_evaluations,
        evidence=float(np.exp(log_evidence)),
        relative_error=float(np.expm1(min(log_evidence - problem.reference.log_evidence, 50.0))),
        log_evidence_sd=result.log_evidence_sd,
        converged=result.converged,
        stages=len(result.stages),
        largest_mode_error=float(np.max(np.abs(masses))) if masses else np.nan,
        seconds=seconds,
        seconds_per_acquisition=asking / max(result.n_evaluations - settings.n_initial, 1),
    )


def drive(problem: Problem, settings: Settings, seed: int) -> tuple[engine.State, float]:
    """Run the engine to its end; returns also the seconds spent choosing points."""
    state, asking = engine.init(problem.prior, settings, seed), 0.0
    while state.stop is None:
        first = state.next_id < settings.n_initial
        start = time.perf_counter()
        state, proposals = engine.ask(state, settings.n_initial if first else 1)
        asking += 0.0 if first else time.perf_counter() - start
        state = engine.tell(state, evaluate(problem.log_likelihood, proposals))
    return state, asking


def _printed_estimate(state: engine.State) -> float:
    """The paper's estimate: the mean over the prior's population for BQ, the product of bridged ratios for TBQ."""
    assert state.learned is not None
    if not state.past:
        return state.learned.log_evidence
    return advance(state).population.log_constant


def _run_tmcmc(case: Case, problem: Problem, seed: int) -> Run:
    start = time.perf_counter()
    result = tmcmc(problem.log_likelihood, problem.prior, population=_REFERENCE_POPULATION, vectorized=True, seed=seed)
    masses = [float(np.mean(m.contains(result.samples))) - m.mass for m in problem.reference.modes]
    return Run(
        **asdict(case),
        seed=seed,
        calls=result.n_evaluations,
        evidence=result.evidence,
        relative_error=float(np.expm1(result.log_evidence - problem.reference.log_evidence)),
        log_evidence_sd=result.log_evidence_sd,
        converged=True,
        stages=len(result.stages),
        largest_mode_error=float(np.max(np.abs(masses))) if masses else np.nan,
        seconds=time.perf_counter() - start,
        seconds_per_acquisition=np.nan,
    )


# --- the study ----------------------------------------------------------------------------------------------


def study(
    wanted: list[Case], seeds: range, jobs: int, folder: Path, on_progress: Callable[[int], None] = lambda done: None
) -> list[Run]:
    """Run what is missing, write each run as it ends, make the tables, and return all runs asked for."""
    path = folder / "paper_runs.csv"
    done = {key(r): r for r in read_runs(path)}
    keys = [(case, seed, (*asdict(case).values(), seed)) for case in wanted for seed in seeds]
    missing = [(case, seed) for case, seed, k in keys if k not in done]
    before = len(keys) - len(missing)
    on_progress(before)
    new = studies.run_missing(run, missing, jobs, path, lambda n: on_progress(before + n))
    done |= {key(r): r for r in new}
    (folder / "paper.md").write_text(report(list(done.values())))
    return [done[k] for _, _, k in keys]


def key(r: Run) -> tuple[Any, ...]:
    return (r.table, r.problem, r.method, r.setting, r.seed)


def read_runs(path: Path) -> list[Run]:
    """All runs in a file; none if there is no file."""
    return studies.read_rows(Run, path)


# --- the tables ---------------------------------------------------------------------------------------------


def report(runs: list[Run]) -> str:
    """Markdown: for each of the paper's tables, its figures beside ours."""
    import scipy

    from tbq.common.version import __version__ as version

    lines = [
        "# The paper's experiments",
        "",
        f"Made by `tbq bench paper` with tbq {version}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, SciPy {scipy.__version__}; one core per run. Seeds count from "
        f"{min(r.seed for r in runs)}; every run with its seed is in `paper_runs.csv`.",
        "",
        "- *paper*: as printed in its tables.",
        "- *as printed*: ours, at the paper's settings and with its estimators.",
        "- *default*: `tbq.infer` with nothing set but the acquisition function (and, for BQ, the algorithm).",
        "",
        "Errors are absolute, relative to the exact evidence; coefficients of variation are over",
        "runs, *s/point* is the time to choose one point. A mode is lost where its mass is off by more than 0.2.",
    ]
    for table in dict.fromkeys(r.table for r in paper_rows()):
        lines += _table(table, [r for r in runs if r.table == table])
    return "\n".join(lines) + "\n"


COLUMNS = (
    *("problem", "method", "whose", "calls", "evidence", "mean error", "largest", "CoV", "stages"),
    *("s/run", "s/point", "converged", "modes lost"),
)


def _table(table: str, runs: list[Run]) -> list[str]:
    rows = table_rows(table, runs)
    if not rows:
        return []
    exact = {r.problem: problems.get(r.problem).reference.evidence for r in sorted(runs, key=lambda r: r.problem)}
    lines = ["", f"## {table}", "", f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return [*lines, "", "Exact: " + ", ".join(f"{k} {v:.5g}" for k, v in exact.items()) + "."]


def table_rows(table: str, runs: list[Run]) -> list[list[str]]:
    """One of the paper's tables: each printed row that was run, followed by ours."""
    rows = []
    for row in paper_rows():
        mine = [r for r in runs if (r.table, r.problem, r.method) == (table, row.problem, row.method)]
        if row.table != table or not mine:
            continue
        exact = problems.get(row.problem).reference.evidence
        error = row.relative_error if np.isfinite(row.relative_error) else abs(row.evidence_mean / exact - 1.0)
        printed = [_n(row.n_call, ".5g"), _n(row.evidence_mean, ".4g"), _percent(error), "", _n(row.cov, ".3f")]
        printed += [_n(row.stages, ".1f"), _n(row.time_total_s, ".1f"), _n(row.time_acq_s, ".3f"), "", ""]
        rows.append([row.problem, row.method, "paper", *printed])
        for setting, label in zip(SETTINGS, ("as printed", "default"), strict=True):
            ours = [r for r in mine if r.setting == setting]
            if ours:
                rows.append(["", "", f"{label}, {len(ours)} runs", *_cells(ours)])
    return rows


def _cells(ours: list[Run]) -> list[str]:
    def get(name: str) -> Array:
        return np.array([getattr(r, name) for r in ours], dtype=float)

    calls, values = get("calls"), get("evidence")
    lost = get("largest_mode_error")
    return [
        f"{calls.mean():.5g} ± {calls.std():.2g}",
        f"{values.mean():.4g}",
        _percent(np.abs(get("relative_error")).mean()),
        _percent(np.abs(get("relative_error")).max()),
        f"{values.std() / values.mean():.3f}",
        f"{get('stages').mean():.1f}",
        f"{get('seconds').mean():.1f}",
        _n(get("seconds_per_acquisition").mean(), ".3f"),
        f"{int(get('converged').sum())}",
        "" if np.isnan(lost).all() else f"{int(np.sum(lost > 0.2))}",
    ]


def _n(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else ""


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %" if np.isfinite(value) and value < 1e3 else _n(value, ".1e")
