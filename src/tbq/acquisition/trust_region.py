"""A step up from the best run, by what is known around it: how narrow curved valleys are climbed.

A surrogate of all runs has one length-scale for a prior a thousand posterior widths wide. Within a region about the
best run, a few of its widths across, log-depths are nearly quadratic: a process with a linear mean, of fixed
length-scale in units of the region, is learned from the runs nearby and believed within the region alone. The region
grows with each step that reaches its edge and finds more, and shrinks with each run within it that does not, as in
methods of optimisation that know no gradients.
"""

from __future__ import annotations

import numpy as np

from tbq.acquisition import search
from tbq.common.types import Array
from tbq.gp import regression as gps
from tbq.gp.kernels import SE
from tbq.problem.prior import Prior

_FIRST, _LEAST, _MOST = 0.5, 1e-3, 2.0  # half-widths of the region, in working coordinates
_GROWS, _SHRINKS = 1.6, 0.8
_EDGE = 0.7  # half-widths from which on a step has reached the edge
_WITHIN = 2.0  # half-widths within which a run that found less speaks against the region: its axes differ in length
_LENGTH = 3.0  # length-scale in half-widths: within the region a process is little more than a quadratic
_REACH = 8.0  # half-widths within which runs are learned from
_ABOUT = 4.0  # half-widths within which the best runs tell the region's shape
_OPTIMISM = 0.5  # standard deviations above what is expected: a direction that no run has tried is worth a step
_NOISE = 1e-6  # of the variance: keeps the factor of a smooth kernel real


def half_width(z: Array, y: Array, first: int) -> float:
    """Of the region about the best of the runs (n, d), (n,), as the runs after the ``first`` ones have made it."""
    width, best = _FIRST, int(np.argmax(y[:first]))
    for i in range(first, len(y)):
        step = float(np.linalg.norm(z[i] - z[best]))
        if y[i] > y[best]:
            best = i
            width *= _GROWS if step > _EDGE * width else 1.0
        elif step <= _WITHIN * width:
            width *= _SHRINKS
        width = min(max(width, _LEAST), _MOST)
    return width


def step_up(z: Array, y: Array, first: int, prior: Prior) -> tuple[Array, float]:
    """The most promising point (d,) of the region, and by how many nats it may exceed the best run."""
    best, width = int(np.argmax(y)), half_width(z, y, first)
    unit = width * _shape(z, y, best, width)  # (d, d), its columns the region's axes
    u = np.linalg.solve(unit, (z - z[best]).T).T
    near = _nearby(u)
    process = _process(u[near], _log_depth(y[near]))
    low, high = prior.working_bounds

    def value_at(u: Array) -> Array:
        u = u / np.maximum(np.linalg.norm(u, axis=1), 1.0)[:, None]
        inside = np.clip(z[best] + u @ unit.T, low, high)
        mean, variance = process.predict(np.linalg.solve(unit, (inside - z[best]).T).T)
        return mean + _OPTIMISM * np.sqrt(variance)

    side = np.ones(z.shape[1])
    region = search.Domain(-side, side, lambda u: prior.contains(prior.from_working(z[best] + u @ unit.T)))
    starts = [np.zeros_like(side), u[near][int(np.argsort(-y[near])[1])].clip(-1.0, 1.0)]
    ends = np.array([search.climb_from(value_at, start, region) for start in starts])
    values = value_at(ends)
    top = int(np.argmax(values))
    end = ends[top] / max(float(np.linalg.norm(ends[top])), 1.0)
    return np.clip(z[best] + unit @ end, low, high), float(values[top])


def _shape(z: Array, y: Array, best: int, width: float) -> Array:
    """Axes of unit volume, half-way between a ball's and those of the best runs nearby: a valley is long; (d, d)."""
    d = z.shape[1]
    some = np.argsort(-y)[: (d + 1) * (d + 2) // 2]
    away = z[some] - z[best]
    away = away[np.linalg.norm(away, axis=1) < _ABOUT * width]
    if len(away) <= d + 1:
        return np.eye(d)
    spread = away.T @ away
    values, vectors = np.linalg.eigh(0.5 * np.eye(d) + 0.5 * d * spread / np.trace(spread))
    return np.asarray(vectors * np.sqrt(values) / np.exp(0.5 * np.mean(np.log(values))))


def _nearby(u: Array) -> Array:
    """Which runs are learned from: twice as many of the nearest as a quadratic has coefficients, if that near."""
    d = u.shape[1]
    distance = np.linalg.norm(u, axis=1)
    nearest = np.argsort(distance)[: (d + 1) * (d + 2)]
    return nearest[(distance[nearest] < _REACH) | (np.arange(len(nearest)) < d + 2)]


def _log_depth(y: Array) -> Array:
    """Values below the best one, 0, compressed beyond their median depth."""
    depth = np.max(y) - y
    scale = max(float(np.median(depth)), 1.0)
    return -scale * np.log1p(depth / scale)


def _process(u: Array, h: Array) -> gps.GP:
    """Of values h at u, with the amplitude that makes them most probable but for the linear mean."""
    line = np.column_stack([np.ones(len(u)), u])
    kernel = np.exp(-0.5 * np.sum((u[:, None] - u) ** 2, axis=2) / _LENGTH**2) + _NOISE * np.eye(len(u))
    variance = max(float(h @ np.linalg.solve(kernel + line @ line.T, h)) / len(h), 1e-12)
    parameters = np.append(np.full(u.shape[1], np.log(_LENGTH)), 0.5 * np.log(variance))
    return gps.build(u, h, _NOISE * variance, SE, "linear", parameters)
