"""Runs whose simulators never end, for tests that kill the one who started them, and a census of what is left.

python outliving.py SCENARIO FOLDER [GUARD]. Whatever is started inherits the environment, and with it the token of the
test. Beside FOLDER lies the journal. GUARD is another script in place of ours.
"""

import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

TOKEN = "TBQ_TEST_TOKEN"
# A shell with children in its group, in another session, and without parents. Each leaves its number in the folder.
SHELL = """
cd "$1"
note() { echo $$ > "$$"; }
note
sh -c 'echo $$ > $$; exec sleep 600' &
setsid sh -c 'echo $$ > $$; exec sleep 600' &
(setsid sh -c 'echo $$ > $$; exec sleep 600' &)
sleep 600
"""


def solve(theta, folder):
    subprocess.run(["sh", "-c", SHELL, "sh", str(folder)], check=False)
    return 0.0


def stuck(theta, folder):
    """In Python, and in a program of C that does not let go of Python's lock."""
    (folder / str(os.getpid())).write_text(f"{os.getpid()}\n")
    import ctypes

    ctypes.PyDLL(None).sleep(600)
    return 0.0


def family(theta, folder):
    """A pool of the simulator's own."""
    (folder / str(os.getpid())).write_text(f"{os.getpid()}\n")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(partial(stuck, folder=folder), [0.0, 0.0])
    return 0.0


def pool(method):
    return partial(ProcessPoolExecutor, 2, mp_context=multiprocessing.get_context(method))


def infer(scenario, folder):
    from scipy import stats

    import tbq
    from tbq.adapters import CommandModel

    prior = tbq.Prior({"a": stats.uniform(0, 1)})
    script = folder.parent / "solver.sh"
    script.write_text(f"#!/bin/sh\n# {{a}}\n{SHELL}")
    shell = CommandModel(("a",), ["sh", "solver.sh", str(folder), "{a}"], "stdout.txt", files=[script])
    how = {
        "here": (solve, {}),
        "family": (family, {}),
        "apart": (solve, {"timeout": 500.0}),
        "command": (shell, {}),
        "command, on threads": (shell, {"executor": partial(ThreadPoolExecutor, 2), "batch_size": 2}),
        "forked pool": (solve, {"executor": pool("fork"), "batch_size": 2}),
        "spawned pool": (stuck, {"executor": pool("spawn"), "batch_size": 2}),
        "served pool": (solve, {"executor": pool("forkserver"), "batch_size": 2}),
        "stuck pool": (stuck, {"executor": pool("fork"), "batch_size": 2}),
        "given pool": (solve, {"executor": pool("fork")(), "batch_size": 2}),
        "pool, apart": (solve, {"executor": pool("fork"), "batch_size": 2, "timeout": 500.0}),
    }
    function, options = how[scenario]
    function = function if function is shell else partial(function, folder=folder)
    options |= {"n_initial": 2, "max_evaluations": 4, "population": 128, "seed": 0}
    tbq.infer(function, prior, journal=folder.parent / "journal", **options)


def started(folder):
    """Numbers of the processes that said so."""
    return [p.name for p in folder.iterdir() if p.read_text().strip()]


def left(token, but=()):
    """Processes that still have the token, the dead not counted."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in but:
            try:
                if f"{TOKEN}={token}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
            except OSError:
                continue
    return found


def wait_until(condition, seconds):
    """What is true in the end, or not."""
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


if __name__ == "__main__":
    if sys.argv[3:]:
        from tbq.simulate import guard

        guard.__file__ = sys.argv[3]
    infer(sys.argv[1], Path(sys.argv[2]))
