"""A decay that was measured, a coarse model of it, and its evidence by brute force: for tests of levels."""

import os
import time

import numpy as np
from scipy import stats

import tbq

PRIOR = tbq.Prior({"a": stats.uniform(0.2, 2.8), "k": stats.uniform(0.1, 2.9)})
TIMES = np.linspace(0.25, 5.0, 12)
OPTIONS = {"seed": 1, "progress": False, "population": 512}
TRUE = np.array([1.3, 0.8])


def one(theta):
    return theta[0] * np.exp(-theta[1] * TIMES)


def fine(theta):
    return theta[..., 0, None] * np.exp(-theta[..., 1, None] * TIMES) if theta.ndim > 1 else one(theta)


def coarse(theta):
    """A step of a quarter by Euler's implicit method."""
    return theta[..., 0, None] * (1.0 + 0.25 * theta[..., 1, None]) ** (-TIMES / 0.25) + 0.02


def plain_coarse(theta):
    return coarse(theta[None, :])[0]


DATA = one(TRUE) + 0.05 * np.random.default_rng(1).standard_normal(12)


def grid(n=700):
    """Points of the prior's box, (n², 2), and the logarithm of the weight of each."""
    a, k = np.linspace(0.2, 3.0, n), np.linspace(0.1, 3.0, n)
    ends = np.ones(n)
    ends[[0, -1]] = 0.5
    weights = np.outer(ends, ends) / (n - 1) ** 2
    return np.array(np.meshgrid(a, k, indexing="ij")).reshape(2, -1).T, np.log(weights.ravel())


def exact(data=DATA, sd=0.05):
    """log Z by a grid, of what was measured of the decay at TIMES."""
    theta, log_weights = grid()
    seen = np.isfinite(data)
    misfit = np.sum(((fine(theta) - data)[:, seen] / sd) ** 2, axis=1)
    log_terms = -0.5 * misfit + log_weights
    top = log_terms.max()
    return top + np.log(np.sum(np.exp(log_terms - top))) - seen.sum() * np.log(sd * np.sqrt(2.0 * np.pi))


def likelihood(below=plain_coarse, cost=0.02, model=one, noise=0.05, data=DATA, **options):
    return tbq.GaussianLikelihood(model, data, noise, coarse=below, cost=cost, **options)


def ids(result):
    return [(e.id, e.level, *e.theta) for e in (*result.evaluations, *result.coarse)]


def right(result, truth=None):
    """Whether a run has converged to the evidence."""
    truth = exact() if truth is None else truth
    return result.converged and abs(result.log_evidence - truth) < 3.0 * result.log_evidence_sd


class Slow:
    """A coarse model that hangs where the decay is fast; it can be sent to other processes."""

    def __call__(self, theta):
        if theta[1] > 2.0:
            time.sleep(60.0)
        return plain_coarse(theta)


class Moody:
    """A model that fails as many times at each point, and counts its calls in files."""

    def __init__(self, folder, times, model):
        self.folder, self.times, self.model = folder, times, model

    def __call__(self, theta):
        path = self.folder / np.asarray(theta).tobytes().hex()
        with path.open("a") as file:
            file.write("x")
        if path.stat().st_size <= self.times:
            raise ValueError("not today")
        return self.model(theta)

    def calls(self, theta):
        return (self.folder / np.asarray(theta).tobytes().hex()).stat().st_size


class Killing:
    """A coarse model that ends its process where the decay is fast."""

    def __call__(self, theta):
        if theta[1] > 2.0:
            os._exit(3)
        return plain_coarse(theta)
