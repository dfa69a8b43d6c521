"""A quick run, for tests of what runs it: processes load this module again and again."""

import numpy as np
from scipy import stats

import tbq

PRIOR = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.norm(0, 1)})
QUICK = {"algorithm": "bq", "kernel": "se", "search": "pool", "population": 256, "tolerance": 1e-3, "seed": 5}


def infer(f, n=14, **options):
    return tbq.infer(f, PRIOR, **{**QUICK, "max_evaluations": n, **options})


def thetas(run):
    return np.array([e.theta for e in run.evaluations])


def statuses(result):
    return [e.status for e in result.evaluations]
