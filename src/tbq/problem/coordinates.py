"""Working coordinates, in which the Gaussian process meets parameters of unit scale and without long tails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from tbq.common.types import Array, Distribution

Kind = Literal["linear", "log", "log_reversed", "asinh"]

# Probabilities of a normal distribution below −3, −1, 0, 1 and 3 sd: the 99.7 % range of a marginal against
# its 68 % range says how long its tails are. For a normal the ratio is 3.
LEVELS = special.ndtr(np.array([-3.0, -1.0, 0.0, 1.0, 3.0]))
_NORMAL_TAIL = 3.0


@dataclass(frozen=True)
class Axis:
    """The map θ → z = (u(θ) − center) / scale of one parameter, with u chosen by :func:`choose_axis`."""

    kind: Kind
    origin: float  # where the logarithm or the asinh is anchored
    width: float  # unit of the asinh; 1 for the others
    center: float
    scale: float

    def forward(self, theta: Array) -> Array:
        return (_unscaled(self.kind, self.origin, self.width, theta) - self.center) / self.scale

    def inverse(self, z: Array) -> Array:
        u = self.center + self.scale * z
        if self.kind == "linear":
            return u
        if self.kind == "asinh":
            return self.origin + self.width * np.sinh(u)
        return self.origin + np.exp(u) if self.kind == "log" else self.origin - np.exp(-u)

    def log_slope(self, z: Array) -> Array:
        """log dθ/dz, which turns a density in θ into one in z."""
        u = self.center + self.scale * z
        if self.kind == "linear":
            slope = np.zeros_like(u)
        elif self.kind == "asinh":
            slope = np.log(self.width) + np.logaddexp(u, -u) - np.log(2.0)
        else:
            slope = u if self.kind == "log" else -u
        return np.asarray(slope + np.log(self.scale))


def choose_axis(marginal: Distribution) -> Axis:
    """The coordinate in which the marginal's tails are shortest.

    Tail length is the ratio of the 99.7 % to the 68 % range. Linear is kept unless another coordinate is at
    least 10 % shorter; the two-sided asinh competes only with tails heavier than a normal's.
    """
    low, high = (float(v) for v in marginal.support())
    quantiles = np.asarray(marginal.ppf(LEVELS), dtype=float)
    median, width = quantiles[2], 0.5 * (quantiles[3] - quantiles[1])
    candidates: list[tuple[Kind, float, float]] = []
    if np.isfinite(low) and np.isinf(high):
        candidates.append(("log", low, 1.0))
    if low > 0:
        candidates.append(("log", 0.0, 1.0))
    if np.isfinite(high) and np.isinf(low):
        candidates.append(("log_reversed", high, 1.0))
    best: tuple[Kind, float, float] = ("linear", 0.0, 1.0)
    shortest = _tail(quantiles)
    if np.isinf(low) and np.isinf(high) and shortest > 1.1 * _NORMAL_TAIL:
        candidates.append(("asinh", median, width))
    shortest *= 0.9
    for candidate in candidates:
        tail = _tail(_unscaled(*candidate, quantiles))
        if tail < shortest:
            best, shortest = candidate, tail
    u = _unscaled(*best, quantiles)
    return Axis(*best, center=float(u[2]), scale=float(0.5 * (u[3] - u[1])))


def _unscaled(kind: Kind, origin: float, width: float, theta: Array) -> Array:
    if kind == "linear":
        return theta
    if kind == "asinh":
        return np.arcsinh((theta - origin) / width)
    with np.errstate(divide="ignore", invalid="ignore"):  # outside the support: nan, refused by the density
        return np.log(theta - origin) if kind == "log" else -np.log(origin - theta)


def _tail(quantiles: Array) -> float:
    if not np.all(np.isfinite(quantiles)):
        return np.inf
    return float((quantiles[4] - quantiles[0]) / (quantiles[3] - quantiles[1]))
