"""Hyperparameters of many Gaussian processes at once: the best ones, and draws of others that the data make plausible.

All processes are searched side by side by the method of Broyden, Fletcher, Goldfarb and Shanno, each by steps of its
own; a step of all of them is one evaluation. What a search saw of the curvature starts the next one, which then needs
few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from tbq.common.types import Array, BoolArray, IntArray
from tbq.gp import fitting
from tbq.gp.batch import Batch, build
from tbq.gp.fitting import ASKEW, DIFFERENCE, ENOUGH, MOST_FITTED
from tbq.gp.kernels import ArdKernel, HyperPrior, Kernel
from tbq.gp.regression import NUGGET, Basis
from tbq.gp.values import Values, factorise

_MOST_STEPS = 60  # of a search
_SHORTER = 0.3  # factor of a step that did not go up
_MOST_TRIALS = 8  # of lengths of a step
_FIRST_STEP, _LARGEST_STEP = 0.5, 2.0  # change of a logarithm, before and after the curvature was seen
_ARMIJO = 1e-4  # part of the gain promised by the slope that a step must have


class End(NamedTuple):
    """Where the search of one process ended, to start another from."""

    parameters: Array  # (p,)
    inverse: Array  # (p, p) inverse of the negative Hessian of the score, as the search saw it


class Posterior(Protocol):
    """What a search asks of hyperparameters' log-posteriors, one for each of K processes."""

    @property
    def prior(self) -> HyperPrior:
        """Fields of shape (K, p)."""

    def at(self, parameters: Array, which: IntArray) -> tuple[Array, Array]:
        """Scores (M,) and gradients (M, p) at hyperparameters of processes ``which``."""


@dataclass(frozen=True)
class Scores:
    """Log marginal likelihood times prior of the hyperparameters, of K processes on the same points."""

    values: Values
    kernel: Kernel

    @cached_property
    def prior(self) -> HyperPrior:
        return self.values.hyperprior(self.kernel)

    @cached_property
    def _pairs(self) -> tuple[IntArray, Array]:
        return pairs_of(self.values.x[:, : self.values.dim])

    def at(self, parameters: Array, which: IntArray) -> tuple[Array, Array]:
        """Scores (M,) and gradients (M, p) at hyperparameters of processes ``which``; −inf where there is no factor."""
        values, prior = self.values.take(which), _taken(self.prior, which)
        off = (parameters - prior.mean) / prior.sd
        if isinstance(self.kernel, ArdKernel):
            score, slope, ok = self._ard(self.kernel, values, parameters)
        else:
            score, slope, ok = self._any(values, parameters)
        score = np.where(ok, score - 0.5 * np.sum(off**2, axis=1), -np.inf)
        return score, np.where(ok[:, None], slope - off / prior.sd, 0.0)

    def _ard(self, kernel: ArdKernel, values: Values, parameters: Array) -> tuple[Array, Array, BoolArray]:
        """All kernels by one product with the squared distances, of each pair of points once."""
        size, n = len(parameters), len(values.x)
        place, distances = self._pairs
        inverse, variance = np.exp(-2.0 * parameters[:, :-1]), np.exp(2.0 * parameters[:, -1])
        profile, slope = kernel.profile_and_slope(inverse @ distances)
        covariances = np.zeros((size, n, n))
        covariances.reshape(size, n * n)[:, place] = variance[:, None] * profile
        np.einsum("kii->ki", covariances)[...] = variance[:, None]
        factors, score, ok = factorise(values, covariances, variance)
        weights = _weights(factors.inverse, factors.projected, factors.alpha)
        of_pairs = weights.reshape(size, n * n)[:, place]
        of_amplitude = 2.0 * np.einsum("kp,kp->k", of_pairs, profile) + (1.0 + NUGGET) * np.einsum("kii->k", weights)
        of_pairs *= slope
        of_lengths = (of_pairs @ distances.T) * inverse
        return score, variance[:, None] * np.column_stack([of_lengths, of_amplitude]), ok

    def _any(self, values: Values, parameters: Array) -> tuple[Array, Array, BoolArray]:
        """Kernel by kernel, for those that have no profile."""
        grams = [self.kernel.gram(values.x)(p) for p in parameters]
        variance = np.array([self.kernel.diagonal(p, values.x[:1])[0] for p in parameters])
        factors, score, ok = factorise(values, np.stack([np.triu(k) for k, _ in grams]), variance)
        weights = _weights(factors.inverse, factors.projected, factors.alpha)
        slopes = []
        for w, (_, contract) in zip(weights, grams, strict=True):
            upper = 2.0 * np.triu(w, 1) + (1.0 + NUGGET) * np.diag(np.diag(w))
            slopes.append(0.5 * contract(upper))
        return score, np.array(slopes), ok


def pairs_of(x: Array) -> tuple[IntArray, Array]:
    """Where pairs of points are in the flattened upper triangle, and their squared distances (d, pairs)."""
    i, j = np.triu_indices(len(x), 1)
    return i * len(x) + j, np.ascontiguousarray(((x[i] - x[j]) ** 2).T)


def _weights(inverse: Array, projected: Array, alpha: Array) -> Array:
    """ααᵀ − K⁻¹ + PᵀP, (K, n, n): twice the derivative of a score in the elements of its covariance."""
    weights = np.swapaxes(projected, 1, 2) @ projected
    weights -= np.swapaxes(inverse, 1, 2) @ inverse
    weights += alpha[:, :, None] * alpha[:, None, :]
    return weights


def fit(values: Values, kernel: Kernel, warm: Sequence[End | None]) -> tuple[Batch, list[End]]:
    """The processes whose hyperparameters maximise marginal likelihood times prior, and where the searches ended.

    Each starts where an earlier one ended, or at the prior's centre. Of more than ``MOST_FITTED`` points they see a
    part, evenly taken.
    """
    if not isinstance(kernel, ArdKernel):
        return _one_by_one(values, kernel, warm)
    scores = Scores(values.some(-(-len(values.x) // MOST_FITTED)), kernel)
    prior, known = scores.prior, np.array([w is not None for w in warm])
    at = prior.mean.copy()
    inverse = np.minimum(prior.sd**2, 1.0)[:, :, None] * np.eye(at.shape[1])
    for k, end in enumerate(warm):
        if end is not None:
            at[k], inverse[k] = end
    at, value = _maximise(scores, at, inverse, known)
    if known.any() and not np.isfinite(value).all():  # what was fitted to fewer points leads nowhere
        return fit(values, kernel, [None] * len(warm))
    return build(values, kernel, at), [End(*end) for end in zip(at, inverse, strict=True)]


def _one_by_one(values: Values, kernel: Kernel, warm: Sequence[End | None]) -> tuple[Batch, list[End]]:
    """The same for a kernel of many hyperparameters, whose curvature is too large to be learned."""
    found = []
    for k, seen in enumerate(values.seen):
        basis: Basis = "linear" if values.linear[k] else "constant"
        data, end = (values.x[seen], values.y[k, seen], values.noise[k, seen]), warm[k]
        start = None if end is None else end.parameters
        found.append(fitting.fit(*data, kernel, basis, start, cold=end is None).parameters)
    return build(values, kernel, np.array(found)), [End(p, np.empty((0, 0))) for p in found]


def _maximise(scores: Scores, start: Array, inverse: Array, known: BoolArray) -> tuple[Array, Array]:
    """The maximum of each score near its start, and the scores there; each search ends by itself.

    ``inverse`` has the inverse Hessians that are ``known``, and is updated by what is seen of them.
    """
    at = np.clip(start, scores.prior.low, scores.prior.high)
    value, slope = scores.at(at, np.arange(len(at)))
    seen, active = known.copy(), np.isfinite(value)
    for _ in range(_MOST_STEPS):
        who = np.flatnonzero(active)
        if len(who) == 0:
            break
        step = (inverse[who] @ slope[who][:, :, None])[:, :, 0]
        largest = np.where(seen[who], _LARGEST_STEP, _FIRST_STEP) / np.maximum(np.max(np.abs(step), axis=1), 1e-12)
        step *= np.minimum(1.0, largest)[:, None]
        there, better, steeper = _line_search(scores, who, at[who], step, value[who], slope[who])
        moved, bent = there - at[who], slope[who] - steeper
        _learn_curvature(inverse, seen, who, moved, bent)
        gain = better - value[who]
        at[who], value[who], slope[who] = there, better, steeper
        active[who[gain <= ENOUGH * np.maximum(np.abs(better), 1.0)]] = False
    return at, value


def _line_search(
    scores: Scores, who: IntArray, at: Array, step: Array, value: Array, slope: Array
) -> tuple[Array, Array, Array]:
    """Points on the way of each step that are higher, with scores and slopes; the start where there is none."""
    low, high = scores.prior.low[who], scores.prior.high[who]
    there, better, steeper = at.copy(), value.copy(), slope.copy()
    length, left = 1.0, np.arange(len(who))
    for _ in range(_MOST_TRIALS):
        trial = np.clip(at[left] + length * step[left], low[left], high[left])
        found, gradient = scores.at(trial, who[left])
        promised = np.sum(slope[left] * (trial - at[left]), axis=1)
        good = found >= value[left] + _ARMIJO * promised
        done = left[good]
        there[done], better[done], steeper[done] = trial[good], found[good], gradient[good]
        left = left[~good]
        if len(left) == 0:
            break
        length *= _SHORTER
    return there, better, steeper


def _learn_curvature(inverse: Array, seen: BoolArray, who: IntArray, moved: Array, bent: Array) -> None:
    """Update inverse Hessians by what steps showed of the slope's change; in place."""
    product = np.sum(moved * bent, axis=1)
    use = product > 1e-10 * np.sum(moved**2, axis=1)
    index, s, y, sy = who[use], moved[use], bent[use], product[use]
    first = ~seen[index]
    if first.any():  # of a search that knew nothing: the right size before the first update
        size = sy[first] / np.sum(y[first] ** 2, axis=1)
        inverse[index[first]] = size[:, None, None] * np.eye(s.shape[1])
        seen[index] = True
    turned = (inverse[index] @ y[:, :, None])[:, :, 0]
    grown = (sy + np.sum(y * turned, axis=1)) / sy**2
    cross = turned[:, :, None] * s[:, None, :] / sy[:, None, None]
    inverse[index] += grown[:, None, None] * s[:, :, None] * s[:, None, :] - cross - np.swapaxes(cross, 1, 2)


def hyperparameter_draws(batch: Batch, n: int, rng: np.random.Generator) -> Iterator[Batch]:
    """All processes at ``n`` draws from normal approximations of their hyperparameters' posteriors (Laplace)."""
    scores = Scores(batch.values.some(-(-len(batch.x) // MOST_FITTED)), batch.kernel)
    for drawn in laplace_draws(scores, batch.parameters, n, rng):
        yield build(batch.values, batch.kernel, drawn)


def laplace_draws(scores: Posterior, at: Array, n: int, rng: np.random.Generator) -> Iterator[Array]:
    """Draws of the hyperparameters (K, p) around the maxima of their log-posteriors."""
    prior, every = scores.prior, np.arange(len(at))
    here, slope = scores.at(at, every)
    steps = DIFFERENCE * np.eye(at.shape[1])
    hessian = np.stack([(slope - scores.at(at + step, every)[1]) / DIFFERENCE for step in steps], axis=1)
    values, vectors = np.linalg.eigh(0.5 * (hessian + np.swapaxes(hessian, 1, 2)))
    widest = np.max(prior.sd, axis=1, keepdims=True)  # never wider than the prior
    widths = 1.0 / np.sqrt(np.maximum(values, 1.0 / widest**2))
    for _ in range(n):
        draw = rng.standard_normal(at.shape)
        step = (vectors @ (widths * draw)[:, :, None])[:, :, 0]
        drawn, left = at.copy(), every
        for fraction in (1.0, 0.5, 0.25):  # less of a step that is worse than that of a normal would be
            trial = np.clip(at[left] + fraction * step[left], prior.low[left], prior.high[left])
            allowed = 0.5 * fraction**2 * np.sum(draw[left] ** 2, axis=1) + ASKEW
            good = here[left] - scores.at(trial, left)[0] < allowed
            drawn[left[good]] = trial[good]
            left = left[~good]
            if len(left) == 0:
                break
        yield drawn


def _taken(prior: HyperPrior, index: IntArray) -> HyperPrior:
    return HyperPrior(prior.mean[index], prior.sd[index], prior.low[index], prior.high[index])
