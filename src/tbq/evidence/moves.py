"""Populations of points: Metropolis–Hastings moves of all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from tbq.common.types import Array

_WANTED_ACCEPTANCE = 0.25
_STUCK = 0.05  # fraction of chains that may still stand where they started
_PATIENCE = 4  # times the chain length that are spent on stuck populations before they are let be


@dataclass(frozen=True)
class Moved:
    """A population after its moves."""

    z: Array  # (n, d)
    log_likelihood: Array  # (n,)
    acceptance: float
    unique: float  # fraction of chains that moved at least once


def move(
    z: Array,
    log_likelihood: Callable[[Array], Array],
    log_prior: Callable[[Array], Array],
    steps: int,
    rng: np.random.Generator,
    known: Array | None = None,
) -> Moved:
    """Advance one chain per row of ``z`` towards the density likelihood × prior.

    ``known`` are log-likelihoods at the start, where these have been taken.

    Odd steps are random walks with the population's covariance and a random scale; even steps add the difference of
    two members of the starting population, which finds the way along ridges and between modes. Both proposals are
    symmetric, and their common scale follows the acceptance. A population of which more than 5 % never moved is
    given more steps, up to four times as many.
    """
    n, d = z.shape
    start = z
    factor = linalg.cholesky(np.atleast_2d(np.cov(z.T)) + 1e-12 * np.eye(d), lower=True)
    value, prior = log_likelihood(z) if known is None else known, log_prior(z)
    moved = np.zeros(n, dtype=bool)
    accepted, scale, step = 0.0, 1.0, 0
    while step < steps or (np.mean(~moved) > _STUCK and step < _PATIENCE * steps):
        proposal = z + scale * _shift(start, factor, step % 2 == 1, rng)
        proposed, proposed_prior = np.full(n, -np.inf), log_prior(proposal)
        inside = np.isfinite(proposed_prior)
        if inside.any():
            proposed[inside] = log_likelihood(proposal[inside])
        with np.errstate(invalid="ignore"):
            take = np.log(rng.random(n)) < (proposed + proposed_prior) - (value + prior)
        z = np.where(take[:, None], proposal, z)
        value, prior = np.where(take, proposed, value), np.where(take, proposed_prior, prior)
        moved |= take
        rate = float(take.mean())
        scale *= float(np.exp(0.5 * (rate - _WANTED_ACCEPTANCE)))
        accepted += rate
        step += 1
    return Moved(z, value, accepted / max(step, 1), float(moved.mean()) if steps else 1.0)


def _shift(start: Array, factor: Array, differences: bool, rng: np.random.Generator) -> Array:
    n, d = start.shape
    length = 2.38 / np.sqrt(d) * np.exp(rng.normal(-0.7, 0.7, (n, 1)))
    jitter = rng.standard_normal((n, d)) @ factor.T
    if not differences:
        return length * jitter
    i, j = rng.integers(0, n, (2, n))
    return length / np.sqrt(2.0) * (start[i] - start[j]) + 1e-3 * jitter
