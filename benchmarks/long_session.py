"""Thousands of steps of ask and tell in one process: seconds and memory per step, beside `tbq bench overhead`.

python benchmarks/long_session.py [--steps 3000] [--dimensions 10] [--out docs/benchmarks/long_session.md]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy import stats

import tbq
from tbq.bench import overhead, studies
from tbq.run import journal

ROOT = Path(__file__).parent.parent
EVERY = 100  # steps of a row
COLUMNS = ("steps", "mean s", "longest s", "expected s", "memory MB", "journal MB")
PAGE = """# Long sessions

Made by `python benchmarks/long_session.py`: {steps} steps of ask and tell in one process, with {dimensions} parameters
and a tolerance that cannot be met. Of every {every} steps the mean and the longest, in seconds of processor time of one
thread; what `tbq bench overhead` [measured](overhead.md) for so many runs, between and beyond its sizes by straight
lines in logarithms; the memory of the process afterwards; and the size of the journal.

{table}
"""


@dataclass(frozen=True)
class Row:
    """A hundred steps."""

    steps: int
    mean: float  # seconds
    longest: float
    expected: float  # by `tbq bench overhead`; nan where it measured no such number of parameters
    memory: float  # MB, of the whole process
    journal: float  # MB

    def __str__(self) -> str:
        numbers = (self.mean, self.longest, self.expected)
        return f"| {self.steps} | {' | '.join(f'{v:.3f}' for v in numbers)} | {self.memory:.0f} | {self.journal:.2f} |"


def rows(steps: int, dimensions: int, folder: str, every: int = EVERY) -> Iterator[Row]:
    """Make the steps; a row for every so many of them."""
    prior = tbq.Prior({f"x{i}": stats.norm() for i in range(dimensions)})
    with tbq.Session(prior, journal=folder, seed=0, tolerance=1e-9, max_evaluations=steps) as session:
        taken: list[float] = []
        start = time.process_time()
        while not session.done:  # which learns from the run before
            (point,) = session.ask()
            value = float(overhead.log_likelihood(point.theta[None, :])[0])
            session.tell(point.id, log_likelihood=value)
            taken.append(time.process_time() - start)
            start = time.process_time()
            if len(taken) % every == 0:
                size = (Path(folder) / journal.FILE).stat().st_size / 2**20
                n, last = len(taken), taken[-every:]
                yield Row(n, float(np.mean(last)), max(last), expected(dimensions, n), _memory(), size)


def expected(dimensions: int, runs: int) -> float:
    """Seconds of an iteration as `tbq bench overhead` measured them, between and beyond its numbers of runs."""
    found = [r for r in measured() if r.d == dimensions]
    if len(found) < 2:
        return float("nan")
    x, y = np.log([[r.runs, r.iteration] for r in sorted(found, key=lambda r: r.runs)]).T
    if runs <= np.exp(x[-1]):
        return float(np.exp(np.interp(np.log(runs), x, y)))
    return float(np.exp(y[-1] + (y[-1] - y[-2]) / (x[-1] - x[-2]) * (np.log(runs) - x[-1])))


def measured() -> list[overhead.Row]:
    rows = studies.read_rows(overhead.Row, ROOT / "docs/benchmarks/overhead_runs.csv")
    return [r for r in rows if r.population == overhead.POPULATION]


def _memory() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--dimensions", type=int, default=10)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/benchmarks/long_session.md")
    arguments = parser.parse_args()
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    print(*lines, sep="\n", flush=True)
    with TemporaryDirectory() as folder:
        for row in rows(arguments.steps, arguments.dimensions, folder):
            lines.append(str(row))
            print(row, flush=True)
    table = "\n".join(lines)
    page = PAGE.format(steps=arguments.steps, dimensions=arguments.dimensions, every=EVERY, table=table)
    arguments.out.write_text(page)


if __name__ == "__main__":
    main()
