"""`tbq bench calibration`: does the default do what it says, over many seeds and many problems?"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from tbq import problems
from tbq.bench import studies
from tbq.common.types import Array
from tbq.problems import Problem
from tbq.result.result import Result
from tbq.run.infer import infer

_FAR = 0.1  # relative error from which on a run is called wrong
NORMAL_90 = float(stats.norm.ppf(0.95))
COLUMNS = (
    *("problem", "d", "runs", "calls", "mean error", "median", "largest", "bias", "> 10 %", "rms z", "90 % covers"),
    *("TV", "modes", "converged", "> 3 sd", "CPU s"),
)


@dataclass(frozen=True)
class Run:
    """What one run of the default gave."""

    problem: str
    seed: int
    calls: int
    log_error: float  # of the log-evidence
    log_evidence_sd: float
    converged: bool
    stop: str
    distance: float  # total variation distance to the exact posterior
    largest_mode_error: float  # of the modes' masses; nan where there are none
    cpu_seconds: float

    @property
    def relative_error(self) -> float:
        return float(np.expm1(np.clip(self.log_error, -50.0, 50.0)))

    @property
    def z(self) -> float:
        return self.log_error / self.log_evidence_sd

    @property
    def far(self) -> bool:
        return abs(self.relative_error) > _FAR

    @property
    def confidently_wrong(self) -> bool:
        return self.converged and abs(self.z) > 3.0


def run(name: str, seed: int) -> Run:
    """One run with nothing set but its seed."""
    problem = problems.get(name)
    start = time.process_time()
    result = infer(problem.log_likelihood, problem.prior, seed=seed, progress=False)
    seconds = time.process_time() - start
    masses = [float(np.mean(m.contains(result.samples))) - m.mass for m in problem.reference.modes]
    return Run(
        problem=name,
        seed=seed,
        calls=result.n_evaluations,
        log_error=result.log_evidence - problem.reference.log_evidence,
        log_evidence_sd=result.log_evidence_sd,
        converged=result.converged,
        stop=result.stop.name,
        distance=total_variation(result, problem),
        largest_mode_error=float(np.max(np.abs(masses))) if masses else np.nan,
        cpu_seconds=seconds,
    )


def total_variation(result: Result, problem: Problem) -> float:
    """½∫|p̂ − p| = E_p̂[(1 − p/p̂)₊], over the result's own draws: exact p and p̂ are both known at each."""
    theta = result.samples
    exact = problem.log_likelihood(theta) + problem.prior.log_density(theta) - problem.reference.log_evidence
    return float(np.mean(np.maximum(-np.expm1(exact - result.log_density(theta)), 0.0)))


def repeats(name: str) -> int:
    """Seeds that a problem is run with: 20 in the plane, 10 above."""
    return 20 if problems.get(name).prior.dim <= 2 else 10


def study(
    names: Sequence[str],
    seeds: Callable[[str], range],
    jobs: int,
    folder: Path,
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Run]:
    """Run what is missing, make the table, and return all runs asked for."""
    path = folder / "calibration_runs.csv"
    done = {(r.problem, r.seed): r for r in studies.read_rows(Run, path)}
    keys = [(name, seed) for name in names for seed in seeds(name)]
    missing = [key for key in keys if key not in done]
    before = len(keys) - len(missing)
    on_progress(before)
    new = studies.run_missing(run, missing, jobs, path, lambda n: on_progress(before + n))
    done |= {(r.problem, r.seed): r for r in new}
    (folder / "calibration.md").write_text(report(list(done.values())))
    return [done[key] for key in keys]


def table_rows(runs: Sequence[Run]) -> list[list[str]]:
    """One row per problem, and one for all."""
    names = [n for n in problems.names() if any(r.problem == n for r in runs)]
    names.sort(key=lambda n: problems.get(n).prior.dim)
    rows = [[n, str(problems.get(n).prior.dim), *_cells([r for r in runs if r.problem == n])] for n in names]
    return [*rows, ["all", "", *_cells(runs)]]


def _cells(runs: Sequence[Run]) -> list[str]:
    def get(name: str) -> Array:
        return np.array([getattr(r, name) for r in runs], dtype=float)

    calls, error, z = get("calls"), get("relative_error"), get("z")
    modes = get("largest_mode_error")
    return [
        str(len(runs)),
        f"{calls.mean():.0f} ± {calls.std():.0f}",
        *(f"{100 * v:.1f} %" for v in (np.abs(error).mean(), np.median(np.abs(error)), np.abs(error).max())),
        f"{100 * error.mean():+.1f} %",
        f"{int(get('far').sum())}",
        f"{np.sqrt(np.mean(z**2)):.2f}",
        f"{np.mean(np.abs(z) < NORMAL_90):.2f}",
        f"{get('distance').mean():.3f}",
        "" if np.isnan(modes).all() else f"{np.nanmax(modes):.2f}",
        f"{int(get('converged').sum())}",
        f"{int(get('confidently_wrong').sum())}",
        f"{get('cpu_seconds').mean():.1f}",
    ]


def report(runs: Sequence[Run]) -> str:
    """The table, with what its columns mean."""
    import scipy

    from tbq.common.version import __version__ as version

    lines = [
        "# Calibration of the default",
        "",
        f"Made by `tbq bench calibration` with tbq {version}, Python {platform.python_version()}, NumPy "
        f"{np.__version__}, SciPy {scipy.__version__}: `tbq.infer(log_likelihood, prior, seed=s)`, nothing else set.",
        "Every run is in `calibration_runs.csv`.",
        "",
        "Errors are of the evidence, relative to the exact one. *rms z* and *90 % covers* are of the error of",
        "`log_evidence` in units of `log_evidence_sd`. *TV* is the mean total variation distance between the posterior",
        "and the exact one, *modes* the largest error of a mode's mass in any run. *> 3 sd* counts runs that claim",
        "convergence and are off by more than three stated standard deviations. *CPU s* is our own time.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|" + "---|" * len(COLUMNS),
        *(f"| {' | '.join(row)} |" for row in table_rows(runs)),
    ]
    claimed = [r for r in runs if r.converged]
    wrong = [r for r in runs if r.far]
    lines += [
        "",
        f"Of {len(claimed)} runs that claim convergence, {sum(r.confidently_wrong for r in claimed)} are off by more",
        f"than three stated standard deviations. Of {len(wrong)} runs off by more than 10 %,",
        f"{sum(r.converged for r in wrong)} claim convergence, {sum(r.confidently_wrong for r in wrong)} with a",
        "stated error that does not cover it.",
    ]
    return "\n".join(lines) + "\n"
