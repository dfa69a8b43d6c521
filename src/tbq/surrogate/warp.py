"""Coordinates in which a log-likelihood is easier to learn: log-depth of its values, whitened ones of its points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tbq.common.types import Array

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(20)  # of the moments of a warped process
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_ALMOST = 0.999  # of the depth that a value may lie above the top: at all of it h is infinite
_LINEAR = 3.0  # standard deviations of a population within which its coordinates are hardly compressed


@dataclass(frozen=True)
class Warp:
    """Log-depth: g = top + T (1 − e^{−h/T}), so that h = −T log(1 + (top − g)/T).

    Values thousands of nats below the maximum decide nothing, but a stationary process spends its length-scale on
    them. In h they are tens. No value exceeds top + T.

    A ``tilt`` lets the top rise with the parameters. Where one of them is the logarithm u of an unknown noise level,
    log L = c − n u − e^{−2u} R/2 with a sum of squares R of the others: under a top of c − n u the log-depth is
    log R − 2u, a function of the others and a straight line.
    """

    top: float
    depth: float  # T: nats below the top from where on values are compressed
    tilt: Array | None = None  # (d,): nats by which the top rises per unit of z
    bowl: Array | None = None  # (d, d + 1): B of the depth 1 + |B (z, 1)|² that is divided by

    def _top(self, z: Array) -> Array | float:
        return self.top if self.tilt is None else self.top + z @ self.tilt

    def forward(self, g: Array, z: Array) -> Array:
        """h of values g at points z."""
        return -self.depth * (self._log_depth(g, z) - self._log_bowl(z))

    def inverse(self, h: Array, z: Array) -> tuple[Array, Array]:
        """g and dg/dh; the exponent is bounded, where both are far below anything that matters."""
        slope = np.exp(np.clip(self._log_bowl(z) - h / self.depth, -30.0, 60.0))
        return self._top(z) + self.depth * (1.0 - slope), slope

    def log_jacobian(self, g: Array, z: Array) -> float:
        """Σ log dh/dg: what the density of values loses to the change of variable."""
        return -float(np.sum(self._log_depth(g, z)))

    def _log_depth(self, g: Array, z: Array) -> Array:
        return np.log1p(np.maximum(self._top(z) - g, -_ALMOST * self.depth) / self.depth)

    def _log_bowl(self, z: Array) -> Array | float:
        if self.bowl is None:
            return 0.0
        return np.log1p(np.sum((z @ self.bowl[:, :-1].T + self.bowl[:, -1]) ** 2, axis=1))

    def moments(self, slope: Array, sd: Array, gamma: float) -> tuple[Array, Array]:
        """log E[L^γ]/L(μ)^γ and log E[L^2γ]/E[L^γ]², for h ~ N(μ, sd²) with ``slope`` dg/dh at μ; shapes (n,).

        By Gauss–Hermite quadrature of g − g(μ) = T slope (1 − e^{−(h − μ)/T}).
        """
        rise = -np.expm1(np.minimum(-(sd / self.depth)[:, None] * _NODES, 50.0))
        exponent = np.clip(gamma * self.depth * slope[:, None] * rise, -1e4, 1e4)
        top = exponent.max(axis=1)  # at the node of the largest h
        relative = np.exp(exponent - top[:, None])
        first, second = np.log(relative @ _WEIGHTS), np.log(relative**2 @ _WEIGHTS)
        return top + first, np.maximum(second - 2.0 * first, 0.0)


@dataclass(frozen=True)
class Frame:
    """Whitened coordinates of a population, compressed far outside of it: x = 3 asinh((z − center) · matrix / 3).

    A log-likelihood that falls quadratically has a log-depth that falls linearly in them, however far it is followed.
    """

    center: Array  # (d,)
    matrix: Array  # (d, d)

    def __call__(self, z: Array) -> Array:
        return _LINEAR * np.arcsinh((z - self.center) @ self.matrix / _LINEAR)

    @staticmethod
    def of(z: Array) -> Frame:
        """Of a sample of the population."""
        center, covariance = z.mean(axis=0), np.atleast_2d(np.cov(z.T))
        scale = np.sqrt(np.diag(covariance)) + 1e-9
        values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
        return Frame(center, vectors / np.sqrt(np.maximum(values, 1e-9)) / scale[:, None])
