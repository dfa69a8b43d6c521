"""Densities of draws on grids, and the smallest regions that hold a given fraction of them.

A kernel estimate whose kernels are as wide as the piece of the posterior that they stand in: narrow modes beside wide
ones stay narrow. At the prior's ends draws are mirrored, so that a density that leans against an end does not fall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.spatial import distance

from tbq.common.types import Array, IntArray

_PIECES = 4  # that a cluster of draws is cut into in the plane, so that kernels follow a bent ridge
_CUT = 0.36  # of the variance of a normal cloud is left in its pieces: this much kernels are given back
_FEWEST = 20  # draws of a piece that has kernels of its own
_SEEN = 5.0  # kernel widths beyond which a kernel is nothing
_AT_ONCE = 2**20  # elements computed at once


class Piece(NamedTuple):
    """Draws that share a kernel."""

    rows: IntArray
    width: float  # of the kernel, in standard deviations of the piece


def pieces(draws: Array, clusters: IntArray) -> list[Piece]:
    """What draws (n, k) are made of: their clusters, and in the plane parts of these. Widths are Scott's."""
    found = []
    for own in np.unique(clusters):
        rows = np.flatnonzero(clusters == own)
        width = len(rows) ** (-1.0 / (draws.shape[1] + 4))
        spread = draws[rows].std(axis=0)
        if draws.shape[1] == 1 or len(rows) < 2 * _PIECES * _FEWEST or not np.all(spread > 0.0):
            found.append(Piece(rows, width))
            continue
        _, labels = kmeans2(draws[rows] / spread, _PIECES, minit="++", rng=np.random.default_rng(0))
        large = [rows[labels == k] for k in range(_PIECES) if np.sum(labels == k) >= _FEWEST]
        small = rows[~np.isin(rows, np.concatenate(large))]
        large[-1] = np.concatenate([large[-1], small])
        found += [Piece(part, width / np.sqrt(_CUT)) for part in large]
    return found


def unit(draws: Array) -> Array:
    """The range of each column: what a density is estimated in, so that squares of any scale are numbers."""
    found = np.ptp(draws, axis=0)
    return np.where(found > 0.0, found, 1.0)


def estimate(at: Array, draws: Array, clusters: IntArray, low: Array, high: Array) -> Array:
    """Density of draws (n, k) per :func:`unit` at the rows of ``at``, zero outside the box from ``low`` to ``high``."""
    origin, scale = np.median(draws, axis=0), unit(draws)
    at, draws, low, high = ((a - origin) / scale for a in (at, draws, low, high))
    total = np.zeros(len(at))
    for rows, width in pieces(draws, clusters):
        own = draws[rows]
        floor = 1e-12 * np.eye(draws.shape[1])  # of equal draws, which have no spread
        covariance = floor + (width**2 * np.cov(own.T) if len(own) > 1 else 0.0)
        sd = np.sqrt(np.diag(covariance))
        mirrored = _mirrored(own, _SEEN * sd, low, high)
        near = np.flatnonzero(np.all((at > mirrored.min(0) - _SEEN * sd) & (at < mirrored.max(0) + _SEEN * sd), axis=1))
        inverse = np.linalg.inv(np.linalg.cholesky(covariance))
        points, centres = at[near] @ inverse.T, mirrored @ inverse.T
        block = max(_AT_ONCE // len(centres), 1)
        for i in range(0, len(near), block):
            squared = distance.cdist(points[i : i + block], centres, "sqeuclidean")
            total[near[i : i + block]] += np.exp(-0.5 * squared).sum(axis=1) * np.prod(np.diag(inverse))
    inside = np.all((at >= low) & (at <= high), axis=1)
    return np.where(inside, total, 0.0) / (len(draws) * (2.0 * np.pi) ** (draws.shape[1] / 2.0))


def _mirrored(draws: Array, near: Array, low: Array, high: Array) -> Array:
    """The draws and the images of those near an end of the box."""
    for i in range(draws.shape[1]):
        images = [draws]
        for end in (low[i], high[i]):
            if np.isfinite(end):
                close = draws[np.abs(draws[:, i] - end) < near[i]].copy()
                close[:, i] = 2.0 * end - close[:, i]
                images.append(close)
        draws = np.vstack(images)
    return draws


def levels(density: Array, areas: Array, fractions: tuple[float, ...]) -> list[float]:
    """Densities above which the given fractions of the mass lie, of values and areas of cells."""
    order = np.argsort(density, axis=None)[::-1]
    mass = np.cumsum((density * areas).ravel()[order])
    return [float(density.ravel()[order][np.searchsorted(mass, f * mass[-1])]) for f in fractions]


def cells(x: Array) -> Array:
    """The width that each point of a grid stands for."""
    return np.gradient(x) if len(x) > 1 else np.ones(1)
