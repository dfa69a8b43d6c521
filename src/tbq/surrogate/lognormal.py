"""The surrogate of the paper: a Gaussian process on the log-likelihood, so that L^γ is log-normal.

With g ~ GP(μ, c) the log-likelihood (eq:PostLikelihood, eq:PostMomentsLike_jStage):

    E[L^γ] = exp(γμ + γ²σ²/2),   ρ(z, z') = exp(γ² c(z, z')),   ρ⁺(z, z') = exp(a(z) a(z')),

where a(z) = γ c(z, z⁺)/s(z⁺) and s² is the predictive variance of the new run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tbq.common.types import Array, IntArray
from tbq.gp.fitting import hyperparameter_draws
from tbq.gp.regression import GP, NUGGET, Projection
from tbq.surrogate.protocol import SPREAD_CLIP, rows_at

_FEW_TERMS = 8  # after which nodes may be dropped
_SMALL = 0.7  # |a| of nodes that may be: with |a| up to five, what they add shrinks at least threefold per term
_MOST_TERMS = 120  # more than |a| of five nats needs
_NEGLIGIBLE = 1e-10  # fraction of a sum that its further terms may have


@dataclass(frozen=True)
class Warp:
    """A soft floor under the log-likelihood: h(g) = −T log(1 + (top − g)/T) below ``top``, slope 1 above.

    Values thousands of nats below the maximum decide nothing, but a stationary process spends its length-scale on
    them. In h they are tens.
    """

    top: float
    depth: float  # nats below the top from where on values are compressed

    def forward(self, g: Array) -> Array:
        below = np.maximum(self.top - g, 0.0)
        return np.where(g > self.top, g - self.top, -self.depth * np.log1p(below / self.depth))

    def inverse(self, h: Array) -> tuple[Array, Array]:
        """g and dg/dh; the exponent is bounded, where both are far below anything that matters."""
        slope = np.exp(np.minimum(np.maximum(-h, 0.0) / self.depth, 12.0))
        return self.top + np.where(h > 0.0, h, -self.depth * (slope - 1.0)), slope

    def log_jacobian(self, g: Array) -> float:
        """Σ log dh/dg: what the density of values loses to the change of variable."""
        return -float(np.sum(np.log1p(np.maximum(self.top - g, 0.0) / self.depth)))


@dataclass(frozen=True)
class Points:
    """Mean and variance of the log-likelihood at points, linearised where the process is of a warped one."""

    latent: Projection
    mean: Array  # (n,)
    variance: Array  # (n,)
    slope: Array  # (n,): dg/dh of the warp there

    def take(self, index: IntArray) -> Points:
        return Points(self.latent.take(index), self.mean[index], self.variance[index], self.slope[index])


@dataclass(frozen=True)
class LogNormal:
    """Moments of exp(γ g) for a Gaussian process g. See :class:`tbq.surrogate.protocol.Surrogate`.

    ``cap`` is the largest γσ that enters the mean: exp(γμ + ½ min(γσ, cap)²). Infinity is the exact log-normal
    mean, which explodes where the surrogate knows nothing; 0 is the biased exp(γμ), which loses the mass of
    whatever is unsure. ``inflation`` multiplies all standard deviations of the process but the mean's: a Gaussian
    process that chose its own hyperparameters is too sure of itself. ``deflation`` multiplies the mean's.
    """

    gp: GP
    cap: float = 1.0
    inflation: float = 1.0
    warp: Warp | None = None
    deflation: float = 1.0

    @property
    def description(self) -> str:
        return f"{self.gp.kernel.name}, {self.gp.basis} mean" + (", warped" if self.warp else "")

    def at(self, z: Array) -> Points:
        latent = self.gp.project(z)
        mean, slope = self._unwarped(latent.mean)
        return Points(latent, mean, slope**2 * latent.variance, slope)

    def left_out(self, z: Array) -> tuple[Array, Array] | None:
        rows = rows_at(self.gp.x, z)
        if rows is None:
            return None
        latent, variance = (part[rows] for part in self.gp.leave_one_out())
        mean, slope = self._unwarped(latent)
        return mean, slope**2 * variance

    def _unwarped(self, latent: Array) -> tuple[Array, Array]:
        return (latent, np.ones_like(latent)) if self.warp is None else self.warp.inverse(latent)

    def covariance(self, a: Points, b: Points) -> Array:
        """Of the log-likelihood, without inflation."""
        value = self.gp.covariance(a.latent, b.latent)
        if self.warp is not None:
            value *= a.slope[:, None]
            value *= b.slope
        return value

    def log_likelihood(self, points: Points) -> tuple[Array, Array]:
        return points.mean, points.variance

    def log_mean(self, points: Points, gamma: float) -> Array:
        spread = np.minimum(self.deflation * gamma * np.sqrt(points.variance), self.cap)
        return gamma * points.mean + 0.5 * spread**2

    def log_ratio(self, a: Points, b: Points, gamma: float) -> Array:
        return (self.inflation * gamma) ** 2 * self.covariance(a, b)

    def log_ratio_diagonal(self, points: Points, gamma: float) -> Array:
        return (self.inflation * gamma) ** 2 * points.variance

    def revealed_log_ratio(self, new: Points, nodes: Points, gamma: float) -> Array:
        return self._shift(new, nodes, gamma) ** 2

    def revealed_variance(self, new: Points, nodes: Points, weights: Array, gamma: float) -> Array:
        """PEUR's double integral without pairing: Σ_kl w_k w_l (e^{a_k a_l} − 1) = Σ_n (Σ_k w_k a_kⁿ)²/n!."""
        return _double_sums(self._shift(new, nodes, gamma), weights)

    def condition_on_mean(self, z: Array) -> LogNormal:
        mean = float(self.gp.project(z[None, :]).mean[0])
        return replace(self, gp=self.gp.condition(z, mean, self._new_noise))

    def alternatives(self, n: int, rng: np.random.Generator) -> Iterator[LogNormal]:
        for gp in hyperparameter_draws(self.gp, n, rng):
            yield replace(self, gp=gp)

    @property
    def _new_noise(self) -> float:
        return float(np.min(self.gp.noise))

    def _shift(self, new: Points, nodes: Points, gamma: float) -> Array:
        """a: by how many nats (1 sd) a run at each new point moves each node, tempered; (n_new, n_nodes).

        The excess over ``SPREAD_CLIP`` is compressed into one nat.
        """
        # The noise keeps this smooth where the new point is a training point and c and σ both vanish.
        noise = self._new_noise + NUGGET * self.gp.kernel.diagonal(self.gp.parameters, new.latent.x)
        predictive = new.slope * np.sqrt(new.latent.variance + noise)
        a = self.covariance(new, nodes)
        a *= (self.inflation * gamma / predictive)[:, None]
        if _largest(a) > SPREAD_CLIP:
            large = np.abs(a) > SPREAD_CLIP
            excess = np.abs(a[large]) - SPREAD_CLIP
            a[large] = np.sign(a[large]) * (SPREAD_CLIP + excess / (1.0 + excess))
        return a


def _largest(a: Array) -> float:
    return max(float(np.max(a, initial=0.0)), -float(np.min(a, initial=0.0)))


def _double_sums(a: Array, weights: Array) -> Array:
    """Σ_n (Σ_k w_k a_kⁿ)²/n! for each row of a, to 1e-10 of itself.

    Sums of even powers bound all that follow: with x the largest a², term n + m is at most xᵐ n!/(n + m)! times term n.
    Where a few nodes need many terms, the others are dropped as soon as what they add is negligible.
    """
    x = _largest(a) ** 2
    power, total, factorial = a * weights, np.zeros(len(a)), 1.0
    for n in range(1, _MOST_TERMS):
        factorial *= n
        sums = power.sum(axis=1)
        term = sums**2 / factorial
        total += term
        rest = x / (n + 1)
        if n % 2 == 0 and rest < 0.5 and np.all(2.0 * rest * term <= _NEGLIGIBLE * total):
            break
        if n % _FEW_TERMS == 0 and a.shape[1]:
            large = np.maximum(np.max(a, axis=0), -np.min(a, axis=0)) > _SMALL
            small = sums - power[:, large].sum(axis=1)
            if np.all(2.0 * small * (2.0 * sums + small) / factorial <= _NEGLIGIBLE * total):
                a, power = a[:, large], power[:, large]
        power *= a
    return total
