"""Compare the acquisition functions of vanilla Bayesian Quadrature on plain integrals: docs/benchmarks/integrals.md.

Run: python benchmarks/integrals.py [seeds]
"""

import sys
from pathlib import Path

import numpy as np
from scipy import special, stats

import tbq

SQUARE = tbq.Prior({"a": stats.uniform(0, 1), "b": stats.uniform(0, 1)})
NORMAL = tbq.Prior({"a": stats.norm(), "b": stats.norm()})
CUBE = tbq.Prior({name: stats.uniform(0, 1) for name in "abc"})
BUDGETS = (20, 40, 60)


def _side(m: float, c: float) -> float:
    return float(0.5 * np.sqrt(np.pi) / c * (special.erf(c * (1 - m)) + special.erf(c * m)))


def _peak(c: float, m: float) -> float:
    return float((np.arctan((1 - m) * c) + np.arctan(m * c)) * c)


_phase = 2 * np.pi * 0.3
INTEGRALS = {
    "oscillatory (Genz), uniform": (
        SQUARE,
        lambda t: np.cos(_phase + 2 * t[0] + 3 * t[1]),
        (-np.cos(_phase + 5) + np.cos(_phase + 2) + np.cos(_phase + 3) - np.cos(_phase)) / 6,
    ),
    "product peak (Genz), uniform": (
        SQUARE,
        lambda t: 1 / ((0.25 + (t[0] - 0.3) ** 2) * (0.25 + (t[1] - 0.6) ** 2)),
        _peak(2.0, 0.3) * _peak(2.0, 0.6),
    ),
    "Gaussian (Genz), uniform": (
        SQUARE,
        lambda t: np.exp(-4 * ((t[0] - 0.4) ** 2 + (t[1] - 0.6) ** 2)),
        _side(0.4, 2) * _side(0.6, 2),
    ),
    "exponential, normal": (NORMAL, lambda t: np.exp(0.4 * t[0] - 0.3 * t[1]), np.exp(0.125)),
    "cosine, normal": (NORMAL, lambda t: 2 + np.cos(t[0] + 0.5 * t[1]), 2 + np.exp(-0.625)),
    "Gaussian (Genz), uniform, 3-D": (
        CUBE,
        lambda t: np.exp(-2 * np.sum((t - np.array([0.4, 0.6, 0.5])) ** 2)),
        _side(0.4, 2**0.5) * _side(0.6, 2**0.5) * _side(0.5, 2**0.5),
    ),
}


def error_at(result: tbq.Integral, exact: float, budget: int) -> float:
    """Relative error of the estimate after so many evaluations."""
    mean = next(m for n, m, _ in result.history if n == budget)
    return abs(mean / exact - 1)


def main(seeds: int = 5) -> None:
    lines = [
        "# Acquisition functions of vanilla Bayesian Quadrature",
        "",
        f"Made by `python benchmarks/integrals.py {seeds}`: geometric mean over {seeds} seeds of the error after",
        f"{', '.join(map(str, BUDGETS))} evaluations, started from 5 per dimension.",
        "",
        "| integral | " + " | ".join(f"{a}, {b}" for a in ("G_μ", "PVC", "abs PVC") for b in BUDGETS) + " |",
        "|" + "---|" * (1 + 3 * len(BUDGETS)),
    ]
    for name, (prior, f, exact) in INTEGRALS.items():
        cells = []
        for acquisition in ("gmu", "pvc", "abs_pvc"):
            runs = [
                tbq.integrate(f, prior, acquisition=acquisition, tolerance=1e-12, max_evaluations=BUDGETS[-1], seed=s)
                for s in range(seeds)
            ]
            for budget in BUDGETS:
                errors = [max(error_at(r, float(exact), budget), 1e-12) for r in runs]
                cells.append(f"{np.exp(np.mean(np.log(errors))):.1e}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    Path("docs/benchmarks/integrals.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
