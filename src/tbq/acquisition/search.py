"""Maximise an acquisition function: rank a pool of candidates, then climb from the best of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import optimize
from scipy.spatial import distance

from tbq.acquisition.functions import RANKINGS, Acquisition
from tbq.common.errors import ArgumentError
from tbq.common.types import Array, BoolArray
from tbq.evidence.target import Target
from tbq.problem.prior import Prior

_EXACT = 8  # best points by a ranking, between which values decide
_SAME = 1e-6  # points this close in working coordinates are one point
_STARTS = 4  # climbs per search
_APART = 0.3  # least distance between two starts
_STEP = 1e-4  # of the central differences: values are smooth at the scale of a length-scale, far above this


@dataclass(frozen=True)
class Domain:
    """Where a run may be proposed, in working coordinates."""

    low: Array  # (d,)
    high: Array  # (d,)
    contains: Callable[[Array], BoolArray]


def domain_of(prior: Prior) -> Domain:
    """The prior's support."""
    low, high = prior.working_bounds
    return Domain(low, high, lambda z: prior.contains(prior.from_working(z)))


@dataclass(frozen=True)
class Choice:
    """A proposed point, what the acquisition function said of it, and which function it was."""

    z: Array  # (d,)
    value: float
    acquisition: str


def choose(
    named: tuple[str, Acquisition],
    target: Target,
    candidates: Array,
    known: Array,
    domain: Domain,
    *,
    climb: bool,
) -> Choice:
    """The point that an acquisition function, given with its name, makes most of."""
    name, acquisition = named
    value_at, ranking = _weighted(acquisition, target), RANKINGS.get(acquisition)
    ranked_by = None if ranking is None else _weighted(ranking, target)
    z, value = maximise(value_at, candidates, known, domain, climb=climb, ranking=ranked_by)
    return Choice(z, value, name)


def _weighted(acquisition: Acquisition, target: Target) -> Callable[[Array], Array]:
    """The acquisition function, weighted where the target says so."""
    weight = target.log_weight
    if weight is None:
        return partial(acquisition, target)
    return lambda z: _one_for_each(acquisition(target, z), len(z)) + weight(z)


def maximise(
    value_at: Callable[[Array], Array],
    candidates: Array,
    known: Array,
    domain: Domain,
    *,
    climb: bool,
    ranking: Callable[[Array], Array] | None = None,
) -> tuple[Array, float]:
    """The best new point and its acquisition value. Never a point already known, whatever the function says.

    With a ``ranking``, which is cheaper, that is climbed, and values decide between the best few by it.
    """
    rank_at = ranking or value_at
    values = _one_for_each(rank_at(candidates), len(candidates))
    values[np.isnan(values) | _is_known(candidates, known)] = -np.inf
    if not np.isfinite(np.max(values)):  # nothing to tell candidates apart: fill the largest hole
        gaps = distance.cdist(candidates, known).min(axis=1) if len(known) else np.ones(len(candidates))
        return candidates[int(np.argmax(gaps))], -np.inf
    starts = _starts(candidates, values) if climb else []
    if ranking is not None:
        order = [i for i in np.argsort(-values)[:_EXACT] if np.isfinite(values[i])]
        candidates, values = candidates[order], value_at(candidates[order])
    best = int(np.argmax(values))
    winner, top = candidates[best], float(values[best])
    for start in starts:
        z = climb_from(rank_at, start, domain)
        value = float(value_at(z[None, :])[0])
        if value > top and domain.contains(z[None, :])[0] and not _is_known(z[None, :], known)[0]:
            winner, top = z, value
    return winner, top


def _one_for_each(values: Any, n: int) -> Array:
    """What an acquisition function, which may be the user's, said of ``n`` points."""
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise ArgumentError(f"acquisition must return numbers; got {type(values).__name__}") from None
    if array.shape != (n,):
        raise ArgumentError(f"acquisition must return one number for each of the {n} points; got shape {array.shape}")
    return array


def _is_known(z: Array, known: Array) -> BoolArray:
    if len(known) == 0:
        return np.zeros(len(z), dtype=bool)
    return distance.cdist(z, known).min(axis=1) < _SAME


def _starts(candidates: Array, values: Array) -> list[Array]:
    """The best few candidates that are not neighbours of a better one."""
    chosen: list[Array] = []
    for i in np.argsort(-values)[: 50 * _STARTS]:
        if not np.isfinite(values[i]) or len(chosen) == _STARTS:
            break
        if all(np.linalg.norm(candidates[i] - other) > _APART for other in chosen):
            chosen.append(candidates[i])
    return chosen


def climb_from(value_at: Callable[[Array], Array], start: Array, domain: Domain, steps: int = 25) -> Array:
    """Local maximum near ``start`` by L-BFGS-B; one vectorised call gives the value and its differences."""
    d = len(start)
    around = _STEP * np.vstack([np.zeros(d), np.eye(d), -np.eye(d)])

    def objective(z: Array) -> tuple[float, Array]:
        v = value_at(np.clip(z + around, domain.low, domain.high))
        v = np.where(np.isfinite(v), v, v[0] if np.isfinite(v[0]) else -1e10)
        return -float(v[0]), -(v[1 : d + 1] - v[d + 1 :]) / (2.0 * _STEP)

    bounds = list(zip(domain.low, domain.high, strict=True))
    found = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps})
    return np.asarray(found.x)
