"""Where the likelihood is zero. A log-likelihood of −inf is knowledge, but no number that a surrogate could learn.

The border is the zero of a Gaussian process h whose signs are the outcomes of the runs, and the likelihood is
L·F with F = [h > 0]. Its moments are those of L times those of F, which are normal orthant probabilities:

    E[F] = Φ(t),   E[F F'] = Φ₂(t, t'; r),   with t = mean/sd of h and r its correlation.

A run at z⁺ reveals F⁺, which is 0 or 1: E[F | F⁺] is linear in F⁺, so what it reveals of F and F' is
Cov(F, F⁺) Cov(F', F⁺)/Var(F⁺). It reveals L only where it is feasible, with probability E[F⁺].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from tbq.common.types import Array, BoolArray, IntArray
from tbq.gp import fitting, probit
from tbq.gp import regression as gps
from tbq.gp.kernels import SE
from tbq.surrogate.protocol import Surrogate, log_expm1
from tbq.surrogate.selection import pace

_LEAST_VARIANCE = 1e-6  # of h
_STEEPEST = 8.0  # |t| beyond which an outcome is as good as certain
_CORRELATED = 0.999
_NO_VARIANCE = 1e-12  # of h
_AT_RUN = 1.0 - 1e-9  # correlation at a run itself
_ANGLES, _ANGLE_WEIGHTS = (np.polynomial.legendre.leggauss(12)[i] for i in (0, 1))

_NOTHING = 1e9  # nats below any likelihood that counts


@dataclass(frozen=True)
class Side:
    """Which side of the border points are on: t = mean/sd of the process, and what correlations need."""

    latent: gps.Projection
    sd: Array  # (n,)
    t: Array  # (n,)

    @property
    def probability(self) -> Array:
        return special.ndtr(self.t)

    def take(self, index: IntArray) -> Side:
        return Side(self.latent.take(index), self.sd[index], self.t[index])


@dataclass(frozen=True)
class Region:
    """Belief about where runs succeed: where a process is positive."""

    gp: gps.GP
    fitted_at: int = 0  # outcomes that its hyperparameters were fitted to

    def at(self, z: Array) -> Side:
        latent = self.gp.project(z[:, : self.gp.x.shape[1]])  # noise parameters have no border
        sd = np.sqrt(latent.variance + _LEAST_VARIANCE)
        return Side(latent, sd, self._beside_a_run(latent))

    @cached_property
    def _runs(self) -> gps.Projection:
        return self.gp.project(self.gp.x)

    def _beside_a_run(self, latent: gps.Projection) -> Array:
        """t such that Φ(t) is the chance to be on the right side given how the nearest run ended, shape (n,).

        By the normal process alone, a point next to a hundred successes would fail by a chance of a few tenths of a
        percent, all such points together: a run's site is a normal factor, and its outcome is a sign. Without the site
        of the run that h at the point depends on most, both are normal, and the chance given its sign is an orthant's.
        """
        sd, of_run = (np.sqrt(np.maximum(points.variance, _NO_VARIANCE)) for points in (latent, self._runs))
        r = self.gp.covariance(latent, self._runs) / np.outer(sd, of_run)
        nearest = np.argmax(np.abs(r), axis=1)
        r, sign, of_run = r[np.arange(len(r)), nearest], np.sign(self.gp.y[nearest]), of_run[nearest]
        mean, variance, site = self._runs.mean[nearest], of_run**2, 1.0 / self.gp.noise[nearest]
        free = 1.0 / np.maximum(1.0 / variance - site, 1e-10)  # variance of the run's h without its site
        free_mean = free * (mean / variance - site * self.gp.y[nearest])
        slope = r * sd / of_run  # of h at the point by h at the run
        width = np.sqrt(np.maximum(sd**2 + slope**2 * (free - variance), _NO_VARIANCE))
        t = np.clip((latent.mean + slope * (free_mean - mean)) / width, -_STEEPEST, _STEEPEST)
        t_run = np.clip(sign * free_mean / np.sqrt(free), -_STEEPEST, _STEEPEST)
        both = sign * np.clip(slope * np.sqrt(free) / width, -_AT_RUN, _AT_RUN)
        known = special.ndtr(t_run)
        right = special.ndtr(t) + _excess(t, t_run, both) / known
        wrong = special.ndtr(-t) - _excess(t, t_run, both) / known
        return np.where(right < wrong, _quantile(right), -_quantile(wrong))

    def log_probability(self, z: Array) -> Array:
        return special.log_ndtr(self.at(z).t)

    def covariance(self, a: Side, b: Side) -> Array:
        """Cov(F, F'), shape (n, m)."""
        r = self.gp.covariance(a.latent, b.latent) / np.outer(a.sd, b.sd)
        return _excess(a.t[:, None], b.t, np.clip(r, -_CORRELATED, _CORRELATED))

    def condition_on_mean(self, z: Array) -> Region:
        """After a run at z that ends as expected."""
        z = z[: self.gp.x.shape[1]]
        latent = self.gp.project(z[None, :])
        _, site = probit.match(np.where(latent.mean > 0.0, 1.0, -1.0), latent.mean, latent.variance + _LEAST_VARIANCE)
        return replace(self, gp=self.gp.condition(z, float(site.values[0]), float(site.noise[0])))

    def alternatives(self, n: int, rng: np.random.Generator) -> Iterator[Region]:
        """The same outcomes with other plausible hyperparameters."""
        gp, sign = self.gp, np.sign(self.gp.y)  # a site's value has the sign of its outcome
        for other in fitting.hyperparameter_draws(gp, n, rng):
            yield Region(probit.at(gp.x, sign, gp.kernel, gp.basis, other.parameters))


def _excess(t: Array, other: Array, r: Array) -> Array:
    """Φ₂(t, t'; r) − Φ(t) Φ(t'): Plackett's integral of the bivariate normal density over the correlation."""
    top = np.arcsin(r)
    squares, product = 0.5 * (t**2 + other**2), t * other
    total = np.zeros_like(top)
    for x, weight in zip(_ANGLES, _ANGLE_WEIGHTS, strict=True):
        sine = np.sin(0.5 * (x + 1.0) * top)
        total += weight * np.exp((product * sine - squares) / (1.0 - sine**2))
    return total * top / (4.0 * np.pi)


def _quantile(p: Array) -> Array:
    """Φ⁻¹(p), no further out than an outcome that is as good as certain."""
    return np.maximum(special.ndtri(np.clip(p, 1e-300, 1.0)), -_STEEPEST)


def learn(z: Array, good: BoolArray, last: Region | None) -> Region | None:
    """The region in which runs end well, from where they did and did not; None while all or none did.

    The linear mean keeps what lies far behind the border on its side; a constant one would doubt it again.
    """
    if good.all() or not good.any():
        return None
    sign = np.where(good, 1.0, -1.0)
    if last is not None and len(z) - last.fitted_at < pace(len(z)):
        start = probit.Sites.of(last.gp, z)
        return replace(last, gp=probit.at(z, sign, SE, "linear", last.gp.parameters, start))
    return Region(probit.fit(z, sign, SE, "linear", None if last is None else last.gp), len(z))


@dataclass(frozen=True)
class Points:
    """Points prepared for the likelihood where it is not zero, and their side of the border."""

    inner: Any
    side: Side

    def take(self, index: IntArray) -> Points:
        return Points(self.inner.take(index), self.side.take(index))


@dataclass(frozen=True)
class Bounded:
    """A :class:`tbq.surrogate.protocol.Surrogate` times the belief about where the likelihood is not zero.

    ``inflation`` multiplies the border's part of all standard deviations: a smooth process knows no corners.
    """

    inner: Surrogate[Any]
    region: Region
    inflation: float = 1.0

    def __repr__(self) -> str:
        return f"<Bounded: {self.description}>"

    @property
    def description(self) -> str:
        return f"{self.inner.description}, zero beyond a learned border"

    def at(self, z: Array) -> Points:
        return Points(self.inner.at(z), self.region.at(z))

    def left_out(self, z: Array) -> tuple[Array, Array] | None:
        """Mean and variance of log L where L is not zero."""
        return self.inner.left_out(z)

    @property
    def unguarded(self) -> Bounded:
        """Without the guard of what it is made of."""
        return replace(self, inner=self.inner.unguarded)

    def log_upper(self, points: Points, deviations: float) -> Array:
        """Zero likelihood where that is likelier than not."""
        return np.where(points.side.t > 0.0, self.inner.log_upper(points.inner, deviations), -_NOTHING)

    def log_mean(self, points: Points, gamma: float) -> Array:
        return self.inner.log_mean(points.inner, gamma) + special.log_ndtr(points.side.t)

    def log_likelihood(self, points: Points) -> tuple[Array, Array]:
        """Mean and variance of log L where L is not zero."""
        return self.inner.log_likelihood(points.inner)

    def log_ratio(self, a: Points, b: Points, gamma: float) -> Array:
        relative = self.region.covariance(a.side, b.side) / np.outer(a.side.probability, b.side.probability)
        relative *= np.where(relative > 0.0, self.inflation**2, 1.0)
        return self.inner.log_ratio(a.inner, b.inner, gamma) + np.log1p(np.maximum(relative, -1.0 + 1e-12))

    def log_ratio_diagonal(self, points: Points, gamma: float) -> Array:
        odds = np.exp(special.log_ndtr(-points.side.t) - special.log_ndtr(points.side.t))
        return self.inner.log_ratio_diagonal(points.inner, gamma) + np.log1p(self.inflation**2 * odds)

    def revealed_log_ratio(self, new: Points, nodes: Points, gamma: float) -> Array:
        of_value = self.inner.revealed_log_ratio(new.inner, nodes.inner, gamma)
        log_p = special.log_ndtr(new.side.t)[:, None]
        with np.errstate(divide="ignore"):
            revealed = np.logaddexp(log_p + log_expm1(of_value), 2.0 * np.log(np.abs(self._border_shift(new, nodes))))
        return np.logaddexp(0.0, revealed)

    def revealed_variance(
        self, new: Points, nodes: Points, weights: Array, gamma: float, *, ranking: bool = False
    ) -> Array:
        of_value = self.inner.revealed_variance(new.inner, nodes.inner, weights, gamma, ranking=ranking)
        return new.side.probability * of_value + (self._border_shift(new, nodes) @ weights) ** 2

    def _border_shift(self, new: Points, nodes: Points) -> Array:
        """By what fraction of itself (1 sd) a run at each new point moves E[F] at each node; (n_new, n_nodes)."""
        p = new.side.probability
        shift = self.region.covariance(new.side, nodes.side) / np.outer(np.sqrt(p * (1.0 - p)), nodes.side.probability)
        return self.inflation * shift

    def condition_on_mean(self, z: Array) -> Bounded:
        return replace(self, inner=self.inner.condition_on_mean(z), region=self.region.condition_on_mean(z))

    def alternatives(self, n: int, rng: np.random.Generator) -> Iterator[Bounded]:
        for inner, region in zip(self.inner.alternatives(n, rng), self.region.alternatives(n, rng), strict=False):
            yield replace(self, inner=inner, region=region)
