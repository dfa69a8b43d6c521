"""How busy workers are: simulated runs of uneven length on a pool of processes.

python benchmarks/utilisation.py [--workers 8] [--runs 120] [--mean 5] [--spare 0] [--seed 0]

The length of a run is log-normal, with a standard deviation of 60 % of its mean. Printed is the share of the workers'
time that was spent in runs: while there were points to send out, and to the end of the last run; and what batches
that wait for their slowest member would have come to with the same runs. ``--spare`` points wait for a worker in
addition to those that are run.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

import tbq
from tbq.common.types import Array


@dataclass(frozen=True)
class Simulated:
    """A problem's log-likelihood that takes its time, which depends on θ alone, and tells its start and end."""

    name: str
    mean: float

    def __call__(self, theta: Array) -> float:
        return self.evaluate(theta)[0]

    def evaluate(self, theta: Array) -> tuple[float, list[float]]:
        start = time.monotonic()
        rng = np.random.default_rng(np.frombuffer(theta.tobytes(), dtype=np.uint32))
        spread = np.sqrt(np.log1p(0.6**2))
        time.sleep(self.mean * np.exp(spread * rng.standard_normal() - 0.5 * spread**2))
        return float(tbq.problems.get(self.name).log_likelihood(theta)), [start, time.monotonic()]


def main(workers: int, runs: int, mean: float, spare: int, seed: int, problem: str = "u4") -> float:
    with ProcessPoolExecutor(workers) as pool:
        result = tbq.infer(
            Simulated(problem, mean),
            tbq.problems.get(problem).prior,
            executor=pool,
            batch_size=workers + spare,
            max_evaluations=runs,
            tolerance=1e-3,  # to use up the budget
            seed=seed,
        )
    times = np.array([e.outputs for e in result.evaluations])
    lengths = times[:, 1] - times[:, 0]
    begin, last, end = times[:, 0].min(), times[:, 0].max(), times[:, 1].max()
    share = float(np.diff(np.minimum(times, last)).sum() / (workers * (last - begin)))
    groups = [lengths[i : i + workers].max() for i in range(0, len(lengths), workers)]
    print(f"{len(times)} runs of {lengths.min():.1f} to {lengths.max():.1f} s, {lengths.mean():.1f} s on average")
    print(f"{workers} workers: {100 * share:.1f} % busy in the {last - begin:.0f} s to the last point sent out,")
    print(
        f"{100 * lengths.sum() / (workers * (end - begin)):.1f} % in the {end - begin:.0f} s to the end of the last run"
    )
    print(f"in batches of {workers}: at most {100 * lengths.sum() / (workers * sum(groups)):.1f} %")
    return share


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--runs", type=int, default=120)
    parser.add_argument("--mean", type=float, default=5.0)
    parser.add_argument("--spare", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
