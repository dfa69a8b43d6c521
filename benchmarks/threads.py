"""Does linear algebra on more threads save the user time? docs/benchmarks/threads.md.

Run: python benchmarks/threads.py, on a machine with nothing else to do.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from unittest import mock

from threadpoolctl import threadpool_limits

from tbq.bench import overhead

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "threads.md"
SIZES = [(d, runs) for d in (2, 10) for runs in (100, 500, 2000)]


def seconds(d: int, runs: int, threads: int) -> overhead.Row:
    """What the parts of an iteration take by the clock, with so many threads for linear algebra."""
    limit = partial(threadpool_limits, limits=threads, user_api="blas")
    with mock.patch.object(overhead, "single_threaded", limit), mock.patch("time.process_time", time.perf_counter):
        return overhead._measure(d, runs, overhead.POPULATION)


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    lines = [
        "# More threads",
        "",
        "Made by `python benchmarks/threads.py`. Seconds by the clock, of each part when it is done and per iteration",
        "(as in `overhead.md`), with linear algebra on one thread, as tbq sets it, and on as many as there are cores:",
        f"{cores}.",
        "",
        f"| d | runs | threads | {' | '.join(overhead.PARTS)} | s per iteration |",
        "|" + "---|" * (4 + len(overhead.PARTS)),
    ]
    for d, runs in SIZES:
        for threads in (1, cores):
            row = seconds(d, runs, threads)
            parts = " | ".join(f"{getattr(row, part):.3f}" for part in overhead.PARTS)
            lines.append(f"| {d} | {runs} | {threads} | {parts} | {row.iteration:.3f} |")
            print(lines[-1], flush=True)
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
