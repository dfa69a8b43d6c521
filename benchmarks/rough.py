"""Outputs that no smooth process fits: a jump, a kink, chaos. Are runs confidently wrong? docs/benchmarks/rough.md.

Run: python benchmarks/rough.py [seeds]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import special, stats

import tbq
from tbq.common.types import Array

SQUARE = tbq.Prior({"a": stats.uniform(0, 1), "b": stats.uniform(0, 1)})
DATA, NOISE = np.array([0.78, 0.55]), 0.05
BUDGET = 40
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "rough.md"


def smooth(theta: Array) -> Array:
    a, b = theta[..., 0], theta[..., 1]
    return np.stack([a + 0.5 * b, np.sin(3.0 * a) * b], axis=-1)


def jump(theta: Array) -> Array:
    return smooth(theta) + 0.3 * (theta[..., 0] + 0.5 * theta[..., 1] > 0.75)[..., None]


def kink(theta: Array) -> Array:
    return smooth(theta) + np.maximum(theta[..., 0] + 0.5 * theta[..., 1] - 0.75, 0.0)[..., None]


def chaotic(theta: Array) -> Array:
    x, r = 0.2 + 0.5 * theta[..., 0], 3.8 + 0.15 * theta[..., 1]
    for _ in range(30):
        x = r * x * (1.0 - x)
    return smooth(theta) + 0.5 * x[..., None]


def exact(likelihood: tbq.GaussianLikelihood, n: int = 1500) -> float:
    """The log-evidence on a grid."""
    u = (np.arange(n) + 0.5) / n
    return float(special.logsumexp(likelihood(np.stack(np.meshgrid(u, u, indexing="ij"), axis=-1))) - 2.0 * np.log(n))


def row(model: Callable[[Array], Array], seeds: int) -> str:
    """A line of the table."""
    likelihood = tbq.GaussianLikelihood(model, DATA, NOISE)
    reference = exact(likelihood)
    runs = [
        tbq.infer(likelihood, SQUARE, seed=s, max_evaluations=BUDGET, progress=False) for s in range(100, 100 + seeds)
    ]
    errors = np.array([r.log_evidence - reference for r in runs])
    z = errors / np.array([r.log_evidence_sd for r in runs])
    wrong = sum(r.converged and abs(v) > 3.0 for r, v in zip(runs, z, strict=True))
    cells = [
        model.__name__,
        f"{seeds}",
        f"{np.mean([r.n_evaluations for r in runs]):.1f}",
        f"{sum(r.converged for r in runs)}",
        f"{sum(bool(r.notes) for r in runs)}",
        f"{np.abs(errors).mean():.3f} ({np.abs(errors).max():.3f})",
        f"{np.sqrt(np.mean(z**2)):.2f} ({np.abs(z).max():.1f})",
        f"{wrong}",
    ]
    return "| " + " | ".join(cells) + " |"


TEXT = f"""# Outputs that cannot be learned

Made by `python benchmarks/rough.py`: two outputs of two parameters with a jump, a kink or chaos in them, at most
{BUDGET} runs, everything else as it comes; seeds count from 100. Errors are of the log-evidence, against a grid; z is
the error over the stated one. Confidently wrong: converged and more than three stated errors off.
"""
COLUMNS = (
    "outputs",
    "runs",
    "calls",
    "converged",
    "objections",
    "error (largest)",
    "rms z (largest)",
    "confidently wrong",
)


def main(seeds: int) -> None:
    header = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    rows = [row(model, seeds) for model in (smooth, jump, kink, chaotic)]
    PAGE.write_text("\n".join([TEXT, *header, *rows, ""]))
    print(PAGE.read_text())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
