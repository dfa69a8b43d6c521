"""Does BQ stop early because the paper pairs its samples at random? Measured: docs/benchmarks/pairing.md.

The paper estimates the evidence's variance over one fixed random pairing of its 5,000 prior samples. The same runs are
stopped twice here: by that estimate, and by the sum over all pairs.

Run: python benchmarks/pairing.py [seeds] [acquisition] [problem …]
"""

import itertools
import sys
from pathlib import Path
from typing import cast

import numpy as np

from tbq import engine, problems
from tbq.bench import paper
from tbq.common.types import IntArray
from tbq.problem.options import AcquisitionName
from tbq.problem.settings import resolve
from tbq.simulate.pool import evaluate


def paired_cov(state: engine.State, partner: IntArray) -> float:
    """σ_Z/μ_Z over one pairing (the estimator below eq:PostVarEvidence)."""
    learned = state.learned
    assert learned is not None
    points = learned.surrogate.at(state.population.z)
    heavy = np.flatnonzero(learned.weights > 1e-12 * learned.weights.max())  # the others add nothing
    chosen, other = points.take(heavy), points.take(partner[heavy])
    log_ratio = np.array(
        [
            learned.surrogate.log_ratio(chosen.take(np.array([k])), other.take(np.array([k])), 1.0)[0, 0]
            for k in range(len(heavy))
        ]
    )
    n = len(learned.weights)
    terms = learned.weights[heavy] * learned.weights[partner[heavy]] * np.expm1(np.minimum(log_ratio, 600.0))
    return float(np.sqrt(max(n * terms.sum(), 0.0)))


def stopped(trace: list[tuple[int, float, float, float]], column: int, tolerance: float) -> tuple[int, float]:
    """Calls and error when the condition first held twice in a row."""
    for before, now in itertools.pairwise(trace):
        if before[column] <= tolerance and now[column] <= tolerance:
            return now[0], now[3]
    return trace[-1][0], trace[-1][3]


def measure(name: str, acquisition: str, seeds: range) -> str:
    problem = problems.get(name)
    options = paper.printed_settings(name, "bq")
    tolerance = options["tolerance"][1]
    results: list[list[tuple[int, float]]] = [[], []]
    for seed in seeds:
        partner = np.random.default_rng(seed).permutation(options["population"])
        settings = resolve(2, algorithm="bq", acquisition=cast(AcquisitionName, acquisition), **options)
        state = engine.init(problem.prior, settings, seed)
        trace: list[tuple[int, float, float, float]] = []
        while state.stop is None:
            state, proposals = engine.ask(state, 12 if not state.evaluations else 1)
            state = engine.tell(state, evaluate(problem.log_likelihood, proposals))
            assert state.learned is not None
            error = float(np.expm1(state.learned.log_evidence - problem.reference.log_evidence))
            trace.append((len(state.evaluations), paired_cov(state, partner), state.learned.cov, error))
        for rule in (0, 1):
            results[rule].append(stopped(trace, 1 + rule, tolerance))
    cells = []
    for rule in (0, 1):
        calls, errors = np.array(results[rule]).T
        off = 100.0 * np.abs(errors)
        cells.append(f"{calls.mean():.1f} | {np.median(off):.3g} % | {np.sum(off > 10)} | {off.max():.2g} %")
    return f"| {name} | " + " | ".join(cells) + " |"


def main(n: int = 10, acquisition: str = "peur", *names: str) -> None:
    lines = [
        f"# One random pairing against all pairs: {acquisition.upper()}",
        "",
        f"Made by `python benchmarks/pairing.py {n} {acquisition}`: BQ at the paper's settings, {n} seeds.",
        "The same runs are stopped by either estimate of the evidence's variance; none goes on after the sum over all",
        "pairs has stopped it.",
        "",
        "| problem | pairing: calls | median error | > 10 % off | largest | all pairs: calls | median error "
        "| > 10 % off | largest |",
        "|" + "---|" * 9,
    ]
    for name in names or ("u1", "u2", "u3", "u4"):
        lines.append(measure(name, acquisition, range(n)))
        print(lines[-1], flush=True)
    file = "pairing.md" if acquisition == "peur" else f"pairing_{acquisition}.md"
    Path("docs/benchmarks", file).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10, *sys.argv[2:])
