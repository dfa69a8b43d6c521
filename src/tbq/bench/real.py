"""`tbq bench real`: the default on real posteriors under wide priors, and what it says when it is stopped too early."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from tbq import problems
from tbq.bench import studies
from tbq.common.types import Array
from tbq.result.result import Result
from tbq.run.driver import drive
from tbq.run.sender import Plan
from tbq.run.session import Session
from tbq.run.standing import Standing

BUDGETS = (20, 40, 80, 160)  # runs after which a run is asked what it would say if it were stopped
NORMAL_90 = float(stats.norm.ppf(0.95))
COLUMNS = (
    *("problem", "d", "runs", "calls", "converged", "median error", "largest", "median sd", "rms z", "90 % covers"),
    *("> 3 sd", "own s"),
)
BUDGET_COLUMNS = ("problem", *(str(b) for b in BUDGETS), "end")


@dataclass(frozen=True)
class Run:
    """What one run of the default said after at most ``budget`` runs of the simulator."""

    problem: str
    seed: int
    budget: int
    calls: int  # fewer than the budget where the run had ended by itself
    converged: bool
    log_error: float  # of the log-evidence; nan where nothing was learned
    log_evidence_sd: float
    seconds: float  # our own time so far
    stop: str

    @property
    def z(self) -> float:
        return self.log_error / self.log_evidence_sd

    @property
    def covered(self) -> bool:
        return not abs(self.z) > NORMAL_90  # to state nothing is not to be wrong

    @property
    def confidently_wrong(self) -> bool:
        return self.converged and abs(self.z) > 3.0


def most_runs(d: int) -> int:
    """Runs of the simulator that a problem of ``d`` parameters may take."""
    return 40 * (d + 2)


def run(name: str, seed: int) -> list[Run]:
    """One run with nothing set but its seed and the most runs, as it was after each budget and at its end."""
    problem = problems.get(name)
    last = most_runs(problem.prior.dim)
    left = [b for b in BUDGETS if b < last]
    rows: list[Run] = []

    def row(budget: int, result: Result) -> Run:
        error = result.log_evidence - problem.reference.log_evidence
        return Run(
            problem=name,
            seed=seed,
            budget=budget,
            calls=result.n_evaluations,
            converged=result.converged,
            log_error=error,
            log_evidence_sd=result.log_evidence_sd,
            seconds=result.seconds,
            stop=result.stop.name,
        )

    def look(_: Standing) -> None:
        state = session.state
        if left and len(state.evaluations) >= left[0] and state.stop is None:
            rows.append(row(left.pop(0), session.result()))

    with Session(problem.prior, seed=seed, max_evaluations=last) as session:
        drive(session, problem.log_likelihood, Plan(), look)
        result = session.result()
    return [*rows, *(row(budget, result) for budget in (*left, last))]


def study(
    names: Sequence[str],
    seeds: Sequence[int],
    jobs: int,
    folder: Path,
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Run]:
    """Run what is missing, make the tables, and return all that was asked for."""
    path = folder / "real_runs.csv"
    done = {_key(r): r for r in studies.read_rows(Run, path)}
    keys = [(name, seed) for name in names for seed in seeds]
    missing = [key for key in keys if (*key, most_runs(problems.get(key[0]).prior.dim)) not in done]
    before = len(keys) - len(missing)
    on_progress(before)
    new: list[Run] = studies.run_missing(run, missing, jobs, path, lambda n: on_progress(before + n))
    done |= {_key(r): r for r in new}
    (folder / "real.md").write_text(report(list(done.values())))
    return [r for r in done.values() if (r.problem, r.seed) in keys]


def _key(r: Run) -> tuple[str, int, int]:
    return r.problem, r.seed, r.budget


def table_rows(runs: Sequence[Run]) -> list[list[str]]:
    """One row per problem, and one for all, of the runs' ends."""
    ends = _ends(runs)
    rows = [[n, str(problems.get(n).prior.dim), *_cells([r for r in ends if r.problem == n])] for n in _names(runs)]
    return [*rows, ["all", "", *_cells(ends)]]


def budget_rows(runs: Sequence[Run]) -> list[list[str]]:
    """Which share of the 90 % intervals covers after each budget: one row per problem, and one for all."""
    groups = {n: [r for r in runs if r.problem == n] for n in _names(runs)} | {"all": list(runs)}
    return [
        [name, *(_share([r for r in group if r.budget == b]) for b in BUDGETS), _share(_ends(group))]
        for name, group in groups.items()
    ]


def _names(runs: Sequence[Run]) -> list[str]:
    return sorted({r.problem for r in runs}, key=lambda n: (problems.get(n).prior.dim, n))


def _ends(runs: Sequence[Run]) -> list[Run]:
    return [r for r in runs if r.budget == most_runs(problems.get(r.problem).prior.dim)]


def _share(runs: Sequence[Run]) -> str:
    return f"{np.mean([r.covered for r in runs]):.2f}" if runs else ""


def _cells(runs: Sequence[Run]) -> list[str]:
    def get(name: str) -> Array:
        return np.array([getattr(r, name) for r in runs], dtype=float)

    calls, error = get("calls"), np.abs(get("log_error"))
    return [
        str(len(runs)),
        f"{calls.mean():.0f} ± {calls.std():.0f}",
        f"{get('converged').mean():.2f}",
        *(f"{v:.3g}" for v in (np.median(error), error.max(), np.median(get("log_evidence_sd")))),
        f"{np.sqrt(np.mean(get('z') ** 2)):.2f}",
        _share(runs),
        f"{int(get('confidently_wrong').sum())}",
        f"{get('seconds').mean():.0f}",
    ]


def report(runs: Sequence[Run]) -> str:
    """The tables, with what their columns mean."""
    import scipy

    from tbq.common.version import __version__ as version

    lines = [
        "# Real posteriors under wide priors",
        "",
        f"Made by `tbq bench real` with tbq {version}, Python {platform.python_version()}, NumPy "
        f"{np.__version__}, SciPy {scipy.__version__}: defaults, and 40 (d + 2) runs of the simulator at most.",
        "Every run is in `real_runs.csv`. References are sampled, by `benchmarks/real_references.py`, to 0.02 and",
        "better.",
        "",
        "Errors are of the log-evidence, in nats, and *sd* is the stated one. *rms z* and *90 % covers* are of errors",
        "in units of the stated ones. *> 3 sd* counts runs that claim convergence and are off by more than three of",
        "them. *own s* is our own time.",
        "",
        *_markdown(COLUMNS, table_rows(runs)),
        "",
        "## Stopped early",
        "",
        "The share of 90 % intervals that cover when a run is stopped after so many runs of the simulator, or had",
        "ended by then.",
        "",
        *_markdown(BUDGET_COLUMNS, budget_rows(runs)),
    ]
    return "\n".join(lines) + "\n"


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns), *(f"| {' | '.join(row)} |" for row in rows)]
