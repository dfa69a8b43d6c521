"""A run whose disk fills up while runs are out, and who is killed then. Prints, as JSON, what became of its runs.

unshare -Urm sh -c 'mount -t tmpfs -o size=600k tbq DISK && python full_disk.py DISK NOTES kill'
"""

import json
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from driving import infer
from likelihoods import log_likelihood

from tbq.run import journal

RUNS = 40
FULL = 9  # the run during which the disk fills up
WAIT = 1.0  # seconds from then to the kill


class Simulator:
    """Has many outputs, so that a journal soon needs room."""

    def __init__(self, disk, notes, kill):
        self.disk, self.notes, self.kill = disk, notes, kill
        self.calls, self.lock = [], threading.Lock()

    def __call__(self, theta):
        return log_likelihood(theta)

    def evaluate(self, theta):
        with self.lock:
            self.calls.append(tuple(theta))
            number = len(self.calls)
        if self.disk and number == FULL:
            fill(self.disk)
            if self.kill:
                threading.Timer(WAIT, os.kill, (os.getpid(), signal.SIGKILL)).start()
        elif self.disk and number > FULL:
            time.sleep(0.1)  # returns to a full disk
        with self.lock, (self.notes / "returned").open("a") as file:
            file.write(json.dumps(list(theta)) + "\n")
        return log_likelihood(theta), np.linspace(theta[0], theta[1], 400)


def fill(disk):
    """Take every byte that is left."""
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue


def run(disk, notes, kill):
    with ThreadPoolExecutor(4) as threads:
        options = {"executor": threads, "batch_size": 4, "patience": 60.0 if kill else 0.0}
        return infer(Simulator(disk, notes, kill), RUNS, journal=disk / "run", **options)


def main(disk, notes, kill):
    child = os.fork()
    if child == 0:
        (notes / "stop").write_text(run(disk, notes, kill).stop.name)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    before = {tuple(json.loads(line)) for line in (notes / "returned").read_text().splitlines()}
    kept = {tuple(e.theta) for e in journal.read(disk / "run").evaluations}
    (disk / "filler").unlink()
    again = Simulator(None, notes, False)
    resumed = infer(again, RUNS, journal=disk / "run")
    report = {
        "killed": os.WIFSIGNALED(status),
        "returned": len(before),
        "lost": len(before - kept),
        "again": len(before & set(again.calls)),
        "evaluations": resumed.n_evaluations,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "kill")
