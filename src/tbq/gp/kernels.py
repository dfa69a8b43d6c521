"""Covariance functions. A kernel is stateless; its hyperparameters are one vector of logarithms.

For the two ARD kernels and the product kernel that vector is (log ℓ₁, …, log ℓ_d, log amplitude).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol

import numpy as np

from tbq.common.types import Array, IntArray

KernelChoice = Literal["se", "matern52", "additive", "auto"]  # "auto": the data choose

_SQRT5 = np.sqrt(5.0)
_BLOCK = 2**16  # elements computed at once


@dataclass(frozen=True)
class HyperPrior:
    """Independent normal priors on the logarithms of the hyperparameters, and the range searched."""

    mean: Array  # (p,)
    sd: Array  # (p,)
    low: Array  # (p,)
    high: Array  # (p,)

    def log_density(self, parameters: Array) -> float:
        return float(-0.5 * np.sum(((parameters - self.mean) / self.sd) ** 2))

    def gradient(self, parameters: Array) -> Array:
        return -(parameters - self.mean) / self.sd**2


# The symmetric matrix k(xᵢ, xⱼ), of which only the upper triangle need be filled, and the function that takes an upper
# triangle of weights (zeros below) to Σᵢⱼ weightsᵢⱼ ∂k(xᵢ, xⱼ)/∂parameter for each hyperparameter.
Gram = Callable[[Array], tuple[Array, Callable[[Array], Array]]]


class Kernel(Protocol):
    """What the Gaussian process asks of a covariance function."""

    @property
    def name(self) -> str: ...

    def matrix(self, parameters: Array, a: Array, b: Array) -> Array:
        """k(aᵢ, bⱼ), shape (n, m)."""

    def diagonal(self, parameters: Array, a: Array) -> Array:
        """k(aᵢ, aᵢ), shape (n,)."""

    def gram(self, x: Array) -> Gram:
        """The covariance of training points as a function of hyperparameters."""

    def hyperprior(self, d: int, scale: float) -> HyperPrior:
        """Weak prior, given the dimension and the spread of the values."""


def _ard_hyperprior(d: int, scale: float) -> HyperPrior:
    # Working coordinates have unit scale, and distances between points grow as √d: so does the length-scale. A
    # smooth function has an amplitude well above its spread. The widths forbid nothing, but keep twelve points in
    # ten dimensions from claiming a length-scale of zero or a flat function of amplitude 1e6.
    mean = np.append(np.full(d, 0.5 * np.log(d / 2.0)), np.log(3.0 * scale))
    sd = np.append(np.full(d, 1.5), 2.0)
    return HyperPrior(mean, sd, mean - np.log(np.append(np.full(d, 100.0), 1e4)), mean + np.log(1e3))


@dataclass(frozen=True)
class ArdKernel:
    """amplitude² κ(r), r² = Σ (xᵢ − x'ᵢ)²/ℓᵢ²: a radial profile κ with one length-scale per parameter."""

    name: str
    profile: Callable[[Array], Array]  # κ as a function of r², which it may overwrite
    slope: Callable[[Array], Array]  # −2 dκ/d(r²): then ∂κ/∂log ℓᵢ = slope · (xᵢ − x'ᵢ)²/ℓᵢ²; the same

    def profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        """Both, where both are needed."""
        profile = self.profile(squared.copy())
        return profile, profile if self.slope is self.profile else self.slope(squared)

    def matrix(self, parameters: Array, a: Array, b: Array) -> Array:
        lengths, variance = np.exp(parameters[:-1]), np.exp(2.0 * parameters[-1])
        left, right = _stretched(a / lengths, b / lengths)
        value = np.empty((len(a), len(b)))
        width = max(_BLOCK // max(len(b), 1), 1)
        for i in range(0, len(a), width):  # in blocks that stay in the processor's cache
            part = np.matmul(left[i : i + width], right, out=value[i : i + width])
            np.multiply(self.profile(np.maximum(part, 0.0, out=part)), variance, out=part)
        return value

    def diagonal(self, parameters: Array, a: Array) -> Array:
        return np.full(len(a), np.exp(2.0 * parameters[-1]))

    def gram(self, x: Array) -> Gram:
        def at(parameters: Array) -> tuple[Array, Callable[[Array], Array]]:
            scaled = x / np.exp(parameters[:-1])
            variance = np.exp(2.0 * parameters[-1])
            left, right = _stretched(scaled, scaled)
            squared = np.maximum(left @ right, 0.0)
            profile = self.profile(squared.copy())
            value = variance * profile

            def contract(weights: Array) -> Array:
                of_amplitude = 2.0 * np.vdot(weights, value)
                pull = weights * (profile if self.slope is self.profile else self.slope(squared.copy()))
                sums = pull.sum(axis=0) + pull.sum(axis=1)
                lengths = sums @ scaled**2 - 2.0 * np.einsum("ij,ij->j", pull @ scaled, scaled)
                return np.append(variance * lengths, of_amplitude)

            return value, contract

        return at

    def hyperprior(self, d: int, scale: float) -> HyperPrior:
        return _ard_hyperprior(d, scale)


@dataclass(frozen=True)
class ProductMatern52:
    """amplitude² Π κ(|xᵢ − x'ᵢ|/ℓᵢ), κ(r) = (1 + √5 r + 5r²/3) e^{−√5 r}, which has closed-form integrals."""

    name: str = "matern52_product"

    def matrix(self, parameters: Array, a: Array, b: Array) -> Array:
        lengths, amplitude = np.exp(parameters[:-1]), np.exp(parameters[-1])
        value = np.full((len(a), len(b)), amplitude**2)
        for i, length in enumerate(lengths):
            r = _SQRT5 * np.abs(a[:, i, None] - b[None, :, i]) / length
            value *= (1.0 + r + r * r / 3.0) * np.exp(-r)
        return value

    def diagonal(self, parameters: Array, a: Array) -> Array:
        return np.full(len(a), np.exp(2.0 * parameters[-1]))

    def gram(self, x: Array) -> Gram:
        def at(parameters: Array) -> tuple[Array, Callable[[Array], Array]]:
            value = self.matrix(parameters, x, x)

            def contract(weights: Array) -> Array:
                weighted = weights * value
                gradient = [0.0] * len(parameters)
                for i, length in enumerate(np.exp(parameters[:-1])):
                    r = _SQRT5 * np.abs(x[:, i, None] - x[None, :, i]) / length
                    gradient[i] = float(np.sum(weighted * (r * r * (1.0 + r)) / (3.0 + 3.0 * r + r * r)))
                gradient[-1] = 2.0 * float(weighted.sum())
                return np.array(gradient)

            return value, contract

        return at

    def hyperprior(self, d: int, scale: float) -> HyperPrior:
        return _ard_hyperprior(d, scale)


@dataclass(frozen=True)
class AdditiveKernel:
    """Σᵢ vᵢ kᵢ + Σ_{i<j} ω_ij kᵢ kⱼ with one-dimensional SE factors kᵢ of shared length-scales.

    In ten dimensions a full SE kernel needs points everywhere; a sum of functions of two parameters does not. Its
    hyperparameters are (log ℓᵢ, ½ log vᵢ, ½ log ω_ij), with priors that shrink the variances of parameters and pairs
    that do nothing.
    """

    name: str = "additive"

    def matrix(self, parameters: Array, a: Array, b: Array) -> Array:
        lengths, single, pair = self._split(parameters, a.shape[1])
        fraction = single + 0.5 * pair.sum(axis=1)
        active = np.flatnonzero(fraction > 1e-8 * fraction.sum())
        single, half = single[active, None], 0.5 * pair[np.ix_(active, active)]
        left, right = _exponents((a / lengths)[:, active].T, (b / lengths)[:, active].T)
        value = np.empty((len(a), len(b)))
        width = max(_BLOCK // max(len(active), 1), 1)
        height = max(width // max(len(b), 1), 1)
        for i in range(0, len(a), height):  # in blocks that stay in the processor's cache
            for j in range(0, len(b), width):
                block = left[:, i : i + height] @ right[:, :, j : j + width]
                factors = block.reshape(len(active), -1)
                np.exp(factors, out=factors)
                terms = half @ factors
                terms += single
                value[i : i + height, j : j + width] = np.einsum("ij,ij->j", terms, factors).reshape(block.shape[1:])
        return value

    def diagonal(self, parameters: Array, a: Array) -> Array:
        _, single, pair = self._split(parameters, a.shape[1])
        return np.full(len(a), single.sum() + 0.5 * pair.sum())

    def gram(self, x: Array) -> Gram:
        n, d = x.shape
        height = max(_BLOCK // (n * d), 1)
        rows = [slice(i, min(i + height, n)) for i in range(0, n, height)]  # of the upper triangle, with a bit more
        distances = [((x[r, None, :] - x[None, r.start :, :]) ** 2).reshape(-1, d).T.copy() for r in rows]

        def at(parameters: Array) -> tuple[Array, Callable[[Array], Array]]:
            lengths, single, pair = self._split(parameters, d)
            shrink, half = -0.5 / lengths[:, None] ** 2, 0.5 * pair
            value, kept = np.zeros((n, n)), []
            for r, distance in zip(rows, distances, strict=True):
                factors = shrink * distance
                np.exp(factors, out=factors)
                terms = half @ factors
                terms += single[:, None]
                terms *= factors
                value[r, r.start :] = terms.sum(axis=0).reshape(-1, n - r.start)
                kept.append(factors)

            def contract(weights: Array) -> Array:
                of_lengths, sums, products = np.zeros(d), np.zeros(d), np.zeros((d, d))
                for r, distance, factors in zip(rows, distances, kept, strict=True):
                    weighted = factors * weights[r, r.start :].reshape(-1)
                    sums += weighted.sum(axis=1)
                    products += weighted @ factors.T
                    weighted *= distance
                    of_lengths += np.einsum("ij,ij->i", weighted, single[:, None] + pair @ factors)
                of_pairs = 2.0 * (pair * products)[_pairs(d)]
                return np.concatenate([of_lengths / lengths**2, 2.0 * single * sums, of_pairs])

            return value, contract

        return at

    def hyperprior(self, d: int, scale: float) -> HyperPrior:
        pairs = d * (d - 1) // 2
        mean = np.concatenate(
            [np.full(d, np.log(1.5)), np.full(d, np.log(scale) - 3.0), np.full(pairs, np.log(scale) - 4.0)]
        )
        sd = np.concatenate([np.ones(d), np.full(d + pairs, 3.0)])
        reach = np.concatenate([np.full(d, np.log(60.0)), np.full(d + pairs, 10.0)])
        return HyperPrior(mean, sd, mean - reach, mean + reach)

    @staticmethod
    def _split(parameters: Array, d: int) -> tuple[Array, Array, Array]:
        """Length-scales, variances of parameters, and the symmetric matrix of variances of pairs."""
        pair = np.zeros((d, d))
        pair[_pairs(d)] = np.exp(2.0 * parameters[2 * d :])
        return np.exp(parameters[:d]), np.exp(2.0 * parameters[d : 2 * d]), pair + pair.T


@cache
def _pairs(d: int) -> tuple[IntArray, IntArray]:
    return np.triu_indices(d, 1)


def _stretched(a: Array, b: Array) -> tuple[Array, Array]:
    """Two matrices whose product is the squared distances |aᵢ − bⱼ|², but for rounding."""
    # Shifting to a common centre first keeps the cancellation harmless for far-off, close-by points.
    center = a.mean(axis=0)
    a, b = a - center, b - center
    left = np.column_stack([-2.0 * a, np.einsum("ij,ij->i", a, a), np.ones(len(a))])
    return left, np.vstack([b.T, np.ones(len(b)), np.einsum("ij,ij->i", b, b)])


def _exponents(a: Array, b: Array) -> tuple[Array, Array]:
    """Two stacks of matrices whose products are −(a_i − b_j)²/2, one for each row of a and b, but for rounding."""
    center = a.mean(axis=1, keepdims=True)
    a, b = a - center, b - center
    left = np.stack([a, -0.5 * a * a, np.ones_like(a)], axis=2)
    return left, np.stack([b, np.ones_like(b), -0.5 * b * b], axis=1)


def _matern52_profile(squared: Array) -> Array:
    """κ = (1 + √5 r + 5r²/3) e^{−√5 r}."""
    r = _scaled_root(squared)
    value = r * r
    value /= 3.0
    value += r
    value += 1.0
    return _times_exp(value, r)


def _matern52_slope(squared: Array) -> Array:
    """−2 dκ/d(r²) = 5/3 (1 + √5 r) e^{−√5 r}."""
    r = _scaled_root(squared)
    return _times_exp((5.0 / 3.0) * r + 5.0 / 3.0, r)


def _scaled_root(squared: Array) -> Array:
    return np.sqrt(np.multiply(squared, 5.0, out=squared), out=squared)


def _times_exp(value: Array, r: Array) -> Array:
    value *= np.exp(np.negative(r, out=r), out=r)
    return value


def _se(squared: Array) -> Array:
    """κ = e^{−r²/2}, which is its own −2 dκ/d(r²)."""
    return np.exp(np.multiply(squared, -0.5, out=squared), out=squared)


SE = ArdKernel("se", _se, _se)
MATERN52 = ArdKernel("matern52", _matern52_profile, _matern52_slope)
MATERN52_PRODUCT = ProductMatern52()
ADDITIVE = AdditiveKernel()

BY_NAME: dict[str, Kernel] = {kernel.name: kernel for kernel in (SE, MATERN52, MATERN52_PRODUCT, ADDITIVE)}
