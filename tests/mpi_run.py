"""Two runs on MPI ranks: mpiexec -n 3 python -m mpi4py.futures mpi_run.py FOLDER."""

import sys
import time
from pathlib import Path

from likelihoods import log_likelihood
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor


class Ranked:
    """Its output is the rank that ran it."""

    def __call__(self, theta):
        return self.evaluate(theta)[0]

    def evaluate(self, theta):
        time.sleep(0.05)
        return log_likelihood(theta), [MPI.COMM_WORLD.Get_rank()]


if __name__ == "__main__":
    from driving import infer

    folder = Path(sys.argv[1])
    with MPIPoolExecutor() as executor:
        infer(Ranked(), 16, executor=executor, journal=folder / "alone", n_initial=12)
        infer(Ranked(), 24, executor=executor, journal=folder / "batch", batch_size=2)
