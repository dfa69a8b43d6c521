"""What each part of the default earns, and what batches cost: docs/benchmarks/ablation.md.

Run: python benchmarks/ablation.py [seeds] [jobs]; an interrupted study goes on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tbq
from tbq import problems
from tbq.bench import paper, studies
from tbq.engine import conclude
from tbq.problem.settings import resolve
from tbq.problem.tuning import Tuning
from tbq.result.result import Result

FIRST_SEED = 100  # seeds below are those of the calibration
FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"
PARTS: dict[str, dict[str, Any]] = {  # options, or numbers of the tuning
    "default": {},
    "one kernel: squared exponential, constant mean": {"kernel": "se"},
    "one kernel: Matérn-5/2, constant mean": {"kernel": "matern52"},
    "exp(μ) for the mean of L": {"mean_cap": 0.0},
    "exp(μ + σ²/2) for it, not capped": {"mean_cap": np.inf},
    "no inflation of standard deviations": {"inflate": False},
    "the same σ in the mean of L, however well runs were predicted": {"adjust_mean": False},
    "no exploration points": {"explore_every": 0},
    "populations without prior points": {"prior_fraction": 0.0},
    "no check runs": {"check_runs": False},
    "no assessment by fresh quadrature and rival models before the end": {"assess_before_end": False},
    "full assessments before checks too": {"coarse_before_check": False},
}
BATCHES: dict[str, dict[str, Any]] = {
    "one at a time": {},
    "batches of 4": {"batch_size": 4},
    "batches of 8": {"batch_size": 8},
    "ensemble: one point from each of the four": {"acquisition": "ensemble", "batch_size": 4},
}
OF_PARTS = ("u3", "u4", "funnel3", "mixture4", "ten")
SPARED = ("one kernel", "exp(μ", "no inflation")  # what these do shows without the hours of ten
SAME_IN_THE_PLANE = ("no check runs", "full assessments")
OF_BATCHES = ("u1", "u3", "mixture4")


@dataclass(frozen=True)
class Row:
    """What one run gave."""

    variant: str
    problem: str
    seed: int
    calls: int
    log_error: float
    log_evidence_sd: float
    converged: bool
    cpu_seconds: float


def run_part(variant: str, name: str, seed: int) -> Row:
    """A run without one part of the default."""
    problem, start = problems.get(name), time.process_time()
    part = PARTS[variant]
    tuning = Tuning(**{k: v for k, v in part.items() if k != "kernel"})
    settings = resolve(problem.prior.dim, tuning=tuning, kernel=part.get("kernel", "auto"))
    result = Result.of(conclude(paper.drive(problem, settings, seed)[0]))
    return _row(variant, name, seed, result, start)


def run_batch(variant: str, name: str, seed: int) -> Row:
    problem, start = problems.get(name), time.process_time()
    result = tbq.infer(problem.log_likelihood, problem.prior, seed=seed, progress=False, **BATCHES[variant])
    return _row(variant, name, seed, result, start)


def _row(variant: str, name: str, seed: int, result: tbq.Result, start: float) -> Row:
    error = result.log_evidence - problems.get(name).reference.log_evidence
    seconds = time.process_time() - start
    return Row(
        variant, name, seed, result.n_evaluations, error, result.log_evidence_sd, bool(result.converged), seconds
    )


def worth_it(variant: str, name: str) -> bool:
    """Not where a variant is the default, and not where smaller problems tell enough."""
    if variant.startswith(SPARED):
        return name != "ten"
    return problems.get(name).prior.dim > 2 or not variant.startswith(SAME_IN_THE_PLANE)


def cells(rows: Sequence[Row]) -> list[str]:
    """Calls, mean error, runs off by more than 10 %, rms z."""
    if not rows:
        return [""] * 4
    error = np.array([r.log_error for r in rows])
    z = error / np.array([r.log_evidence_sd for r in rows])
    relative = np.abs(np.expm1(np.clip(error, -50.0, 50.0)))
    return [
        f"{np.mean([r.calls for r in rows]):.0f}",
        f"{100 * relative.mean():.1f} %" if relative.mean() < 10.0 else "> 1000 %",
        f"{int(np.sum(relative > 0.1))}",
        f"{np.sqrt(np.mean(z**2)):.1f}",
    ]


def table(rows: Sequence[Row], variants: Sequence[str], names: Sequence[str]) -> list[str]:
    head = " | ".join(f"{n}: calls | error | > 10 % | rms z" for n in names)
    lines = [f"| variant | seeds | {head} |", "|" + "---|" * (2 + 4 * len(names))]
    for variant in variants:
        each = [[r for r in rows if r.variant == variant and r.problem == n] for n in names]
        if any(each):
            least, most = min(len(some) for some in each if some), max(map(len, each))
            seeds = f"{least}" if least == most else f"{least}–{most}"
            lines.append(f"| {variant} | {seeds} | " + " | ".join(c for some in each for c in cells(some)) + " |")
    return lines


TEXT = """# What each part of the default earns

Made by `python benchmarks/ablation.py {seeds}`: at least {seeds} seeds each, from {first} on; more where an effect is
small. Each line leaves out or replaces one part, by a number of `Tuning`; cells are empty where that changes nothing.
Calls and relative errors of the evidence are means; *rms z* is of the log-evidence's error over its stated standard
deviation: above 1 the error bar is too short. `ten` is left out where smaller problems tell enough. Lines other than
the first and *no inflation* were made while populations of two parameters were optimistic and exploring runs had four
kinds, which made no difference over 38 to 40 seeds. Every run is in `ablation_parts.csv` and `ablation_batches.csv`.
"""


def main(seeds: int, jobs: int) -> None:
    found = {}
    for key, work, variants, names in (
        ("parts", run_part, PARTS, OF_PARTS),
        ("batches", run_batch, BATCHES, OF_BATCHES),
    ):
        path = FOLDER / f"ablation_{key}.csv"
        old = studies.read_rows(Row, path)
        done = {(r.variant, r.problem, r.seed) for r in old}
        tasks = [(v, n, s) for v in variants for n in names for s in range(FIRST_SEED, FIRST_SEED + seeds)]
        tasks = [t for t in tasks if worth_it(t[0], t[1])]
        new = studies.run_missing(work, [t for t in tasks if t not in done], jobs, path)
        found[key] = table([*old, *new], list(variants), names)
    text = TEXT.format(seeds=seeds, first=FIRST_SEED)
    lines = [text, *found["parts"], "", "## Batches", "", *found["batches"], ""]
    (FOLDER / "ablation.md").write_text("\n".join(lines))
    print((FOLDER / "ablation.md").read_text())


if __name__ == "__main__":
    main(*(int(a) for a in [*sys.argv[1:], "8", "2"][:2]))
