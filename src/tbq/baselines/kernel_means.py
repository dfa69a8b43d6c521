"""Integrals of a kernel against the prior: Π[k(·, x)] and ΠΠ'[k], in working coordinates.

For independent marginals a product kernel integrates one parameter at a time: in closed form for (SE, normal),
(SE, uniform) and (Matérn-5/2, uniform), else by a dense one-dimensional quadrature. For a dependent or constrained
prior the measure is a large quasi-random sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from tbq.common.types import Array, Distribution
from tbq.gp.kernels import MATERN52_PRODUCT, SE, Kernel
from tbq.problem.coordinates import Axis
from tbq.problem.prior import Prior

_LINE_NODES = 400
_SAMPLE_NODES = 2**11
_SQRT5 = np.sqrt(5.0)
_SERIES_BELOW = 0.5  # argument below which closed forms of the Matérn kernel cancel and its power series is taken
_POWERS = np.arange(18)
# (1 + t + t²/3) e^{−t} = Σ cₙ tⁿ; eighteen terms are exact to rounding below 0.5
_MATERN_SERIES = (-1.0) ** _POWERS / special.factorial(_POWERS) * (1.0 - _POWERS + _POWERS * (_POWERS - 1) / 3.0)


class Line(Protocol):
    """The marginal measure of one parameter."""

    def mean(self, kernel: Kernel, length: float, x: Array) -> Array:
        """∫ κ(x, t) p(t) dt for a one-dimensional kernel κ of unit amplitude."""

    def double(self, kernel: Kernel, length: float) -> float:
        """∬ κ(s, t) p(s) p(t) ds dt."""


@dataclass(frozen=True)
class Normal:
    """Standard normal: what a normal, and a lognormal on its log axis, are in working coordinates."""

    quadrature: Sampled1D

    def mean(self, kernel: Kernel, length: float, x: Array) -> Array:
        if kernel is not SE:
            return self.quadrature.mean(kernel, length, x)
        total = length**2 + 1.0
        return length / np.sqrt(total) * np.exp(-0.5 * x**2 / total)

    def double(self, kernel: Kernel, length: float) -> float:
        return length / np.sqrt(length**2 + 2.0) if kernel is SE else self.quadrature.double(kernel, length)


@dataclass(frozen=True)
class Uniform:
    """Uniform on [low, high]."""

    low: float
    high: float

    def mean(self, kernel: Kernel, length: float, x: Array) -> Array:
        width = self.high - self.low
        if kernel is SE:
            unit = np.sqrt(2.0) * length
            return 0.5 * np.sqrt(np.pi) * unit / width * _erf_rise((self.low - x) / unit, (self.high - x) / unit)
        unit = length / _SQRT5
        return unit / width * (_matern_integral((x - self.low) / unit) + _matern_integral((self.high - x) / unit))

    def double(self, kernel: Kernel, length: float) -> float:
        if kernel is SE:
            w = (self.high - self.low) / length
            ramp = np.sqrt(0.5 * np.pi) * w * special.erf(w / np.sqrt(2.0)) + np.expm1(-0.5 * w * w)
            return float(2.0 * ramp / w**2)
        w = _SQRT5 * (self.high - self.low) / length
        if w < _SERIES_BELOW:  # the closed form is of order w² where its terms are of order 1
            n = np.arange(len(_MATERN_SERIES))
            return float(2.0 * np.sum(_MATERN_SERIES * w**n / ((n + 1) * (n + 2))))
        decay = np.exp(-w) * (5.0 + 7.0 * w / 3.0 + w * w / 3.0)
        return float(2.0 / w**2 * (8.0 * w / 3.0 - 5.0 + decay))


@dataclass(frozen=True)
class Sampled1D:
    """Any other marginal, by Gauss–Legendre quadrature over its quantiles."""

    nodes: Array  # (n,)
    weights: Array  # (n,)

    def mean(self, kernel: Kernel, length: float, x: Array) -> Array:
        return kernel.matrix(_unit(length), x[:, None], self.nodes[:, None]) @ self.weights

    def double(self, kernel: Kernel, length: float) -> float:
        return float(self.weights @ self.mean(kernel, length, self.nodes))


@dataclass(frozen=True)
class ProductMeasure:
    """Independent marginals."""

    lines: tuple[Line, ...]

    def mean(self, kernel: Kernel, parameters: Array, x: Array) -> Array:
        """Π[k(·, x)], shape (n,)."""
        value = np.full(len(x), np.exp(2.0 * parameters[-1]))
        for i, line in enumerate(self.lines):
            value *= line.mean(kernel, float(np.exp(parameters[i])), x[:, i])
        return value

    def double(self, kernel: Kernel, parameters: Array) -> float:
        """ΠΠ'[k]."""
        factors = [line.double(kernel, float(np.exp(p))) for line, p in zip(self.lines, parameters, strict=False)]
        return float(np.exp(2.0 * parameters[-1]) * np.prod(factors))


@dataclass(frozen=True)
class SampledMeasure:
    """A dependent or constrained prior, as a quasi-random sample of it."""

    z: Array  # (n, d)

    def mean(self, kernel: Kernel, parameters: Array, x: Array) -> Array:
        return kernel.matrix(parameters, x, self.z).mean(axis=1)

    def double(self, kernel: Kernel, parameters: Array) -> float:
        return float(self.mean(kernel, parameters, self.z).mean())


Measure = ProductMeasure | SampledMeasure


def measure_of(prior: Prior) -> Measure:
    """The prior's measure in working coordinates, with closed forms where they exist."""
    if type(prior) is not Prior or prior.copula is not None or prior.constraint is not None:
        return SampledMeasure(prior.to_working(prior.sample(_SAMPLE_NODES, 0, "sobol")))
    return ProductMeasure(tuple(_line(axis, m) for axis, m in zip(prior.axes, prior.marginals.values(), strict=True)))


def _line(axis: Axis, marginal: Distribution) -> Line:
    family, kind = marginal.dist.name, axis.kind
    low, high = axis.forward(np.array(marginal.support()))
    if (family, kind) == ("uniform", "linear") or (family in ("loguniform", "reciprocal") and kind == "log"):
        return Uniform(float(low), float(high))
    roots, weights = special.roots_legendre(_LINE_NODES)
    sampled = Sampled1D(axis.forward(marginal.ppf(0.5 * (roots + 1.0))), 0.5 * weights)
    anchored = axis.origin == marginal.support()[0]
    if (family, kind) == ("norm", "linear") or ((family, kind) == ("lognorm", "log") and anchored):
        return Normal(sampled)
    return sampled


def _erf_rise(a: Array, b: Array) -> Array:
    """erf(b) − erf(a) for a ≤ b, to all digits: by erf where zero is near, in the tails by its complement."""
    near = special.erf(b) - special.erf(a)
    right, left = special.erfc(a) - special.erfc(b), special.erfc(-b) - special.erfc(-a)
    return np.where(a > 1.0, right, np.where(b < -1.0, left, near))


def _matern_integral(r: Array) -> Array:
    """∫₀ʳ (1 + t + t²/3) e^{−t} dt, odd in r."""
    a = np.abs(r)
    small = np.minimum(a, _SERIES_BELOW)[..., None]
    n = np.arange(len(_MATERN_SERIES))
    series = np.sum(_MATERN_SERIES * small ** (n + 1) / (n + 1), axis=-1)
    closed = 8.0 / 3.0 - np.exp(-a) * (8.0 / 3.0 + 5.0 * a / 3.0 + a * a / 3.0)
    return np.sign(r) * np.where(a < _SERIES_BELOW, series, closed)


def _unit(length: float) -> Array:
    return np.array([np.log(length), 0.0])


KERNELS: dict[str, Kernel] = {"se": SE, "matern52": MATERN52_PRODUCT}
