"""Measure the choices that the paper leaves open, and those we made differently: docs/benchmarks/choices.md.

Run: python benchmarks/choices.py [seeds]
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tbq import problems
from tbq.bench import paper
from tbq.engine import conclude
from tbq.problem.settings import resolve

BOUNDED = replace(paper.AS_PRINTED, mean_cap=0.0, bound_factor=5.0)
PROBLEMS = ("u3", "u4")
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "paper settings, PLUR": ("paper", {"acquisition": "plur"}),
    "paper settings, PLUR, upper bound below 5 ε first": ("paper", {"acquisition": "plur", "tuning": BOUNDED}),
    "default": ("default", {}),
}


def measure(problem_name: str, base: str, options: dict[str, Any], seeds: range) -> str:
    problem = problems.get(problem_name)
    base_options = paper.printed_settings(problem_name, "tbq") if base == "paper" else {}
    settings = resolve(2, **{**base_options, **options})
    calls, errors, z = [], [], []
    for seed in seeds:
        result = conclude(paper.drive(problem, settings, seed)[0])
        off = result.log_evidence - problem.reference.log_evidence
        calls.append(result.n_evaluations)
        errors.append(abs(np.expm1(off)))
        z.append(off / result.log_evidence_sd)
    failed = int(np.sum(np.array(errors) > 0.1))
    return f"{np.mean(calls):.0f} | {100 * np.mean(errors):.1f} % | {failed} | {np.sqrt(np.mean(np.square(z))):.1f}"


def main(n: int = 10) -> None:
    head = " | ".join(f"{p}: calls | error | > 10 % off | rms z" for p in PROBLEMS)
    lines = [
        "# Choices, measured",
        "",
        f"Made by `python benchmarks/choices.py {n}`: TBQ, {n} seeds each. Calls and absolute errors are means;",
        "*rms z* is the root mean square of the log-evidence's error over its stated standard deviation. All with our",
        "final estimator.",
        "",
        f"| variant | {head} |",
        "|" + "---|" * (1 + 4 * len(PROBLEMS)),
    ]
    for name, (base, options) in VARIANTS.items():
        row = f"| {name} | " + " | ".join(measure(p, base, options, range(n)) for p in PROBLEMS) + " |"
        print(row, flush=True)
        lines.append(row)
    Path("docs/benchmarks/choices.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
