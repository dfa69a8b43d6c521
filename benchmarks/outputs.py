"""Learn the simulator's outputs or its log-likelihood: docs/benchmarks/outputs.md, and the paper's rows beside.

Run: python benchmarks/outputs.py [seeds] [seeds of the log-likelihood]. An interrupted study goes on.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tbq
from tbq.bench.paper import paper_rows
from tbq.bench.studies import read_rows, run_missing

PROBLEMS = ("dof2", "dof3", "decay", "battery")
MOST = {"battery": 10}  # runs of a simulator that takes its time
FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"
WITHIN_90 = 1.645


@dataclass(frozen=True)
class Run:
    """What one run gave."""

    problem: str
    surrogate: str
    seed: int
    calls: int
    relative_error: float
    z: float  # error of the log-evidence over its stated standard deviation
    largest_mode_error: float  # of the modes' masses; nan where there is one
    converged: bool
    doubted: bool
    seconds: float  # of the whole run; only the battery's simulator takes time


def run(name: str, surrogate: str, seed: int) -> Run:
    """One run with default settings."""
    import time

    problem, start = tbq.problems.get(name), time.perf_counter()
    result = tbq.infer(problem.log_likelihood, problem.prior, surrogate=surrogate, seed=seed, progress=False)  # type: ignore[arg-type]
    seconds = time.perf_counter() - start
    error = result.log_evidence - problem.reference.log_evidence
    masses = [float(np.mean(m.contains(result.samples))) - m.mass for m in problem.reference.modes]
    return Run(
        name,
        surrogate,
        seed,
        result.n_evaluations,
        float(np.expm1(error)),
        error / result.log_evidence_sd,
        float(np.max(np.abs(masses))) if masses else np.nan,
        result.converged,
        bool(result.notes),
        seconds,
    )


HEADER = (
    "| problem | learned | runs | calls (most) | error, mean (largest) | rms error / stated | within 90 % interval "
    "| modes' masses within | converged | confidently wrong | seconds |"
)


def row(runs: list[Run]) -> str:
    """A line of the table."""
    calls, errors = np.array([r.calls for r in runs]), np.abs([r.relative_error for r in runs])
    z = np.abs([r.z for r in runs])
    modes = max(r.largest_mode_error for r in runs)
    wrong = sum(r.converged and abs(r.z) > 3.0 for r in runs)
    cells = [
        runs[0].problem,
        {"auto": "outputs", "log_likelihood": "log-likelihood"}[runs[0].surrogate],
        f"{len(runs)}",
        f"{calls.mean():.1f} ({calls.max()})",
        f"{100 * errors.mean():.2f} % ({100 * errors.max():.1f} %)",
        f"{np.sqrt(np.mean(z**2)):.2f}",
        f"{100 * np.mean(z < WITHIN_90):.0f} %",
        "" if np.isnan(modes) else f"{modes:.3f}",
        f"{sum(r.converged for r in runs)}",
        f"{wrong}",
        f"{np.median([r.seconds for r in runs]):.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def paper_table() -> list[str]:
    """The paper's rows of the same problems, with errors against the exact evidence of ours."""
    lines = ["| problem | method | calls | evidence | off the exact one | stated |", "|---|---|---|---|---|---|"]
    for r in paper_rows():
        if r.problem in PROBLEMS and r.method.startswith("TBQ"):
            off = r.evidence_mean / tbq.problems.get(r.problem).reference.evidence - 1.0
            cells = [r.problem, r.method, f"{r.n_call:.1f}", f"{r.evidence_mean:.4e}", f"{100 * off:+.1f} %"]
            lines.append("| " + " | ".join([*cells, f"{100 * r.cov:.1f} %"]) + " |")
    return lines


def main(seeds: int, log_likelihood_seeds: int) -> None:
    path = FOLDER / "outputs_runs.csv"
    done = {(r.problem, r.surrogate, r.seed) for r in read_rows(Run, path)}
    tasks = [
        (p, s, i)
        for s, n in (("auto", seeds), ("log_likelihood", log_likelihood_seeds))
        for p in PROBLEMS
        for i in range(min(n, MOST.get(p, n)))
    ]
    run_missing(run, [t for t in tasks if t not in done], 1, path, lambda n: print(n, "runs", flush=True))
    runs = sorted((r for r in read_rows(Run, path)), key=lambda r: (PROBLEMS.index(r.problem), r.surrogate, r.seed))
    groups = [
        [r for r in runs if (r.problem, r.surrogate) == key]
        for key in dict.fromkeys((r.problem, r.surrogate) for r in runs)
    ]
    (FOLDER / "outputs.md").write_text(
        "\n".join(
            [TEXT, HEADER, "|" + "---|" * (HEADER.count("|") - 1), *map(row, groups), "", PAPER, *paper_table(), ""]
        )
    )


TEXT = """# Learning outputs or log-likelihoods

Made by `python benchmarks/outputs.py`: default settings, one call of `tbq.infer` per seed. With a `GaussianLikelihood`
the outputs are learned (`surrogate="auto"`); `surrogate="log_likelihood"` learns the log-likelihood of the same
simulator. Errors are relative, against the exact evidence; "stated" is `log_evidence_sd`; a run is confidently wrong if
it converged more than three stated standard deviations off. Every run: `outputs_runs.csv`.
"""

PAPER = """The paper's rows of the same problems, which learn the log-likelihood. The parameters of its `dof2` are not
printed: its evidences are compared with that of the classic frame used here, and are closer to its own reference
1.4190e-3.
"""

if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:]] or [20, 5]
    main(numbers[0], numbers[-1])
