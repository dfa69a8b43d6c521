"""How long a large journal takes to load: prints its size and the seconds.

Run: python benchmarks/journal_load.py [runs]
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import stats

import tbq
from tbq.problem.evaluation import Evaluation, Proposal, Status
from tbq.problem.settings import resolve
from tbq.run import journal
from tbq.run.header import header_of
from tbq.run.warm_start import earlier

DIM = 15


def write(folder: str, n: int) -> tbq.Prior:
    """A journal as a run of ``n`` evaluations leaves it."""
    prior = tbq.Prior({f"x{i}": stats.norm(0, 1) for i in range(DIM)})
    records = [header_of(prior, resolve(DIM, max_evaluations=n), 0, tbq.__version__, [])]
    for i, theta in enumerate(prior.sample(n, seed=0)):
        records.append(journal.ask_record([Proposal(i, theta, 0, "initial", np.nan)]))
        value = -0.5 * float(theta @ theta)
        done = Evaluation(
            i, theta, 0, "initial", np.nan, status=Status.OK, log_likelihood=value, message="", seconds=0.1
        )
        records.append(journal.run_record(done))
    file = journal.Journal(folder)
    file.append(*records)
    file.close()
    return prior


def main(n: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        prior = write(folder, n)
        size = sum(f.stat().st_size for f in Path(folder).iterdir()) / 2**20
        start = time.process_time()
        found = len(journal.read(folder).evaluations)
        read = time.process_time() - start
        start = time.process_time()
        reused = len(earlier(folder, prior))
        print(f"{n:,} evaluations of {DIM} parameters, {size:.0f} MiB")
        print(f"read and checked: {found:,} in {read:.1f} s")
        print(f"taken over by warm_start: {reused:,} in {time.process_time() - start:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
