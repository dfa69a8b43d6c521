"""How often the checks of a result speak up, on good runs and on bad ones made on purpose: docs/benchmarks/trust.md.

Run: python benchmarks/trust.py (about ten minutes). The thresholds were set on other seeds.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy import stats

import tbq
from tbq.common.types import Array
from tbq.report import diagnostics

SEEDS = range(10, 15)
BOX = tbq.Prior({"a": stats.uniform(-4, 8), "b": stats.uniform(-4, 8)})
LEFT = tbq.Prior({"a": stats.uniform(-4, 4), "b": stats.uniform(-4, 8)})
MODES = np.array([[-2.0, -2.0], [2.0, 2.0]])
WIDE, NARROW, SPIKE = 0.5, 0.3, 0.15  # standard deviations of the modes

Run = tuple[tbq.Result, float]  # with the exact log-evidence


def wide(theta: Array) -> float:
    return float(-0.5 * np.sum((theta - MODES[0]) ** 2) / WIDE**2)


def two(theta: Array) -> float:
    return float(np.logaddexp(*(-0.5 * np.sum((theta - MODES) ** 2, axis=1) / NARROW**2)))


def spiked(theta: Array) -> float:
    return float(np.logaddexp(wide(theta), 3.0 - 0.5 * np.sum((theta - 2.5) ** 2) / SPIKE**2))


def problems(names: tuple[str, ...], budget: int | None = None) -> Iterator[Run]:
    for name in names:
        problem = tbq.problems.get(name)
        for seed in SEEDS:
            result = tbq.infer(problem.log_likelihood, problem.prior, seed=seed, max_evaluations=budget)
            yield result, problem.reference.log_evidence


def noisy(sd: float) -> Iterator[Run]:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        log_likelihood = lambda theta, rng=rng: wide(theta) + sd * rng.standard_normal()
        result = tbq.infer(log_likelihood, BOX, seed=seed, max_evaluations=80)
        yield result, float(np.log(2 * np.pi * WIDE**2 / 64))


def half() -> Iterator[Run]:
    for seed in SEEDS:
        left = tbq.infer(two, LEFT, seed=seed)
        result = tbq.Session(BOX, seed=seed, warm_start=left).result()
        yield result, float(np.log(2 * 2 * np.pi * NARROW**2 / 64))


def spike() -> Iterator[Run]:
    for seed in range(10, 20):
        yield tbq.infer(spiked, BOX, seed=seed), float(np.log(2 * np.pi * (WIDE**2 + np.exp(3.0) * SPIKE**2) / 64))


STUDIES: dict[str, Callable[[], Iterator[Run]]] = {
    "good: `u1`–`u4`, `dof2`, `dof3`": lambda: problems(("u1", "u2", "u3", "u4", "dof2", "dof3")),
    "budget too small: 18 runs of `u3`, `u4`, `dof2`": lambda: problems(("u3", "u4", "dof2"), 18),
    "log-likelihood with noise of 0.05": lambda: noisy(0.05),
    "log-likelihood with noise of 0.2": lambda: noisy(0.2),
    "log-likelihood with noise of 0.7": lambda: noisy(0.7),
    "missed mode: half of the prior never looked at": half,
    "missed mode: a spike in 1 % of the prior, default settings": spike,
}


def row(name: str, runs: Iterator[Run]) -> str:
    done = list(runs)
    against = [[f.name for f in diagnostics.findings(result) if not f.ok] for result, _ in done]
    wrong = [abs(result.log_evidence - exact) > 3.0 * result.log_evidence_sd for result, exact in done]
    silent = sum(bad and not names for bad, names in zip(wrong, against, strict=True))
    counts = Counter(n for names in against for n in names).most_common()
    which = ", ".join(f"{n} {count}" for n, count in counts)
    noticed = sum(bool(names) for names in against)
    return f"| {name} | {len(done)} | {noticed} | {sum(wrong)} | {silent} | {which} |"


def main() -> None:
    lines = [
        "# How often the checks speak up",
        "",
        "By `benchmarks/trust.py`. *Wrong*: the log-evidence is more than three of its stated standard deviations off.",
        "",
        "| runs | number | something speaks against | wrong | wrong, and nothing does | which checks, how often |",
        "|---|---|---|---|---|---|",
    ]
    for name, study in STUDIES.items():
        lines.append(row(name, study()))
        print(lines[-1], flush=True)
    Path("docs/benchmarks/trust.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
