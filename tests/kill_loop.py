"""Runs ``infer`` with a journal in a child that is killed at random moments, again and again, until it is finished.

python kill_loop.py FOLDER KILLS SEED BATCH prints, as JSON, what the calls and the journal then say.
"""

import json
import os
import random
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scipy import stats

import tbq
from tbq.run import journal

PRIOR = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.norm(0, 1)})
OPTIONS = {
    "algorithm": "bq",
    "kernel": "se",
    "search": "pool",
    "population": 256,
    "tolerance": 1e-3,
    "max_evaluations": 24,
    "seed": 5,
}


def log_likelihood(theta):
    return float(-2.0 * (theta[0] - 0.4) ** 2 - 8.0 * (theta[1] - theta[0] ** 2) ** 2)


class Noted:
    """Writes down every call that it begins, and takes a moment for it."""

    def __init__(self, path):
        self.path = path

    def __call__(self, theta):
        with self.path.open("a") as file:
            file.write(json.dumps(list(theta)) + "\n")
        time.sleep(0.01)
        return log_likelihood(theta)


def run(folder, batch):
    """To the end, unless it is killed."""
    executor = ThreadPoolExecutor(batch) if batch > 1 else None
    noted = Noted(folder / "calls")
    return tbq.infer(noted, PRIOR, journal=folder, batch_size=batch, executor=executor, **OPTIONS)


def finished(folder):
    """θ → log-likelihood of the runs that the journal holds."""
    if not (folder / journal.FILE).exists():
        return {}
    try:
        return {tuple(e.theta): e.log_likelihood for e in journal.read(folder).evaluations}
    except tbq.TbqError:  # not even its header is complete
        return {}


def main(folder, kills, seed, batch):
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    killed = lost = again = 0
    while True:
        known, calls = finished(folder), len(_calls(folder))
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            run(folder, batch)
            os._exit(0)
        if killed < kills:
            time.sleep(rng.expovariate(1 / 0.15))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        after = finished(folder)
        lost += sum(after.get(theta) != value for theta, value in known.items())
        again += sum(theta in known for theta in _calls(folder)[calls:])
        if status == 0:
            break
        killed += 1
    print(json.dumps({"killed": killed, "lost": lost, "again": again, "theta": [list(t) for t in after]}))


def _calls(folder):
    path = folder / "calls"
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    return [tuple(json.loads(line)) for line in lines if line.endswith("]")]


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(a) for a in sys.argv[2:]))
