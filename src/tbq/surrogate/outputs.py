"""The surrogate for Gaussian noise: Gaussian processes on what the simulator returns.

For each component j (an output, or a principal component of many) let t be the misfit of its predicted mean and s its
variance, both in units of the noise, c the covariance between two points, and A = 1 + γs. Then L^γ has

    E[L^γ] = Π A^(−1/2) exp(−γt²/2A),   ρ(z, z') = Π M(√γ t/√A, √γ t'/√A'; γc/√(AA')),

with Mehler's kernel M(x, y; r) = (1 − r²)^(−1/2) exp{−(r²(x² + y²) − 2rxy) / 2(1 − r²)}. A run reveals all outputs at
once: ρ⁺ is ρ with c replaced by a(z) a(z'), a(z) = c(z, z⁺)/sd of the new output. No quadrature over the outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tbq.common.types import Array, IntArray
from tbq.gp.levels import Processes, hyperparameter_draws
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.surrogate.protocol import SPREAD_CLIP, rows_at

_AT_ONCE = 2**18  # elements of a block of the double sum: it stays in the processor's cache


@dataclass(frozen=True)
class Component:
    """What a process is of: a component of the misfit in units of the noise, or the logarithm of a positive output."""

    experiment: int  # whose noise it is measured by
    logarithm_of: tuple[float, float] | None = None  # observed value and noise of an output modelled by its logarithm


@dataclass(frozen=True)
class Points:
    """Misfits and variances of all components at points, in units of the noise there; (components, n)."""

    latent: Any  # projected by the processes; None where only moments of the log-likelihood are wanted
    misfit: Array  # (components, n)
    variance: Array  # (components, n)
    slope: Array  # (components, n): of the misfit in the process's value
    log_best: Array  # (n,): the log-likelihood if all components fitted

    def take(self, index: IntArray) -> Points:
        latent = None if self.latent is None else self.latent.take(index)
        columns = (self.misfit[:, index], self.variance[:, index], self.slope[:, index])
        return Points(latent, *columns, self.log_best[index])


@dataclass(frozen=True)
class Outputs:
    """Moments of a Gaussian likelihood for processes on its outputs. See :class:`tbq.surrogate.protocol.Surrogate`.

    ``inflation`` multiplies all standard deviations but the mean's, as in :class:`tbq.surrogate.lognormal.LogNormal`.
    """

    batch: Processes  # the processes, one for each component
    components: tuple[Component, ...]
    outside: Array  # (experiments,): squared misfit that no component carries
    likelihood: GaussianLikelihood
    prior: Prior
    inflation: float = 1.0

    def __repr__(self) -> str:
        return f"<Outputs: {self.description}>"

    @property
    def description(self) -> str:
        n, m = len(self.components), len(self.likelihood.observed)
        what = f"{m} outputs" if n == m else f"{n} principal components of {m} outputs"
        forms = {" of the logarithm" if c.logarithm_of else "" for c in self.components}
        return f"{what}: {', '.join(self.batch.kernel.name + form for form in sorted(forms))}"

    @property
    def unguarded(self) -> Outputs:
        return self

    def at(self, z: Array) -> Points:
        latent = self.batch.project(z)
        return self._points(z, latent.mean, latent.variance, latent)

    def at_runs(self) -> Points:
        """The runs it was learned from."""
        return self.at(self.batch.x)

    def left_out(self, z: Array) -> tuple[Array, Array] | None:
        """As of any surrogate; None, too, where an output is missing in one of the runs."""
        rows = rows_at(self.batch.x, z)
        if rows is None or not self.batch.values.seen[:, rows].all():
            return None
        mean, variance = self.batch.leave_one_out()
        return self.log_likelihood(self._points(z, mean[:, rows], variance[:, rows], None))

    def log_upper(self, points: Points, deviations: float) -> Array:
        """As if the log-likelihood were normal."""
        mean, variance = self.log_likelihood(points)
        return np.asarray(mean + deviations * self.inflation * np.sqrt(variance))

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
        correlations = self._covariances(a, b)
        correlations *= (gamma * self.inflation**2 / wide_a)[:, :, None]
        correlations /= wide_b[:, None, :]
        for j, r in enumerate(correlations):
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

    def revealed_variance(
        self, new: Points, nodes: Points, weights: Array, gamma: float, *, ranking: bool = False
    ) -> Array:
        x, _ = self._standardised(nodes, gamma)
        n, of = len(new.log_best), _two_orders if ranking else _double_sum
        rows = max(_AT_ONCE // (x.size if ranking else len(weights) ** 2), 1)
        some = [np.arange(i, min(i + rows, n)) for i in range(0, n, rows)]
        return np.concatenate([of(self._fractions(new.take(i), nodes, gamma), x, weights) for i in some])

    def condition_on_mean(self, z: Array) -> Outputs:
        return replace(self, batch=self.batch.condition_on_mean(z))

    def alternatives(self, n: int, rng: np.random.Generator) -> Iterator[Outputs]:
        for batch in hyperparameter_draws(self.batch, n, rng):
            yield replace(self, batch=batch)

    # --- parts ----------------------------------------------------------------------------------------------

    @cached_property
    def _experiment_of(self) -> IntArray:
        return np.array([c.experiment for c in self.components])

    def _points(self, z: Array, mean: Array, variance: Array, latent: Any) -> Points:
        """From the values of the processes to misfits."""
        misfit, slope = misfits(self.components, mean)
        log_scales = self._log_scales(z)
        if self.likelihood.scaled:
            unit = np.exp(-log_scales[:, self._experiment_of]).T
            misfit, slope = misfit * unit, slope * unit
        log_best = self.likelihood.log_constant(log_scales) - 0.5 * np.exp(-2.0 * log_scales) @ self.outside
        return Points(latent, misfit, slope**2 * variance, slope, log_best)

    def _log_scales(self, z: Array) -> Array:
        if not self.likelihood.scaled:
            return np.zeros((len(z), len(self.likelihood.experiments)))
        return self.likelihood.log_scales(self.prior.from_working(z))

    def _standardised(self, points: Points, gamma: float) -> tuple[Array, Array]:
        """x = √γ t/√A and √A, with the inflated variance."""
        wide = np.sqrt(1.0 + gamma * self.inflation**2 * points.variance)
        return np.sqrt(gamma) * points.misfit / wide, wide

    def _covariances(self, a: Points, b: Points) -> Array:
        """Of each component's misfit, without inflation; (components, n, m)."""
        assert a.latent is not None
        assert b.latent is not None
        value = self.batch.covariance(a.latent, b.latent)
        value *= a.slope[:, :, None]
        value *= b.slope[:, None, :]
        return value

    def _fractions(self, new: Points, nodes: Points, gamma: float) -> Array:
        """√γ a/√A, (components, n_new, n_nodes): how much of a node's misfit a run at a new point reveals."""
        assert new.latent is not None
        _, wide = self._standardised(nodes, gamma)
        sd = np.abs(new.slope) * np.sqrt(new.latent.variance + self.batch.new_noise[:, None])
        fraction = self._covariances(new, nodes)
        fraction *= (np.sqrt(gamma) * self.inflation / sd)[:, :, None]
        fraction /= wide[:, None, :]
        return np.clip(fraction, -1.0 + 1e-9, 1.0 - 1e-9, out=fraction)  # rounding where the new point is a node


def misfits(components: Sequence[Component], latent: Array) -> tuple[Array, Array]:
    """The misfits that values (components, ...) of the processes mean, and their slopes."""
    misfit, slope = latent, np.ones_like(latent)
    logarithms = [j for j, c in enumerate(components) if c.logarithm_of is not None]
    if logarithms:
        given = np.array([components[j].logarithm_of for j in logarithms]).T
        observed, sd = given.reshape(2, -1, *(1,) * (latent.ndim - 1))
        output = np.exp(latent[logarithms])
        misfit = latent.copy()
        misfit[logarithms], slope[logarithms] = (output - observed) / sd, output / sd
    return misfit, slope


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


def _two_orders(fractions: Array, x: Array, weights: Array) -> Array:
    """The double sum to the second order of Mehler's expansion, for as many products as there are nodes.

    With ρ⁺_kl = Π_j Σ_n (b_jk b_jl)ⁿ He_n(x_jk) He_n(x_jl)/n!, every term is a square: of Σ_k w_k b_jk x_jk, of
    Σ_k w_k b_jk² (x_jk² − 1)/√2, and of Σ_k w_k b_ik x_ik b_jk x_jk for two components i < j.
    """
    second = np.einsum("jnk,jk->nj", fractions**2, (x * x - 1.0) * weights)
    first = np.swapaxes(fractions * x[:, None, :], 0, 1)  # (n, components, nodes)
    cross = (first * weights) @ np.swapaxes(first, 1, 2)
    squares = np.sum(cross**2, axis=(1, 2)) - np.sum(np.einsum("njj->nj", cross) ** 2, axis=1)
    return np.asarray(np.sum((first @ weights) ** 2, axis=1) + 0.5 * (np.sum(second**2, axis=1) + squares))
