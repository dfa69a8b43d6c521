"""tbq and other ways to an evidence, on the same problems with the same seeds: docs/benchmarks/peers.md.

Run: python benchmarks/peers/study.py [--peer NAME ...] [--problem NAME ...] [--seeds N] [--again] [--table].

Each peer has an environment of its own under .venv/peers, made from its pinned requirements (Python 3.11); tbq runs in
this one. Runs are made one at a time on one thread. An interrupted study goes on; --again makes the chosen runs anew,
and --table only writes the page. Use `--peer tbq tbq-outputs --again` when tbq has changed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import tables

from tbq.bench.studies import read_rows, run_missing

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RUNS = ROOT / "docs" / "benchmarks" / "peers_runs.csv"
SEEDS = 3


def interpreter(peer: str) -> str:
    """The Python of a peer's environment, which is made where it is missing or its requirements have changed."""
    if peer in tables.OURS:
        return sys.executable
    wanted, folder = HERE / "requirements" / f"{peer}.txt", ROOT / ".venv" / "peers" / peer
    have = folder / "requirements.txt"
    if not have.exists() or have.read_text() != wanted.read_text():
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--requirement", wanted], check=True)
        shutil.copy(wanted, have)
    return str(folder / "bin" / "python")


def run(peer: str, problem: str, seed: int) -> tables.Run:
    """One run in the peer's environment. What fails is a row that says so."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "0"}
    command = [interpreter(peer), str(HERE / "methods.py"), peer, problem, str(seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return tables.Run(peer, problem, seed, **json.loads(done.stdout))
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return tables.failed(peer, problem, seed, last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", nargs="+", choices=tables.PEERS, default=list(tables.PEERS))
    parser.add_argument("--problem", nargs="+", choices=tables.PROBLEMS, default=list(tables.PROBLEMS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    tasks = [] if asked.table else tables.tasks(asked.peer, asked.problem, asked.seeds)
    if asked.again:
        kept = [r for r in read_rows(tables.Run, RUNS) if tables.key(r) not in tasks]
        RUNS.unlink(missing_ok=True)
        run_missing(lambda row: row, [(row,) for row in kept], 1, RUNS)
    done = {tables.key(r) for r in read_rows(tables.Run, RUNS)}
    missing = [t for t in tasks if t not in done]
    run_missing(run, missing, 1, RUNS, lambda n: print(f"{n} of {len(missing)}: {missing[n - 1]}", flush=True))
    RUNS.with_name("peers.md").write_text(tables.page(read_rows(tables.Run, RUNS)))


if __name__ == "__main__":
    main()
