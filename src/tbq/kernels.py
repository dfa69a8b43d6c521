"""Covariance functions. A kernel is stateless; its hyperparameters are one vector of logarithms.

For the two ARD kernels and the product kernel that vector is (log ℓ₁, …, log ℓ_d, log amplitude).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tbq.types import Array

_SQRT5 = np.sqrt(5.0)
_BLOCK = 2**13  # elements of an additive covariance computed at once


@dataclass(frozen=True)
class HyperPrior:
    """Independent normal priors on the logarithms of the hyperparameters, and the range searched."""

    mean: Array
    sd: Array
    low: Array
    high: Array

    def log_density(self, parameters: Array) -> float:
        return float(-0.5 * np.sum(((parameters - self.mean) / self.sd) ** 2))

    def gradient(self, parameters: Array) -> Array:
        return -(parameters - self.mean) / self.sd**2


# The symmetric matrix k(xᵢ, xⱼ), of which only the lower triangle need be filled, and the function that takes
# symmetric weights to Σᵢⱼ weightsᵢⱼ ∂k(xᵢ, xⱼ)/∂parameter for each hyperparameter.
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
    profile: Callable[[Array], Array]  # κ as a function of r²
    slope: Callable[[Array], Array]  # −2 dκ/d(r²): then ∂κ/∂log ℓᵢ = slope · (xᵢ − x'ᵢ)²/ℓᵢ²

    def matrix(self, parameters: Array, a: Array, b: Array) -> Array:
        lengths, amplitude = np.exp(parameters[:-1]), np.exp(parameters[-1])
        return amplitude**2 * self.profile(_squared_distances(a / lengths, b / lengths))

    def diagonal(self, parameters: Array, a: Array) -> Array:
        return np.full(len(a), np.exp(2.0 * parameters[-1]))

    def gram(self, x: Array) -> Gram:
        def at(parameters: Array) -> tuple[Array, Callable[[Array], Array]]:
            scaled = x / np.exp(parameters[:-1])
            variance = np.exp(2.0 * parameters[-1])
            squared = _squared_distances(scaled, scaled)
            value = variance * self.profile(squared)

            def contract(weights: Array) -> Array:
                pull = weights * self.slope(squared) * variance
                lengths = 2.0 * (pull.sum(axis=1) @ scaled**2 - np.einsum("ij,ij->j", pull @ scaled, scaled))
                return np.append(lengths, 2.0 * np.sum(weights * value))

            return value, contract

        return at

    def hyperprior(self, d: int, scale: float) -> HyperPrior:
        return _ard_hyperprior(d, scale)


@dataclass(frozen=True)
class ProductMatern52:
    """amplitude² Π κ(|xᵢ − x'ᵢ|/ℓᵢ) with κ Matérn-5/2: unlike the radial one, it has closed-form integrals."""

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
        share = single + 0.5 * pair.sum(axis=1)
        active = np.flatnonzero(share > 1e-8 * share.sum())
        single, half = single[active, None], 0.5 * pair[np.ix_(active, active)]
        a, b = (a / lengths)[:, active].T, (b / lengths)[:, active].T
        value = np.empty((a.shape[1], b.shape[1]))
        width = max(_BLOCK // a.shape[1], 1)
        for i in range(0, b.shape[1], width):  # in blocks that stay in the processor's cache
            gap = (a[:, :, None] - b[:, None, i : i + width]).reshape(len(active), -1)
            factors = np.exp(-0.5 * gap**2)
            terms = factors * (single + half @ factors)
            value[:, i : i + width] = terms.sum(axis=0).reshape(a.shape[1], -1)
        return value

    def diagonal(self, parameters: Array, a: Array) -> Array:
        _, single, pair = self._split(parameters, a.shape[1])
        return np.full(len(a), single.sum() + 0.5 * pair.sum())

    def gram(self, x: Array) -> Gram:
        n, d = x.shape
        lower = np.tril_indices(n)
        distances = (x[lower[0]] - x[lower[1]]).T ** 2  # (d, n(n+1)/2)
        count = np.where(lower[0] == lower[1], 1.0, 2.0)  # each off-diagonal element counts twice

        def at(parameters: Array) -> tuple[Array, Callable[[Array], Array]]:
            lengths, single, pair = self._split(parameters, d)
            squared = distances / lengths[:, None] ** 2
            factors = np.exp(-0.5 * squared)
            partners = pair @ factors
            value = np.zeros((n, n))
            value[lower] = single @ factors + 0.5 * np.einsum("ij,ij->j", factors, partners)

            def contract(weights: Array) -> Array:
                weighted = factors * (weights[lower] * count)
                gradient_lengths = np.einsum("ij,ij->i", weighted * squared, single[:, None] + partners)
                products = weighted @ factors.T
                gradient_pairs = 2.0 * (pair * products)[np.triu_indices(d, 1)]
                return np.concatenate([gradient_lengths, 2.0 * single * weighted.sum(axis=1), gradient_pairs])

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
        pair[np.triu_indices(d, 1)] = np.exp(2.0 * parameters[2 * d :])
        return np.exp(parameters[:d]), np.exp(2.0 * parameters[d : 2 * d]), pair + pair.T


def _squared_distances(a: Array, b: Array) -> Array:
    # Shifting to a common centre first keeps the cancellation harmless for far-off, close-by points.
    center = a.mean(axis=0)
    a, b = a - center, b - center
    squared = np.sum(a * a, axis=1)[:, None] + np.sum(b * b, axis=1)[None, :] - 2.0 * (a @ b.T)
    return np.maximum(squared, 0.0)


def _matern52_profile(squared: Array) -> Array:
    r = _SQRT5 * np.sqrt(squared)
    return np.asarray((1.0 + r + r * r / 3.0) * np.exp(-r))


def _matern52_slope(squared: Array) -> Array:
    r = _SQRT5 * np.sqrt(squared)
    return np.asarray((5.0 / 3.0) * (1.0 + r) * np.exp(-r))


def _se(squared: Array) -> Array:
    return np.asarray(np.exp(-0.5 * squared))


SE = ArdKernel("se", _se, _se)
MATERN52 = ArdKernel("matern52", _matern52_profile, _matern52_slope)
MATERN52_PRODUCT = ProductMatern52()
ADDITIVE = AdditiveKernel()

BY_NAME: dict[str, Kernel] = {kernel.name: kernel for kernel in (SE, MATERN52, MATERN52_PRODUCT, ADDITIVE)}
