"""Zero likelihood behind borders of several shapes, and runs that fail. docs/benchmarks/borders.md.

Run: python benchmarks/borders.py [seeds]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

import tbq
from tbq.common.types import Array, BoolArray

SPREAD, HALF = 0.8, 4.0  # of the likelihood, a normal density at the centre of a square prior
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "borders.md"


@dataclass(frozen=True)
class Case:
    """Where the likelihood is not zero, and where the simulator does not fail."""

    name: str
    feasible: Callable[[Array], BoolArray] = lambda theta: np.ones(theta.shape[:-1], dtype=bool)
    works: Callable[[Array], BoolArray] = lambda theta: np.ones(theta.shape[:-1], dtype=bool)

    def log_likelihood(self, theta: Array) -> float:
        if not self.works(theta):
            raise RuntimeError("mesh tangled")
        return float(smooth(theta)) if self.feasible(theta) else -np.inf

    def log_evidence(self, n: int = 4000) -> float:
        """On a grid. What fails is as likely as the rest says."""
        u = HALF * ((2.0 * np.arange(n) + 1.0) / n - 1.0)
        rows = (np.stack(np.broadcast_arrays(a, u), axis=-1) for a in u)
        return float(np.log(sum(np.sum(np.exp(smooth(r)) * self.feasible(r)) for r in rows) / n**2))


def smooth(theta: Array) -> Array:
    return -0.5 * np.sum((theta / SPREAD) ** 2, axis=-1)


CASES = (
    Case("straight", lambda t: t[..., 0] + 0.5 * t[..., 1] < 0.4),
    Case("half of the prior", lambda t: t[..., 0] < 0.0),
    Case("disc", lambda t: np.sum(t**2, axis=-1) < 1.44),
    Case("disc off the centre", lambda t: np.sum((t - [1.0, 0.0]) ** 2, axis=-1) < 2.25),
    Case("corner", lambda t: (t[..., 0] < 0.3) | (t[..., 1] < 0.2)),
    Case("a fifth fails", works=lambda t: t[..., 0] < 2.4),
)
COLUMNS = ("border", "runs", "calls", "converged", "error (largest)", "rms z (largest)", "confidently wrong")
TEXT = """# Zero likelihood and failing runs

Made by `python benchmarks/borders.py`: a normal likelihood on a square prior that is zero beyond a border, or whose
runs fail beyond it; defaults, seeds count from 100. Errors are of the log-evidence, against a grid; z is the error
over the stated one. Confidently wrong: converged and more than three stated errors off.
"""


def row(case: Case, seeds: int) -> str:
    """A line of the table."""
    prior = tbq.Prior({"a": stats.uniform(-HALF, 2 * HALF), "b": stats.uniform(-HALF, 2 * HALF)})
    reference = case.log_evidence()
    runs = [tbq.infer(case.log_likelihood, prior, seed=s, progress=False) for s in range(100, 100 + seeds)]
    errors = np.array([r.log_evidence - reference for r in runs])
    z = errors / np.array([r.log_evidence_sd for r in runs])
    wrong = sum(r.converged and abs(v) > 3.0 for r, v in zip(runs, z, strict=True))
    cells = [
        case.name,
        f"{seeds}",
        f"{np.mean([r.n_evaluations for r in runs]):.1f}",
        f"{sum(r.converged for r in runs)}",
        f"{np.abs(errors).mean():.3f} ({np.abs(errors).max():.3f})",
        f"{np.sqrt(np.mean(z**2)):.2f} ({np.abs(z).max():.1f})",
        f"{wrong}",
    ]
    return "| " + " | ".join(cells) + " |"


def main(seeds: int) -> None:
    header = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    PAGE.write_text("\n".join([TEXT, *header, *(row(case, seeds) for case in CASES), ""]))
    print(PAGE.read_text())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
