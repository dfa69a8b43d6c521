"""Fits of what log-depths are seen against: a top that rises with the parameters, and a bowl below it.

Where data have normal errors of unknown size e^u, log L = c − n u − e^{−2u} R/2 with a sum of squares R. Under a top of
c − n u the log-depth is log R − 2u. R of a linear model is R₀ (1 + |B (z, 1)|²), a bowl: less its logarithm, the
log-depth is a straight line, and such a likelihood is known as soon as there are more runs than numbers in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy import optimize

from tbq.common.types import Array, IntArray
from tbq.gp import regression as gps
from tbq.gp.linalg import solve
from tbq.surrogate.data import Data
from tbq.surrogate.warp import Warp

_LEAST_DEPTH = 0.05  # nats: a tilted top this close above the values is on them
_SCALES = 12.0  # factors of e that a fit may change a depth by
_FINE = 0.01  # relative: depths are not asked to be nearer to a bowl
_FAR = 3.0  # times that, from where on a depth is an outlier
_RIDGE = 1e-3  # per unit: a number of a bowl that runs say nothing of stays where it is
_SIZES = (0.2, 1.0, 5.0)  # of the population, of bowls that fits begin with: there are local optima
_ROUNDS = {"squares": 100, "independent": 300, "process": 100}  # iterations of each fit

Cost: TypeAlias = Callable[[Array], tuple[float, Array]]  # minus a log density of residuals, and its gradient


def number_of_numbers(warp: Warp) -> int:
    """How many were fitted: a depth, a tilt and a bowl."""
    if warp.tilt is None:
        return 0
    d = len(warp.tilt)
    return 1 + int(np.count_nonzero(warp.tilt)) + (d * (d + 3) // 2 if warp.bowl is not None else 0)


def around(data: Data, warp: Warp, cold: bool = True) -> Warp:
    """The warp with the bowl that fits the runs best: by least squares, then with a tilt and a depth that suit it.

    A search that is not ``cold`` begins at the bowl that the warp has, if it has one, and nowhere else.

    A tilt that is not known yet may change the depth of a run by as much as the best runs are deep: so little do
    shallow runs count at first.
    """
    space = _Space(data, warp.depth)
    left = np.log1p((np.max(data.y) - data.y) / warp.depth)
    sure = 1.0 / (_FINE + data.scale / (data.scale + warp.depth * np.exp(left)))
    rest = _less_a_line(data.z, sure)
    as_the_population = np.concatenate([np.eye(space.dim)[space.upper], np.zeros(space.dim)])

    def residual(numbers: Array) -> Array:
        return np.concatenate([rest(left - np.log(space.bowl(numbers)[1])), _RIDGE * (numbers - as_the_population)])

    def jacobian(numbers: Array) -> Array:
        u, s = space.bowl(numbers)
        i, j = space.upper
        of_bowl = np.hstack([u[:, i] * space.x[:, j], u]) * (-2.0 / s)[:, None]
        return np.vstack([rest(of_bowl), _RIDGE * np.eye(len(numbers))])

    starts = [] if warp.bowl is None else [space.numbers(warp)[space.dim + 1 :]]
    if cold or not starts:
        starts += [scale * as_the_population for scale in _SIZES]
    most, cost = _ROUNDS["squares"], _independent(data.z)
    found = []
    for start in starts:
        fit = optimize.least_squares(residual, start, jacobian, loss="soft_l1", f_scale=_FAR, max_nfev=most)
        begin = replace(warp, bowl=space.matrix_of(fit.x))
        found.append(_likelier(space, begin, cost, _ROUNDS["independent"]))
    return min(found, key=lambda pair: pair[0])[1]


def likelier(gp: gps.GP, data: Data, warp: Warp) -> Warp:
    """The tilt, depth and bowl that make the values most probable while the process stays what it is, in its units.

    Beside a bowl the top may rise with all parameters; else with as few as explain the values, most often the
    logarithm of one noise level.
    """
    space, cost = _Space(data, warp.depth), _of_process(gp, warp.depth)
    return _likelier(space, warp, cost, _ROUNDS["process"])[1] if warp.bowl is not None else _tilted(space, warp, cost)


def _tilted(space: _Space, warp: Warp, cost: Cost) -> Warp:
    """A top that rises with one more parameter as long as that makes the values more probable by what it costs.

    Each search begins at the given tilt and depth, too: the depth that is best without a tilt may hide one.
    """
    price, most = 0.5 * np.log(len(space.x)), _ROUNDS["process"]
    chosen: tuple[int, ...] = ()
    least, best = _likelier(space, _with(space, warp, chosen), cost, most, chosen)
    while len(chosen) < space.dim:
        more = [(*chosen, j) for j in range(space.dim) if j not in chosen]
        starts = [(start, rising) for rising in more for start in (best, _with(space, warp, rising))]
        tried = [(*_likelier(space, start, cost, most, rising), rising) for start, rising in starts]
        found, tilted, rising = min(tried, key=lambda t: t[0])
        if found > least - price:
            break
        least, best, chosen = found, tilted, rising
    return best


def _with(space: _Space, warp: Warp, rising: tuple[int, ...]) -> Warp:
    """Its top rises with these parameters only."""
    assert warp.tilt is not None
    tilt = np.zeros(space.dim)
    tilt[list(rising)] = warp.tilt[list(rising)]
    return replace(warp, tilt=tilt, top=float(np.max(space.data.y - space.data.z @ tilt)))


def _likelier(
    space: _Space, warp: Warp, cost: Cost, most: int, rising: tuple[int, ...] | None = None
) -> tuple[float, Warp]:
    """Minus its log density, and the warp, whose top rises with all or with these parameters."""
    data, unit, d = space.data, space.unit, space.dim

    def loss(numbers: Array) -> tuple[float, Array]:
        """Minus the log density of the values: of the residuals, and of the change of variable."""
        above = data.y - data.z @ (unit * numbers[:d])
        highest = int(np.argmax(above))
        least = np.exp(np.clip(numbers[d], -_SCALES, _SCALES))
        depth = (above[highest] - above) / unit + least
        left = np.log(depth)
        u, s = space.bowl(numbers[d + 1 :])
        value, slope = cost(left - np.log(s))
        of_depth = (slope + 1.0) / depth
        of_tilt = of_depth @ (data.z - data.z[highest])
        parts = [of_tilt, np.array([np.sum(of_depth) * least])]
        if len(numbers) > d + 1:
            of_u = (-2.0 * slope / s)[:, None] * u
            parts += [(of_u.T @ space.x)[space.upper], of_u.sum(axis=0)]
        return value + float(np.sum(left)), np.concatenate(parts)

    start = space.numbers(warp)
    bounds = None if rising is None else [(None, None) if j in (*rising, d) else (0.0, 0.0) for j in range(len(start))]
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": most})
    best = found.x if found.fun < loss(start)[0] else start
    return loss(best)[0], space.warp(best)


def _less_a_line(z: Array, sure: Array) -> Callable[[Array], Array]:
    """Residuals of a weighted regression on a constant and the parameters."""
    line, _ = np.linalg.qr(np.column_stack([np.ones(len(z)), z]) * sure[:, None])

    def rest(values: Array) -> Array:
        weighted = (values.T * sure).T
        return np.asarray(weighted - line @ (line.T @ weighted))

    return rest


def _independent(z: Array) -> Cost:
    """Of residuals of a line, of unknown size."""
    rest_of = _less_a_line(z, np.ones(len(z)))

    def cost(values: Array) -> tuple[float, Array]:
        rest = rest_of(values)
        variance = rest @ rest / len(rest) + _FINE**2
        return 0.5 * len(rest) * float(np.log(variance)), rest / variance

    return cost


def _of_process(gp: gps.GP, unit: float) -> Cost:
    """Of a process with a mean whose coefficients are integrated out."""
    f = gp.factors

    def cost(values: Array) -> tuple[float, Array]:
        white = solve(f.chol, -unit * (values - np.mean(values)))
        beta = solve(f.chol_basis, solve(f.chol_basis, f.basis.T @ white), transposed=True)
        rest = white - f.basis @ beta
        back = solve(f.chol, rest, transposed=True)
        return float(0.5 * (rest @ rest + f.precision * beta @ beta)), -unit * (back - np.mean(back))

    return cost


@dataclass(frozen=True)
class _Space:
    """The numbers of a warp: tilt, log-depth and, in coordinates of the population, a bowl's triangle and shift."""

    data: Data
    unit: float  # nats that tilt and depth are in

    @property
    def dim(self) -> int:
        return self.data.z.shape[1]

    @cached_property
    def upper(self) -> tuple[IntArray, IntArray]:
        return np.triu_indices(self.dim)

    @cached_property
    def affine(self) -> tuple[Array, Array]:
        """Center and matrix of the coordinates x = (z − center) · matrix."""
        frame = self.data.frame
        return (np.zeros(self.dim), np.eye(self.dim)) if frame is None else (frame.center, frame.matrix)

    @cached_property
    def x(self) -> Array:
        center, matrix = self.affine
        return (self.data.z - center) @ matrix

    def _triangle(self, numbers: Array) -> tuple[Array, Array]:
        root = np.zeros((self.dim, self.dim))
        root[self.upper] = numbers[: -self.dim]
        return root, numbers[-self.dim :]

    def bowl(self, numbers: Array) -> tuple[Array, Array]:
        """u and 1 + |u|² at the runs; without numbers nothing and 1."""
        if not len(numbers):
            return np.zeros((len(self.x), 0)), np.ones(len(self.x))
        root, shift = self._triangle(numbers)
        u = self.x @ root.T + shift
        return u, 1.0 + np.sum(u**2, axis=1)

    def matrix_of(self, numbers: Array) -> Array:
        """B of the bowl, for points z."""
        center, matrix = self.affine
        root, shift = self._triangle(numbers)
        slope = root @ matrix.T
        return np.column_stack([slope, shift - slope @ center])

    def numbers(self, warp: Warp) -> Array:
        assert warp.tilt is not None
        parts = [warp.tilt / self.unit, np.array([np.log(warp.depth / self.unit)])]
        if warp.bowl is not None:
            center, matrix = self.affine
            slope, shift = warp.bowl[:, :-1], warp.bowl[:, -1]
            turn, root = np.linalg.qr(slope @ np.linalg.inv(matrix).T)
            parts += [root[self.upper], turn.T @ (shift + slope @ center)]
        return np.concatenate(parts)

    def warp(self, numbers: Array) -> Warp:
        """Its top touches the runs from above."""
        d = self.dim
        tilt, depth = self.unit * numbers[:d], self.unit * float(np.exp(np.clip(numbers[d], -_SCALES, _SCALES)))
        bowl = self.matrix_of(numbers[d + 1 :]) if len(numbers) > d + 1 else None
        return Warp(float(np.max(self.data.y - self.data.z @ tilt)), max(depth, _LEAST_DEPTH), tilt, bowl)
