"""Populations of points: Metropolis–Hastings moves of all of them at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

from tbq.types import Array


def move(
    z: Array, log_target: Callable[[Array], Array], steps: int, rng: np.random.Generator
) -> tuple[Array, Array, float]:
    """Advance one chain per row of ``z`` towards ``log_target``; returns points, log-targets and acceptance.

    Odd steps are random walks with the population's covariance and a random scale; even steps add the difference
    of two members of the starting population, which finds the way along ridges and between modes. Both proposals
    are symmetric. Needs a population of at least d + 1 distinct points.
    """
    n, d = z.shape
    reference = z
    covariance = np.atleast_2d(np.cov(z.T)) + 1e-12 * np.eye(d)
    factor = linalg.cholesky(covariance, lower=True)
    value = log_target(z)
    accepted = 0.0
    for step in range(steps):
        scale = 2.38 / np.sqrt(d) * np.exp(rng.normal(-0.7, 0.7, (n, 1)))
        jitter = rng.standard_normal((n, d)) @ factor.T
        if step % 2:
            i, j = rng.integers(0, n, (2, n))
            shift = scale / np.sqrt(2.0) * (reference[i] - reference[j]) + 1e-3 * jitter
        else:
            shift = scale * jitter
        proposal = z + shift
        proposed = log_target(proposal)
        take = np.log(rng.random(n)) < proposed - value
        z, value = np.where(take[:, None], proposal, z), np.where(take, proposed, value)
        accepted += float(take.mean())
    return z, value, accepted / max(steps, 1)
