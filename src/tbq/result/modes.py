"""Modes: the separate pieces of the posterior, each with its mass.

Draws climb a graph of neighbours to its peaks, and these climb the surrogate's density to its maxima. Two maxima are
one mode unless the density falls below e⁻² of the lower one on every path between them that was tried: the straight
one, the best through draws, and that one pushed uphill. Two normal densities of equal mass are told apart from some
four standard deviations on. No run is spent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize, sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from tbq.common.types import Array, IntArray
from tbq.evidence.moments import mean_and_sd
from tbq.problem.evaluation import Evaluation, Status

if TYPE_CHECKING:
    from tbq.result.result import Result

LogDensity = Callable[[Array], Array]  # of θ, at rows of working coordinates

_DEPTH = 2.0  # nats by which the density between two modes falls below the lower maximum
_LEAST_MASS = 0.01  # of a mode: less is counted to its nearest neighbour
_BEYOND = 1e9  # standard deviations from all draws: where a stored run lies that the prior could not have made
_MOST_DRAWS = 1500  # that climb; the others follow the nearest of them
_NEIGHBOURS = 12
_MOST_PEAKS = 16  # of the graph, the largest, that are climbed from
_STEPS = 15  # of such a climb: it need not arrive, only leave the noise of the draws behind
_STEP = 1e-4  # of differences, in working coordinates
_REFUSED = 1e25  # outside the prior
_PATH = 15  # points
_PUSHES = 30  # of a path uphill
_FAR = 10.0  # nats below its maximum from which on a run is not one of the mode's


@dataclass(frozen=True)
class Mode:
    """One piece of the posterior."""

    mass: float  # fraction of the posterior
    mass_sd: float  # as so many draws know it; what the surrogate does not know is not in it
    centre: Array  # (d,) mean of its draws
    width: Array  # (d,) their standard deviations
    peak: Array  # (d,) where the density is highest
    best_run: Evaluation | None  # of highest posterior density; None where no run came near
    rows: IntArray  # of ``result.samples`` that belong to it

    def __repr__(self) -> str:
        where = ", ".join(f"{c:.4g} ± {w:.2g}" for c, w in zip(self.centre, self.width, strict=True))
        best = "no run near" if self.best_run is None else f"best run {self.best_run.id}"
        return f"<Mode: {100 * self.mass:.0f} % of the posterior at ({where}); {best}>"


def find(result: Result) -> tuple[Mode, ...]:
    """The modes of a result, the heaviest first; none where nothing was learned."""
    if result.surrogate is None or len(result.samples) == 0:
        return ()
    density = log_density(result)
    z = result.prior.to_working(result.samples)
    chosen = np.unique(np.linspace(0, len(z) - 1, min(len(z), _MOST_DRAWS)).astype(int))
    unit = _unit(z)
    labels = _labels(z[chosen], unit, density, _limits(result))
    nearest = cKDTree(z[chosen] / unit)
    everywhere = labels[nearest.query(z / unit)[1]]
    runs = [e for e in result.evaluations if e.status is Status.OK]
    simulated = result.prior.simulated  # runs have no noise parameters: the nearest draw lends them its own
    theta, d = np.array([e.theta for e in runs]).reshape(-1, simulated.dim), simulated.dim
    at = np.nan_to_num(simulated.to_working(theta) / unit[:d], nan=_BEYOND, posinf=_BEYOND, neginf=-_BEYOND)
    of_run = labels[cKDTree(z[chosen, :d] / unit[:d]).query(at)[1]]
    modes = []
    for own in np.unique(labels):
        mine = [e for e, other in zip(runs, of_run, strict=True) if other == own]
        modes.append(_mode(result, density, np.flatnonzero(everywhere == own), mine))
    return tuple(sorted(modes, key=lambda m: -m.mass))


def log_density(result: Result) -> LogDensity:
    """Log of the posterior density of θ, not normalised, as a function of working coordinates."""
    surrogate, prior = result.surrogate, result.prior
    assert surrogate is not None

    def at(z: Array) -> Array:
        value = prior.log_density(prior.from_working(z))
        inside = np.isfinite(value)
        if inside.any():
            value[inside] += surrogate.log_mean(surrogate.at(z[inside]), 1.0)
        return np.where(inside, value, -_REFUSED)

    return at


def climb(density: LogDensity, start: Array, limits: list[tuple[float, float]], steps: int = 15_000) -> Array:
    """The maximum above ``start``, or ``start`` where none is found; or what so many steps lead to."""

    def descent(z: Array) -> tuple[float, Array]:
        value, slope = _slopes(density, z[None, :])
        return -value[0], -slope[0]

    climbed = optimize.minimize(
        descent, start, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": steps}
    ).x
    return max(start, climbed, key=lambda point: float(density(point[None, :])[0]))


def maximum(result: Result) -> Array:
    """θ where the posterior density is highest: the best of the draws, climbed from."""
    density = log_density(result)
    z = result.prior.to_working(result.samples)
    best = climb(density, z[int(np.argmax(density(z)))], _limits(result))
    return result.prior.from_working(best[None, :])[0]


# --- parts --------------------------------------------------------------------------------------------------


def _mode(result: Result, density: LogDensity, rows: IntArray, runs: list[Evaluation]) -> Mode:
    draws, prior = result.samples[rows], result.prior
    z = prior.to_working(draws)
    within = list(zip(z.min(axis=0), z.max(axis=0), strict=True))  # no leap to another mode
    peak = climb(density, z[int(np.argmax(density(z)))], within)
    mass = len(rows) / len(result.samples)
    simulated = prior.simulated
    best = max(runs, key=lambda e: e.log_likelihood + float(simulated.log_density(e.theta)), default=None)
    if best is not None:
        at = simulated.to_working(best.theta[None, :])
        nearest = z[int(np.argmin(np.sum((z[:, : simulated.dim] - at) ** 2, axis=1))), simulated.dim :]
        reached = density(np.append(at[0], nearest)[None, :])[0]
        best = best if reached > density(peak[None, :])[0] - _FAR else None
    centre, width = mean_and_sd(draws)
    sd = float(np.sqrt(mass * (1.0 - mass) / len(result.samples)))
    return Mode(mass, sd, centre, width, prior.from_working(peak[None, :])[0], best, rows)


def _limits(result: Result) -> list[tuple[float, float]]:
    return list(zip(*result.prior.working_bounds, strict=True))


def _unit(z: Array) -> Array:
    sd = mean_and_sd(z)[1]
    return np.where(sd > 0.0, sd, 1.0)


def _labels(z: Array, unit: Array, density: LogDensity, limits: list[tuple[float, float]]) -> IntArray:
    """Which mode each of the points belongs to."""
    if len(z) <= _NEIGHBOURS:
        return np.zeros(len(z), dtype=int)
    value = density(z)
    graph = _graph(z, unit, value, density)
    root = _roots(graph, value)
    peaks, counts = np.unique(root, return_counts=True)
    peaks = peaks[np.argsort(-counts, kind="stable")][:_MOST_PEAKS]
    maxima = np.array([_climbed(density, z[p], limits) for p in peaks])
    group = _merged(graph, z, unit, peaks, maxima, density)
    labels = np.full(len(z), -1)
    for peak, own in zip(peaks, group, strict=True):
        labels[root == peak] = own
    for own in np.unique(group):  # what is too small to be a mode
        if np.mean(labels == own) < _LEAST_MASS:
            labels[labels == own] = -1
    known = labels >= 0
    if not known.any():
        return np.zeros(len(z), dtype=int)
    labels[~known] = labels[known][cKDTree(z[known] / unit).query(z[~known] / unit)[1]] if (~known).any() else 0
    return labels


def _climbed(density: LogDensity, start: Array, limits: list[tuple[float, float]]) -> Array:
    """Higher up from ``start``; there, where the climb has leapt over a valley."""
    end = climb(density, start, limits, _STEPS)
    return end if _lowest(np.linspace(start, end, _PATH), density) >= density(start[None, :])[0] - _DEPTH else start


def _graph(z: Array, unit: Array, value: Array, density: LogDensity) -> sparse.csr_matrix:
    """Neighbours between which the density does not fall; an edge holds how low it is there, below the highest."""
    _, index = cKDTree(z / unit).query(z / unit, _NEIGHBOURS + 1)
    a, b = np.repeat(np.arange(len(z)), _NEIGHBOURS), index[:, 1:].ravel()
    pairs = np.unique(np.sort(np.column_stack([a, b]), axis=1), axis=0)
    a, b = pairs[pairs[:, 0] != pairs[:, 1]].T
    lower = np.minimum(value[a], value[b])
    between = density(0.5 * (z[a] + z[b]))
    kept = between >= lower - _DEPTH
    depth = 1.0 + value.max() - np.minimum(lower, between)[kept]  # positive: a sparse matrix has no edge of zero
    one_way = sparse.csr_matrix((depth, (a[kept], b[kept])), shape=(len(z), len(z)))
    return (one_way + one_way.T).tocsr()


def _roots(graph: sparse.csr_matrix, value: Array) -> IntArray:
    """The peak that each point reaches by stepping to its highest neighbour."""
    above = np.arange(len(value))
    for i in range(len(value)):
        near = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        if len(near) and value[best := near[np.argmax(value[near])]] > value[i]:
            above[i] = best
    while not np.array_equal(above, above[above]):
        above = above[above]
    return above


def _merged(
    graph: sparse.csr_matrix, z: Array, unit: Array, peaks: IntArray, maxima: Array, density: LogDensity
) -> IntArray:
    """The group of each maximum: those that a path without a deep valley joins."""
    top = density(maxima)
    group = np.arange(len(maxima))
    for i, j in combinations(range(len(maxima)), 2):
        straight = np.linspace(maxima[i], maxima[j], _PATH)
        if group[i] != group[j] and _lowest(straight, density) >= min(top[i], top[j]) - _DEPTH:
            group[group == group[j]] = group[i]
    tree = csgraph.minimum_spanning_tree(graph)
    highest = [int(max(np.flatnonzero(group == own), key=lambda k: top[k])) for own in np.unique(group)]
    for i, j in combinations(highest, 2):
        ends, floor = (maxima[i], maxima[j]), min(top[i], top[j]) - _DEPTH
        if group[i] != group[j] and _around(tree, z, unit, (peaks[i], peaks[j]), ends, density, floor):
            group[group == group[j]] = group[i]
    return group


def _around(
    tree: sparse.csr_matrix,
    z: Array,
    unit: Array,
    peaks: tuple[int, int],
    ends: tuple[Array, Array],
    density: LogDensity,
    floor: float,
) -> bool:
    """Whether a path through draws, pushed uphill, leads from one maximum to the other above the floor."""
    _, before = csgraph.breadth_first_order(tree, peaks[0], directed=False)
    at, route = int(peaks[1]), [int(peaks[1])]
    while at != peaks[0]:
        at = int(before[at])
        if at < 0:  # scipy's sign of "not reached"
            return False
        route.append(at)
    path = _spaced(np.vstack([ends[0], z[route[::-1]], ends[1]]) / unit)
    return _pushed(path, lambda points: density(points * unit), floor)


def _pushed(path: Array, density: LogDensity, floor: float) -> bool:
    """Whether a path rises above the floor when its points climb across it."""
    reach = 0.1  # of the draws' standard deviations
    for _ in range(_PUSHES):
        if _lowest(path, density) >= floor:
            return True
        value, slope = _slopes(density, path[1:-1])
        along = path[2:] - path[:-2]
        along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-12)
        slope -= np.sum(slope * along, axis=1, keepdims=True) * along
        size = np.linalg.norm(slope, axis=1, keepdims=True)
        moved = path[1:-1] + slope / np.maximum(size, 1e-12) * np.minimum(reach, size)
        better = density(moved) > value
        path[1:-1] = np.where(better[:, None], moved, path[1:-1])
        reach = reach if better.any() else 0.5 * reach
        path = _spaced(path)
    return False


def _lowest(path: Array, density: LogDensity) -> float:
    """The density at its lowest on a path, with the middles of its pieces."""
    return float(density(np.vstack([path, 0.5 * (path[1:] + path[:-1])])).min())


def _spaced(path: Array) -> Array:
    """The same path with points at equal distances."""
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    at = np.linspace(0.0, length[-1], _PATH)
    return np.column_stack([np.interp(at, length, column) for column in path.T])


def _slopes(density: LogDensity, z: Array) -> tuple[Array, Array]:
    """Density and its slopes at the rows of z; none across the border of the prior."""
    n, d = z.shape
    steps = _STEP * np.eye(d)
    points = np.concatenate([z[None], z[None] + steps[:, None, :], z[None] - steps[:, None, :]])  # (1 + 2d, n, d)
    values = density(points.reshape(-1, d)).reshape(1 + 2 * d, n)
    ahead, behind = values[1 : d + 1], values[d + 1 :]
    inside = np.minimum(ahead, behind) > -0.5 * _REFUSED
    slope = np.where(inside, (ahead - behind) / (2.0 * _STEP), 0.0)
    return values[0], slope.T
