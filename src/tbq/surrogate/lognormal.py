"""The surrogate of the paper: a Gaussian process on the log-likelihood, so that L^γ is log-normal.

With g ~ GP(μ, c) the log-likelihood (eq:PostLikelihood, eq:PostMomentsLike_jStage):

    E[L^γ] = exp(γμ + γ²σ²/2),   ρ(z, z') = exp(γ² c(z, z')),   ρ⁺(z, z') = exp(a(z) a(z')),

where a(z) = γ c(z, z⁺)/s(z⁺) and s² is the predictive variance of the new run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from tbq.common.types import Array, BoolArray, IntArray
from tbq.gp.fitting import hyperparameter_draws
from tbq.gp.regression import GP, NUGGET, Projection
from tbq.surrogate.guard import Guard
from tbq.surrogate.protocol import SPREAD_CLIP, are_among, rows_at
from tbq.surrogate.warp import Frame, Warp

_FEW_TERMS = 8  # after which nodes may be dropped
_SMALL = 0.7  # |a| of nodes that may be: with |a| up to five, what they add shrinks at least threefold per term
_MOST_TERMS = 120  # more than |a| of five nats needs
_SURE = 1.0  # squared nats of variance up to which a model of values knows better than a guard
_NEGLIGIBLE = 1e-10  # fraction of a sum that its further terms may have


@dataclass(frozen=True)
class Points:
    """Mean and variance of the log-likelihood at points, linearised where the process is of a warped one."""

    z: Array  # (n, d)
    latent: Projection
    mean: Array  # (n,)
    variance: Array  # (n,)
    slope: Array  # (n,): dg/dh of the warp there; 0 where a guard knows better
    deep: BoolArray | None = None  # (n,): where a guard expects a deep value

    slopes: dict[float, Array] = field(default_factory=dict)  # by γ: what was computed of them, kept for the next call

    def take(self, index: IntArray) -> Points:
        deep = None if self.deep is None else self.deep[index]
        return Points(
            self.z[index], self.latent.take(index), self.mean[index], self.variance[index], self.slope[index], deep
        )


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
    frame: Frame | None = None  # coordinates of the process, where they are not the working ones
    ceiling: float = (
        np.inf
    )  # nats beyond which no log-likelihood is expected, whatever the process says far from all runs
    clip: float = SPREAD_CLIP  # nats (1 sd) that anything is believed to move the log-likelihood by
    noise: float = 0.0  # squared nats that a further run's log-likelihood varies by
    level: float = 0.0  # of that, what was learned rather than given
    guard: Guard | None = None  # believed where it expects a deep value
    local: bool = False  # whether deep runs were not learned

    def __repr__(self) -> str:
        return f"<LogNormal: {self.description}>"

    @property
    def description(self) -> str:
        how = "" if self.warp is None else ", warped" if self.warp.tilt is None else ", tilted"
        how += ", bowl" if self.warp is not None and self.warp.bowl is not None else ""
        how += ", rotated" if self.frame else ""
        how += ", local" if self.local else ""
        return f"{self.gp.kernel.name}, {self.gp.basis} mean{how}"

    @property
    def unguarded(self) -> LogNormal:
        """What the process alone believes; a local one believes nothing of where it has no runs."""
        return self if self.local else replace(self, guard=None)

    def _framed(self, z: Array) -> Array:
        return z if self.frame is None else self.frame(z)

    def at(self, z: Array) -> Points:
        latent = self.gp.project(self._framed(z))
        mean, slope = self._unwarped(latent.mean, z)
        mean = np.minimum(mean, self.ceiling)
        if self.guard is None:
            return Points(z, latent, mean, slope**2 * latent.variance, slope)
        expected, deep = self.guard.expected(z)
        deep &= slope**2 * latent.variance > _SURE
        mean, slope = np.where(deep, np.minimum(expected, mean), mean), np.where(deep, 0.0, slope)
        return Points(z, latent, mean, slope**2 * latent.variance, slope, deep)

    def left_out(self, z: Array) -> tuple[Array, Array] | None:
        x = self._framed(z)
        learned = are_among(self.gp.x, x) if self.local else np.ones(len(z), dtype=bool)
        rows = rows_at(self.gp.x, x[learned])
        if rows is None:
            return None
        latent, variance = (part[rows] for part in self.gp.leave_one_out())
        mean, slope = self._unwarped(latent, z[learned])
        found = np.full((2, len(z)), np.nan)
        found[:, learned] = mean, slope**2 * variance
        return found[0], found[1]

    def _unwarped(self, latent: Array, z: Array) -> tuple[Array, Array]:
        return (latent, np.ones_like(latent)) if self.warp is None else self.warp.inverse(latent, z)

    def covariance(self, a: Points, b: Points, gamma: float = 1.0) -> Array:
        """Of the log-likelihood, without inflation, such that the moments of L^γ are right."""
        value = self.gp.covariance(a.latent, b.latent)
        value *= self._slopes(a, gamma)[:, None]
        value *= self._slopes(b, gamma)
        return value

    def _slopes(self, points: Points, gamma: float) -> Array:
        """d log L/dh for which a linearised process has the spread that L^γ has, up to what is believed; (n,)."""
        if gamma not in points.slopes:
            sd = np.sqrt(points.latent.variance)
            spread = gamma * points.slope * sd
            small = spread < 1e-3  # linear there, and the quotient would be of zeros
            if self.warp is not None:
                spread = np.sqrt(self.warp.moments(points.slope, sd, gamma)[1])
            if np.isfinite(self.ceiling):
                spread = np.minimum(spread, self.clip)
            points.slopes[gamma] = np.where(small, points.slope, spread / (gamma * sd + 1e-300))
        return points.slopes[gamma]

    def log_likelihood(self, points: Points) -> tuple[Array, Array]:
        return points.mean, points.variance

    def log_upper(self, points: Points, deviations: float) -> Array:
        """log L some inflated standard deviations above what is expected, shape (n,); no more than a guard allows."""
        sd = deviations * self.inflation * np.sqrt(points.latent.variance)
        if self.warp is None:
            upper = np.minimum(points.latent.mean, self.ceiling) + sd
        else:
            mean, slope = self._unwarped(points.latent.mean, points.z)
            upper = np.minimum(mean, self.ceiling) - self.warp.depth * slope * np.expm1(-sd / self.warp.depth)
        if self.guard is None or points.deep is None:
            return upper
        of_depths = self.guard.log_upper(points.z, deviations * self.inflation)
        sure = ~points.deep & (points.variance <= _SURE)
        return np.where(sure, upper, np.minimum(upper, np.maximum(of_depths, points.mean)))

    def log_mean(self, points: Points, gamma: float) -> Array:
        if self.warp is None:
            spread = np.minimum(self.deflation * gamma * np.sqrt(points.variance), self.cap)
            return gamma * points.mean + 0.5 * spread**2
        rise, _ = self.warp.moments(points.slope, self.deflation * np.sqrt(points.latent.variance), gamma)
        return gamma * points.mean + np.clip(rise, 0.0, 0.5 * self.cap**2)

    def log_ratio(self, a: Points, b: Points, gamma: float) -> Array:
        return (self.inflation * gamma) ** 2 * self.covariance(a, b, gamma)

    def log_ratio_diagonal(self, points: Points, gamma: float) -> Array:
        return (self.inflation * gamma * self._slopes(points, gamma)) ** 2 * points.latent.variance

    def revealed_log_ratio(self, new: Points, nodes: Points, gamma: float) -> Array:
        return self._shift(new, nodes, gamma) ** 2

    def revealed_variance(
        self, new: Points, nodes: Points, weights: Array, gamma: float, *, ranking: bool = False
    ) -> Array:
        """PEUR's double integral without pairing: Σ_kl w_k w_l (e^{a_k a_l} − 1) = Σ_n (Σ_k w_k a_kⁿ)²/n!."""
        return _double_sums(self._shift(new, nodes, gamma), weights)

    def condition_on_mean(self, z: Array) -> LogNormal:
        x = self._framed(z[None, :])
        mean = float(self.gp.project(x).mean[0])
        noise = self._new_noise(self._unwarped(np.array([mean]), z[None, :])[1])
        return replace(self, gp=self.gp.condition(x[0], mean, float(noise[0])))

    def at_most(self, z: Array, ceilings: Array) -> LogNormal:
        """As if runs at those of the points z where more is expected had returned these ceilings; (n, d) and (n,)."""
        lowered, free = self, np.ones(len(z), dtype=bool)
        while True:
            above = np.where(free, lowered.at(z).mean - ceilings, 0.0)
            worst = int(np.argmax(above))
            if above[worst] <= 0.0:
                return lowered
            free[worst] = False
            point, value = z[worst][None, :], ceilings[worst : worst + 1]
            value = value if self.warp is None else self.warp.forward(value, point)
            gp = lowered.gp.condition(self._framed(point)[0], float(value[0]), float(np.min(self.gp.noise)))
            lowered = replace(lowered, gp=gp)

    def alternatives(self, n: int, rng: np.random.Generator) -> Iterator[LogNormal]:
        for gp in hyperparameter_draws(self.gp, n, rng):
            yield replace(self, gp=gp)

    def _new_noise(self, slope: Array) -> Array:
        """Of the process's values, where dg/dh is ``slope``; (n,)."""
        if self.noise:
            return self.noise / np.maximum(slope, 1e-9) ** 2
        return np.full(len(slope), np.min(self.gp.noise))

    def _shift(self, new: Points, nodes: Points, gamma: float) -> Array:
        """a: by how many nats (1 sd) a run at each new point moves each node, tempered; (n_new, n_nodes).

        The excess over ``clip`` is compressed into one nat.
        """
        # The noise keeps this smooth where the new point is a training point and c and σ both vanish.
        noise = self._new_noise(new.slope) + NUGGET * self.gp.kernel.diagonal(self.gp.parameters, new.latent.x)
        predictive = np.sqrt(new.latent.variance + noise)
        a = self.gp.covariance(new.latent, nodes.latent)
        a *= self._slopes(nodes, gamma)
        a *= (self.inflation * gamma / predictive)[:, None]
        if _largest(a) > self.clip:
            large = np.abs(a) > self.clip
            excess = np.abs(a[large]) - self.clip
            a[large] = np.sign(a[large]) * (self.clip + excess / (1.0 + excess))
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
