"""The four acquisition functions side by side, from the runs of `tbq bench paper`.

Run: python benchmarks/acquisitions.py, which writes docs/benchmarks/acquisitions.md.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent.parent / "docs/benchmarks"
PROBLEMS = ("u1", "u2", "u3", "u4", "dof2", "dof3", "battery", "ten")
NAMES = ("PUQ", "PVC", "PLUR", "PEUR")
SETTINGS = {"default": "`tbq.infer` with nothing else set", "paper": "the paper's settings and estimators"}


@dataclass(frozen=True)
class Row:
    """Means over seeds."""

    problem: str
    acquisition: str
    runs: int
    calls: float
    calls_se: float
    error: float
    largest: float
    seconds: float  # to choose a point
    converged: int


def rows(algorithm: str, setting: str) -> Iterator[Row]:
    """A row for each problem and acquisition function that was run."""
    with (FOLDER / "paper_runs.csv").open() as file:
        runs = [r for r in csv.DictReader(file) if r["setting"] == setting]
    for problem in PROBLEMS:
        for name in NAMES:
            mine = [r for r in runs if r["problem"] == problem and r["method"] == f"{algorithm}-{name}"]
            if mine:
                calls = np.array([float(r["calls"]) for r in mine])
                errors = np.abs([float(r["relative_error"]) for r in mine])
                yield Row(
                    problem,
                    name,
                    len(mine),
                    float(calls.mean()),
                    float(calls.std() / np.sqrt(max(len(mine) - 1, 1))),
                    float(errors.mean()),
                    float(errors.max()),
                    float(np.mean([float(r["seconds_per_acquisition"]) for r in mine])),
                    sum(r["converged"] == "True" for r in mine),
                )


def page() -> str:
    """All tables."""
    lines = [
        "# Acquisition functions compared",
        "",
        "Made by `python benchmarks/acquisitions.py` from `paper_runs.csv`: means over seeds, calls with their",
        "standard error, errors relative to the exact evidence, seconds to choose one point.",
    ]
    for setting, words in SETTINGS.items():
        for algorithm in ("TBQ", "BQ"):
            lines += ["", f"## {algorithm}, {words}", ""]
            lines += [
                "| problem | function | calls | mean error | largest | s/point | converged |",
                "|---|---|---|---|---|---|---|",
            ]
            lines += [
                f"| {r.problem} | {r.acquisition} | {r.calls:.1f} ± {r.calls_se:.1f} | {100 * r.error:.1f} % | "
                f"{100 * r.largest:.1f} % | {r.seconds:.3f} | {r.converged} of {r.runs} |"
                for r in rows(algorithm, setting)
            ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (FOLDER / "acquisitions.md").write_text(page())
