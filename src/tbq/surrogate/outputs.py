"""The surrogate for Gaussian noise: Gaussian processes on what the simulator returns.

For each component j (an output, or a principal component of many) let t be the misfit of its predicted mean and s its
variance, both in units of the noise, c the covariance between two points, and A = 1 + γs. Then L^γ has

    E[L^γ] = Π A^(−1/2) exp(−γt²/2A),   ρ(z, z') = Π M(√γ t/√A, √γ t'/√A'; γc/√(AA')),

with Mehler's kernel M(x, y; r) = (1 − r²)^(−1/2) exp{−(r²(x² + y²) − 2rxy) / 2(1 − r²)}. A run reveals all outputs at
once: ρ⁺ is ρ with c replaced by a(z) a(z'), a(z) = c(z, z⁺)/sd of the new output. No quadrature over the outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tbq.common.types import Array, IntArray
from tbq.gp.fitting import hyperparameter_draws
from tbq.gp.regression import GP, NUGGET, Projection
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.surrogate.protocol import SPREAD_CLIP, rows_at

_PAIRS_AT_ONCE = 2**18  # elements of a block of the double sum: it stays in the processor's cache


@dataclass(frozen=True)
class Component:
    """A process on one component of the misfit in units of the noise, or on the logarithm of a positive output."""

    gp: GP
    experiment: int  # whose noise it is measured by
    logarithm_of: tuple[float, float] | None = None  # observed value and noise of an output modelled by its logarithm

    def misfit(self, latent: Array) -> tuple[Array, Array]:
        """The misfit that a value of the process means, and its slope."""
        if self.logarithm_of is None:
            return latent, np.ones_like(latent)
        observed, sd = self.logarithm_of
        output = np.exp(latent)
        return (output - observed) / sd, output / sd

    def new_noise(self, x: Array) -> Array:
        """Variance of what a new run would return about the process."""
        return float(np.min(self.gp.noise)) + NUGGET * self.gp.kernel.diagonal(self.gp.parameters, x)


@dataclass(frozen=True)
class Points:
    """Misfits and variances of all components at points, in units of the noise there; (components, n)."""

    latent: tuple[Projection, ...]
    misfit: Array  # (components, n)
    variance: Array  # (components, n)
    slope: Array  # (components, n): of the misfit in the process's value
    log_best: Array  # (n,): the log-likelihood if all components fitted

    def take(self, index: IntArray) -> Points:
        latent = tuple(p.take(index) for p in self.latent)
        columns = (self.misfit[:, index], self.variance[:, index], self.slope[:, index])
        return Points(latent, *columns, self.log_best[index])


@dataclass(frozen=True)
class Outputs:
    """Moments of a Gaussian likelihood for processes on its outputs. See :class:`tbq.surrogate.protocol.Surrogate`.

    ``inflation`` multiplies all standard deviations but the mean's, as in :class:`tbq.surrogate.lognormal.LogNormal`.
    """

    components: tuple[Component, ...]
    outside: Array  # (experiments,): squared misfit that no component carries
    likelihood: GaussianLikelihood
    prior: Prior
    inflation: float = 1.0

    @property
    def description(self) -> str:
        n, m = len(self.components), len(self.likelihood.observed)
        what = f"{m} outputs" if n == m else f"{n} principal components of {m} outputs"
        kinds = sorted({f"{c.gp.kernel.name}{' of the logarithm' if c.logarithm_of else ''}" for c in self.components})
        return f"{what}: {', '.join(kinds)}"

    def at(self, z: Array) -> Points:
        latent = tuple(c.gp.project(z) for c in self.components)
        return self._points(z, [p.mean for p in latent], [p.variance for p in latent], latent)

    def left_out(self, z: Array) -> tuple[Array, Array] | None:
        """As of any surrogate; each process knows only the runs in which its output is not missing."""
        means, variances = [], []
        for c in self.components:
            rows = rows_at(c.gp.x, z)
            if rows is None:
                return None
            mean, variance = c.gp.leave_one_out()
            means.append(mean[rows])
            variances.append(variance[rows])
        return self.log_likelihood(self._points(z, means, variances, ()))

    def log_likelihood(self, points: Points) -> tuple[Array, Array]:
        t, s = points.misfit, points.variance
        mean = points.log_best - 0.5 * np.sum(t**2 + s, axis=0)
        return mean, np.sum(0.5 * s**2 + t**2 * s, axis=0)

    def log_mean(self, points: Points, gamma: float) -> Array:
        a = 1.0 + gamma * points.variance
        return gamma * points.log_best - 0.5 * np.sum(np.log(a) + gamma * points.misfit**2 / a, axis=0)

    def log_ratio(self, a: Points, b: Points, gamma: float) -> Array:
        (x, wide_a), (y, wide_b) = self._standardised(a, gamma), self._standardised(b, gamma)
        total = np.zeros((x.shape[1], y.shape[1]))
        for j, covariance in enumerate(self._covariances(a, b)):
            r = gamma * self.inflation**2 * covariance / np.outer(wide_a[j], wide_b[j])
            total += log_mehler(x[j][:, None], y[j][None, :], r)
        return total

    def log_ratio_diagonal(self, points: Points, gamma: float) -> Array:
        s = gamma * self.inflation**2 * points.variance
        x = np.sqrt(gamma) * points.misfit / np.sqrt(1.0 + s)
        return np.asarray(np.sum(log_mehler_diagonal(x, s / (1.0 + s)), axis=0))

    def revealed_log_ratio(self, new: Points, nodes: Points, gamma: float) -> Array:
        x, _ = self._standardised(nodes, gamma)
        total = np.zeros((len(new.log_best), len(nodes.log_best)))
        for j, b in enumerate(self._fractions(new, nodes, gamma)):
            total += log_mehler_diagonal(x[j], b**2)
        return clipped(total)

    def revealed_variance(self, new: Points, nodes: Points, weights: Array, gamma: float) -> Array:
        x, _ = self._standardised(nodes, gamma)
        fractions = np.stack(list(self._fractions(new, nodes, gamma)))  # (components, n_new, n_nodes)
        block = max(_PAIRS_AT_ONCE // len(weights) ** 2, 1)
        parts = [_double_sum(fractions[:, i : i + block], x, weights) for i in range(0, fractions.shape[1], block)]
        return np.concatenate(parts)

    def condition_on_mean(self, z: Array) -> Outputs:
        def known(c: Component) -> Component:
            mean = float(c.gp.project(z[None, :]).mean[0])
            return replace(c, gp=c.gp.condition(z, mean, float(np.min(c.gp.noise))))

        return replace(self, components=tuple(known(c) for c in self.components))

    def alternatives(self, n: int, rng: np.random.Generator) -> Iterator[Outputs]:
        draws = [list(hyperparameter_draws(c.gp, n, rng)) for c in self.components]
        for gps in zip(*draws, strict=False):
            pairs = zip(self.components, gps, strict=True)
            yield replace(self, components=tuple(replace(c, gp=gp) for c, gp in pairs))

    # --- parts ----------------------------------------------------------------------------------------------

    def _points(self, z: Array, means: list[Array], variances: list[Array], latent: tuple[Projection, ...]) -> Points:
        """From the values of the processes to misfits."""
        log_scales = self._log_scales(z)
        misfits, slopes = zip(*(c.misfit(m) for c, m in zip(self.components, means, strict=True)), strict=True)
        unit = np.exp(-log_scales[:, [c.experiment for c in self.components]]).T
        slope = np.array(slopes) * unit
        log_best = self.likelihood.log_constant(log_scales) - 0.5 * np.exp(-2.0 * log_scales) @ self.outside
        return Points(latent, np.array(misfits) * unit, slope**2 * np.array(variances), slope, log_best)

    def _log_scales(self, z: Array) -> Array:
        if not self.likelihood.scaled:
            return np.zeros((len(z), len(self.likelihood.experiments)))
        return self.likelihood.log_scales(self.prior.from_working(z))

    def _standardised(self, points: Points, gamma: float) -> tuple[Array, Array]:
        """x = √γ t/√A and √A, with the inflated variance."""
        wide = np.sqrt(1.0 + gamma * self.inflation**2 * points.variance)
        return np.sqrt(gamma) * points.misfit / wide, wide

    def _covariances(self, a: Points, b: Points) -> Iterator[Array]:
        """Of each component's misfit, without inflation."""
        for j, component in enumerate(self.components):
            yield component.gp.covariance(a.latent[j], b.latent[j]) * np.outer(a.slope[j], b.slope[j])

    def _fractions(self, new: Points, nodes: Points, gamma: float) -> Iterator[Array]:
        """√γ a/√A of each component, (n_new, n_nodes): how much of a node's misfit a run at a new point reveals."""
        _, wide = self._standardised(nodes, gamma)
        for j, covariance in enumerate(self._covariances(new, nodes)):
            latent = new.latent[j]
            sd = np.abs(new.slope[j]) * np.sqrt(latent.variance + self.components[j].new_noise(latent.x))
            fraction = np.sqrt(gamma) * self.inflation * covariance / sd[:, None] / wide[j]
            yield np.clip(fraction, -1.0 + 1e-9, 1.0 - 1e-9)  # rounding where the new point is a node


def log_mehler(x: Array, y: Array, r: Array) -> Array:
    """log of Mehler's kernel Σ_n rⁿ He_n(x) He_n(y)/n!, for |r| < 1."""
    gap = np.maximum(1.0 - r * r, 1e-12)
    return -0.5 * np.log(gap) - 0.5 * (r * r * (x * x + y * y) - 2.0 * r * x * y) / gap


def log_mehler_diagonal(x: Array, r: Array) -> Array:
    """The same at y = x, where nothing cancels."""
    return -0.5 * np.log(np.maximum(1.0 - r * r, 1e-12)) + x * x * r / (1.0 + r)


def clipped(log_ratio: Array) -> Array:
    """Beyond four nats (squared) an expectation rests on events no one will see: the excess counts as one."""
    excess = np.maximum(log_ratio - SPREAD_CLIP**2, 0.0)
    return np.minimum(log_ratio, SPREAD_CLIP**2) + excess / (1.0 + excess)


def _double_sum(fractions: Array, x: Array, weights: Array) -> Array:
    """Σ_kl w_k w_l (ρ⁺_kl − 1), for fractions (components, n, nodes) and standardised misfits (components, nodes)."""
    n, k = fractions.shape[1:]
    exponent, product = np.zeros((n, k, k)), np.ones((n, k, k))
    for b, xj in zip(fractions, x, strict=True):
        r = b[:, :, None] * b[:, None, :]
        squared = r * r
        gap = 1.0 - squared
        product *= gap
        r *= np.outer(xj, xj)
        squared *= 0.5 * (xj[:, None] ** 2 + xj[None, :] ** 2)
        r -= squared
        r /= gap
        exponent += r
    ratio = np.expm1(clipped(exponent - 0.5 * np.log(np.maximum(product, 1e-300))))
    return np.asarray(np.einsum("nkl,k,l->n", ratio, weights, weights, optimize=True))
