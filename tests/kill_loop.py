"""Runs ``infer`` with a journal in a child that is killed at random moments, again and again, until it is finished.

python kill_loop.py FOLDER KILLS SEED MODE prints, as JSON, what the calls, the journal and a census of processes say.
python kill_loop.py FOLDER KILLS goes on with all modes in turn until there were so many kills, and prints a table.

Every run is a shell with a child in a session of its own. Half of the time the next child begins at once, and a run
that finds itself still running says so; otherwise the dead child's processes are waited for, and those that stay are
counted.
"""

import hashlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from outliving import TOKEN, left, wait_until
from scipy import stats

import tbq
from tbq.adapters import CommandModel
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
COARSE = (-1.0,)  # beside the theta of a coarse run
MODES = {  # seconds that a child lives, on average
    "here": 0.3,
    "threads": 0.3,
    "forked": 0.4,
    "spawned": 3.0,
    "apart": 0.6,
    "command": 0.3,
    "levels": 0.5,
}
SOLVER = """
exec 9> "$1/locks/$2"
flock -n 9 || echo "$2" >> "$1/beside"
echo "$3" >> "$1/calls"
setsid sleep 300 9>&- &
sleep 0.02
echo "$4"
"""


def log_likelihood(theta):
    return float(-2.0 * (theta[0] - 0.4) ** 2 - 8.0 * (theta[1] - theta[0] ** 2) ** 2)


def outputs(theta):
    """Whose likelihood is the same, but for a factor."""
    return np.array([theta[0] - 0.4, theta[1] - theta[0] ** 2])


def coarse(theta):
    return outputs(theta) + 0.1 * theta


def of_levels(fine, below):
    return tbq.GaussianLikelihood(fine, [0.0, 0.0], [0.5, 0.25], coarse=below, cost=0.1)


class Solving:
    """Writes down every call that it begins, and takes a moment for it; runs the shell itself, or is told how."""

    def __init__(self, folder, model=log_likelihood, mark=()):
        self.folder, self.model, self.mark = folder, model, mark

    def __call__(self, theta):
        seen = [*theta, *self.mark]
        key = hashlib.sha256(np.array(seen).tobytes()).hexdigest()[:16]
        arguments = [str(self.folder), key, json.dumps(seen), "0"]
        subprocess.run(["sh", "-c", SOLVER, "sh", *arguments], check=True, stdout=subprocess.DEVNULL)
        return self.model(theta)


class Commanded:
    """The same as a command with an output."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, theta):
        key = hashlib.sha256(theta.tobytes()).hexdigest()[:16]
        shell = ["sh", "-c", SOLVER, "sh", str(self.folder), key, json.dumps(list(theta)), "{value}"]
        model = CommandModel(("value",), shell, "stdout.txt", folder=self.folder / "work")
        return float(model([log_likelihood(theta)])[0])


def run(folder, mode):
    """To the end, unless it is killed."""
    (folder / "locks").mkdir(exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    how = {
        "here": {},
        "threads": {"executor": partial(ThreadPoolExecutor, 3), "batch_size": 3},
        "forked": {"executor": partial(ProcessPoolExecutor, 3), "batch_size": 3},
        "spawned": {"executor": partial(ProcessPoolExecutor, 3, mp_context=spawn), "batch_size": 3},
        "apart": {"executor": partial(ThreadPoolExecutor, 3), "batch_size": 3, "timeout": 60.0},
        "command": {"executor": partial(ThreadPoolExecutor, 3), "batch_size": 3},
        "levels": {},
    }
    simulator = Commanded(folder) if mode == "command" else Solving(folder)
    if mode == "levels":
        simulator = of_levels(Solving(folder, outputs), Solving(folder, coarse, COARSE))
    return tbq.infer(simulator, PRIOR, journal=folder, **how[mode], **OPTIONS)


def finished(folder):
    """θ → log-likelihood of the runs that the journal holds; that of a coarse one is marked."""
    if not (folder / journal.FILE).exists():
        return {}
    try:
        known = journal.read(folder).evaluations
        return {(*e.theta, *(COARSE if e.level == "coarse" else ())): e.log_likelihood for e in known}
    except tbq.TbqError:  # not even its header is complete
        return {}


def loop(folder, kills, seed, mode):
    """One run, killed so many times if it lasts so long."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    counts = dict.fromkeys(("killed", "lost", "again", "orphans"), 0)
    slowest = 0.0
    while True:
        known, calls = finished(folder), len(_calls(folder))
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            run(folder, mode)
            os._exit(0)
        if counts["killed"] < kills:
            time.sleep(rng.expovariate(1 / MODES[mode]))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if status == 0 or rng.random() < 0.5:
            start = time.monotonic()
            wait_until(lambda: not left(os.environ[TOKEN], {os.getpid()}), 10)
            slowest = max(slowest, time.monotonic() - start)
            for pid, _ in left(os.environ[TOKEN], {os.getpid()}):
                counts["orphans"] += 1
                os.kill(pid, signal.SIGKILL)
        after = finished(folder)
        counts["lost"] += sum(after.get(theta) != value for theta, value in known.items())
        counts["again"] += sum(theta in known for theta in _calls(folder)[calls:])
        if status == 0:
            break
        counts["killed"] += 1
    beside = folder / "beside"
    counts["beside"] = len(beside.read_text().split()) if beside.exists() else 0
    return {**counts, "slowest": round(slowest, 2), "theta": [list(t) for t in after if len(t) == PRIOR.dim]}


def campaign(folder, kills):
    """All modes in turn, until there were so many kills."""
    columns = ("killed", "lost", "again", "beside", "orphans")
    total = {mode: dict.fromkeys(columns, 0) for mode in MODES}
    seed = 0
    while sum(t["killed"] for t in total.values()) < kills:
        mode = list(MODES)[seed % len(MODES)]
        report = loop(folder / f"{seed}", 12, seed, mode)
        assert mode == "levels" or len(report["theta"]) == OPTIONS["max_evaluations"]
        for name in columns:
            total[mode][name] += report[name]
        print(f"{mode:>8} {report['slowest']:5.2f} s ", *(f"{n} {total[mode][n]}" for n in columns), flush=True)
        seed += 1
    print("together", *(f"{n} {sum(t[n] for t in total.values())}" for n in columns))


def _calls(folder):
    path = folder / "calls"
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    return [tuple(json.loads(line)) for line in lines if line.endswith("]")]


if __name__ == "__main__":
    if TOKEN not in os.environ:
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, TOKEN: uuid.uuid4().hex})
    if len(sys.argv) > 3:
        print(json.dumps(loop(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
    else:
        campaign(Path(sys.argv[1]), int(sys.argv[2]))
