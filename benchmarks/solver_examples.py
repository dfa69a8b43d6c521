"""The examples with real solvers over three seeds, against their references: writes benchmarks/solver_examples.csv.

`python benchmarks/solver_examples.py [NAME ...]` runs the examples named, all by default; others keep their rows.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tbq.cli import casefile
from tbq.problems import get
from tbq.result.result import Result
from tbq.run.infer import infer

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_suffix(".csv")
SAMPLED, SEEDS = ("calculix", "opensees"), (0, 1, 2)
EXAMPLES = (*SAMPLED, "battery")  # whose reference is a quadrature, see benchmarks/battery_mesh.py


def reference(name: str) -> dict[str, Any]:
    """What the true model gives without a surrogate: by importance sampling, or by quadrature."""
    file = f"{name}/reference.json" if name in SAMPLED else f"{name}.json"
    found: dict[str, Any] = json.loads((ROOT / "examples" / file).read_text())
    return found


def run(name: str, seed: int) -> Result:
    """An example as `tbq run` runs it, with another seed."""
    if name not in SAMPLED:
        problem = get(name)
        return infer(problem.log_likelihood, problem.prior, seed=seed, progress=False)
    case = casefile.load(ROOT / "examples" / name / "case.toml")
    arguments = {**case.arguments(), "seed": seed, "progress": False}
    return infer(case.log_likelihood(case.simulator()), case.prior(), **arguments)


def row(name: str, seed: int, result: Result) -> dict[str, Any]:
    """A run beside its reference; means are compared in standard deviations of the posterior."""
    known = reference(name)
    index = [result.prior.names.index(p) for p in known["mean"]]
    at, sd = (np.array(list(known[key].values())) for key in ("mean", "sd"))
    draws = result.samples[:, index]
    return {
        "example": name,
        "seed": seed,
        "runs": result.n_evaluations,
        "converged": result.converged,
        "log_evidence": round(result.log_evidence, 4),
        "log_evidence_sd": round(result.log_evidence_sd, 4),
        "off": round(result.log_evidence - known["log_evidence"], 4),
        "mean_off": round(float(np.max(np.abs(draws.mean(axis=0) - at) / sd)), 3),
        "sd_ratio": round(float(np.max(np.abs(draws.std(axis=0) / sd - 1))), 3),
    }


def main(names: list[str]) -> None:
    rows: list[dict[str, Any]] = list(csv.DictReader(TABLE.read_text().splitlines())) if TABLE.exists() else []
    rows = [r for r in rows if r["example"] not in names]
    for name in names:
        for seed in SEEDS:
            rows.append(row(name, seed, run(name, seed)))
            print(rows[-1], flush=True)
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda r: (r["example"], int(r["seed"]))))


if __name__ == "__main__":
    main(sys.argv[1:] or list(EXAMPLES))
