"""Runs that found far more than all others let expect: the foot of a mode that no population has seen, climbed at once.

A surrogate that is sure of one mode passes through such a run and believes nothing else there. A few runs tell the
slope at it; two more go up along that slope, first as far as the height of the best run would be, then to the vertex
of the parabola that these make. From there the ordinary search goes on, or the next such climb.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tbq.common.types import Array
from tbq.engine.state import State
from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.prior import Prior
from tbq.surrogate.protocol import Surrogate

_STEP = 0.03  # of the differences, in working coordinates
_LONGEST = 4.0  # times the first step up the slope that the second may be


@dataclass(frozen=True)
class Ascent:
    """Runs around one that surprised, and up from it."""

    base: int  # its id
    points: Array  # (n, d) in working coordinates, in the order in which they are run


def surprised(state: State, surrogate: Surrogate[Any]) -> State:
    """With ``doubt`` at the next point of a climb from a run that surprised; without one where there is none."""
    ascent, z, good = state.ascent, *_successful(state)
    if ascent is None:
        base = _most_surprising(state, surrogate, z, good)
        if base is None:
            return state
        ascent = Ascent(good[base].id, _around(z[base], state.prior))
    values = _values(state, ascent)
    if len(values) == len(ascent.points):
        start = next((i for i, e in enumerate(good) if e.id == ascent.base), None)
        y = [e.log_likelihood for e in good]
        further = None if start is None else _further(ascent, values, z[start], y, start, state.prior)
        if further is None:
            made = _ids(state, ascent)
            return surprised(replace(state, ascent=None, climbed=(*state.climbed, ascent.base, *made)), surrogate)
        ascent = replace(ascent, points=np.vstack([ascent.points, further]))
    begun = state.ascents + (state.ascent is None)
    return replace(state, ascent=ascent, ascents=begun, doubt=ascent.points[len(values)])


def _successful(state: State) -> tuple[Array, list[Evaluation]]:
    good = [e for e in state.evaluations if e.status is Status.OK]
    return state.prior.to_working(np.array([e.theta for e in good])), good


def _most_surprising(state: State, surrogate: Surrogate[Any], z: Array, good: list[Evaluation]) -> int | None:
    """The row of the run that is most standard deviations above what all others let expect, where it is too many."""
    tuning, left_out = state.settings.tuning, surrogate.left_out(z)
    if left_out is None or state.ascents >= tuning.most_ascents:
        return None
    y = np.array([e.log_likelihood for e in good])
    above = y - left_out[0]
    deviations = above / np.sqrt(left_out[1])
    counts = (above > tuning.surprise) & (np.max(y) - y < tuning.surprise_depth)
    counts &= ~np.isin([e.id for e in good], state.climbed)
    deviations[~counts] = -np.inf
    row = int(np.argmax(deviations))
    return row if deviations[row] > tuning.surprise_sd else None


def _around(z: Array, prior: Prior) -> Array:
    """A small step along each coordinate, to the side on which the prior's support is."""
    steps = _STEP * np.eye(len(z))
    forward = prior.contains(prior.from_working(z + steps))
    return z + np.where(forward[:, None], steps, -steps)


def _values(state: State, ascent: Ascent) -> list[float]:
    """What its points that were run returned, in their order; −inf where they did not succeed."""
    values: list[float] = []
    for theta in _thetas(ascent.points, state.prior):
        found = [e for e in state.evaluations if np.array_equal(e.theta, theta)]
        if not found:
            break
        values.append(found[-1].log_likelihood if found[-1].status is Status.OK else -np.inf)
    return values


def _ids(state: State, ascent: Ascent) -> list[int]:
    """Of the runs around the base: they are as deep as it is, and need no climb of their own."""
    thetas = _thetas(ascent.points[: state.prior.dim], state.prior)
    return [e.id for e in state.evaluations if any(np.array_equal(e.theta, theta) for theta in thetas)]


def _thetas(points: Array, prior: Prior) -> list[Array]:
    """One by one, as they are proposed: a product of matrices rounds otherwise than its rows do."""
    return [prior.from_working(z[None, :])[0] for z in points]


def _further(ascent: Ascent, values: list[float], z: Array, y: list[float], start: int, prior: Prior) -> Array | None:
    """The next point up the slope; None at the end of the climb."""
    d, base = len(z), y[start]
    offsets = (ascent.points[:d] - z).sum(axis=1)
    slope = (np.array(values[:d]) - base) / offsets
    slope = np.where(np.isfinite(slope), slope, 0.0)
    steepness = float(np.linalg.norm(slope))
    if len(values) > d + 1 or steepness == 0.0:
        return None
    upward = slope / steepness
    if len(values) == d:
        length = 2.0 * max(max(y) - base, 1.0) / steepness
    else:
        first = float(np.linalg.norm(ascent.points[d] - z))
        bend = (steepness * first - (values[d] - base)) / first**2  # half the curvature
        if not np.isfinite(bend):
            return None
        length = 0.5 * steepness / bend if bend > 0.0 else _LONGEST * first
        length = min(length, _LONGEST * first)
    return _inside(z, upward, length, prior)


def _inside(z: Array, upward: Array, length: float, prior: Prior) -> Array | None:
    """So far along the slope, or as far as the prior's support reaches."""
    for _ in range(20):
        point = z + length * upward
        if prior.contains(prior.from_working(point[None, :]))[0]:
            return point
        length *= 0.7
    return None
