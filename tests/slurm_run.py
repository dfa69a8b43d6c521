"""A run on Slurm jobs: python slurm_run.py FOLDER NUMBER_OF_RUNS; every call leaves a line in FOLDER/calls."""

import os
import sys
import time
from pathlib import Path

from likelihoods import log_likelihood


class Noted:
    """Notes its theta and the job that it is in, when it begins."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, theta):
        with (self.folder / "calls").open("a") as file:
            file.write(f"{theta[0]!r} {os.environ['SLURM_JOB_ID']}\n")
        time.sleep(0.4)
        return log_likelihood(theta)


if __name__ == "__main__":
    import dask
    from driving import infer

    from tbq import clusters

    dask.config.set({"distributed.deploy.lost-worker-timeout": "2s"})
    folder = Path(sys.argv[1])
    make = clusters.slurm(2, walltime="00:10:00", memory="1GB", prelude=["export TBQ_TEST=1"], logs=folder / "logs")
    infer(Noted(folder), int(sys.argv[2]), executor=make, batch_size=2, journal=folder / "run")
