"""The surrogate where the noise has parameters of its own: processes on outputs see the simulator's alone.

Outputs are ȳ + Bc(θ), with independent processes c_j of mean μ and variance V at a point. Given noise parameters φ, the
likelihood is a quadratic form in c (:mod:`tbq.problem.noise_forms`): with [[q, hᵀ], [h, G]] = P(φ), D = √V, e = h − Gμ,
Q = q − 2hᵀμ + μᵀGμ and A = I + γDGD, whose eigenvalues are at least 1,

    log E[L^γ] = γ best − ½γQ − ½ log|A| + ½γ² (De)ᵀA⁻¹(De).

Between two points, with R the diagonal matrix of the correlations of c, M = I − A⁻¹ and u = γA⁻¹De,

    log ρ = −½ log|I − RM'RM| + ½(uᵀa + u'ᵀb),   (I − RM'RM)a = Ru' − RM'Ru,   b = Ru − RMa.

A run reveals all outputs at once: ρ⁺ is ρ with R replaced by s s', s the correlation of c with what the run returns.
Points of θ alone, without φ, have the form of the likelihood integrated over φ, to first order in c about its mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from tbq.common.types import Array, IntArray
from tbq.gp.levels import Processes, hyperparameter_draws
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.marginal import Rule
from tbq.problem.noise import NoiseModel
from tbq.problem.noise_forms import Forms, forms
from tbq.problem.prior import Prior
from tbq.surrogate.outputs import Component, clipped, misfits
from tbq.surrogate.protocol import rows_at

_AT_ONCE = 4096  # points whose matrices are in memory together, and kept with them
_LEAST_GAP = 1e-12  # of eigenvalues of M from 1: where an output is as good as unknown, rounding leaves none


class Form(NamedTuple):
    """The log-likelihood at N points, about the expected components."""

    best: Array  # (N,) of data that fit
    misfit: Array  # (N,): Q
    slope: Array  # (N, K): De
    curvature: Array  # (N, K, K): DGD


@dataclass(frozen=True)
class Points:
    """Components at points, in units of the columns of B."""

    latent: Any  # projected by the processes; None where only moments of the log-likelihood are wanted
    mean: Array  # (n, K)
    sd: Array  # (n, K)
    phi: Array | None  # (n, k) noise parameters; None where they are integrated over
    kept: dict[str, Form] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.mean)

    def take(self, index: IntArray) -> Points:
        latent = None if self.latent is None else self.latent.take(index)
        return replace(self.part(index), latent=latent)

    def part(self, index: IntArray | slice) -> Points:
        """Without what covariances need."""
        phi = None if self.phi is None else self.phi[index]
        return Points(None, self.mean[index], self.sd[index], phi)


@dataclass(frozen=True)
class NoisyOutputs:
    """Moments of a Gaussian likelihood with noise parameters. See :class:`tbq.surrogate.protocol.Surrogate`.

    Points have all parameters, or those of the simulator alone. ``inflation`` is as of other surrogates.
    """

    batch: Processes  # the processes, one for each component
    components: tuple[Component, ...]
    x: Array  # (n, K + 1): the data less ȳ, and B, at the data
    likelihood: GaussianLikelihood
    prior: Prior  # of all parameters
    rule: Rule  # over the noise parameters
    inflation: float = 1.0

    @property
    def description(self) -> str:
        n, m = len(self.components), len(self.likelihood.observed)
        what = f"{m} outputs" if n == m else f"{n} principal components of {m} outputs"
        forms = {" of the logarithm" if c.logarithm_of else "" for c in self.components}
        return f"{what}: {', '.join(self.batch.kernel.name + form for form in sorted(forms))}"

    @property
    def unguarded(self) -> NoisyOutputs:
        return self

    def at(self, z: Array) -> Points:
        d = self.batch.x.shape[1]
        latent = self.batch.project(np.ascontiguousarray(z[:, :d]))
        phi = None
        if z.shape[1] == self.prior.dim:
            phi = np.empty((len(z), self.prior.dim - d))
            for i in range(d, self.prior.dim):
                phi[:, i - d] = self.prior.axes[i].inverse(z[:, i])
        return self._points(latent.mean, latent.variance, phi, latent)

    def _points(self, mean: Array, variance: Array, phi: Array | None, latent: Any) -> Points:
        value, slope = misfits(self.components, mean)
        return Points(latent, value.T, (slope * np.sqrt(variance)).T, phi)

    def at_runs(self) -> Points:
        """The runs it was learned from, all with the noise that the best of them has.

        An unknown noise makes up for any misfit: integrated over it, runs far from the data look near.
        """
        points = self.at(self.batch.x)
        if not self.rule.phi.shape[1]:
            return points
        best = points.part(np.array([int(np.argmax(self.log_likelihood(points)[0]))]))
        repeated = np.zeros(len(self.rule.phi), dtype=int)
        mean, _ = self.log_likelihood(replace(best.part(repeated), phi=self.rule.phi))
        phi = special.softmax(self.rule.log_weights + mean) @ self.rule.phi
        return replace(points, phi=np.tile(phi, (len(points), 1)), kept={})

    def left_out(self, z: Array) -> tuple[Array, Array] | None:
        """As of any surrogate, integrated over the noise; None, too, where an output is missing in one of the runs."""
        rows = rows_at(self.batch.x, z)
        if rows is None or not self.batch.values.seen[:, rows].all():
            return None
        mean, variance = self.batch.leave_one_out()
        return self.log_likelihood(self._points(mean[:, rows], variance[:, rows], self._no_noise(len(rows)), None))

    def _no_noise(self, n: int) -> Array | None:
        """Noise parameters of points that have none: there may be none at all."""
        return None if self.rule.phi.shape[1] else np.empty((n, 0))

    # --- moments --------------------------------------------------------------------------------------------

    def log_likelihood(self, points: Points) -> tuple[Array, Array]:
        def moments(p: Points) -> tuple[Array, ...]:
            best, misfit, slope, curvature = self._form(p)
            mean = best - 0.5 * (misfit + np.trace(curvature, axis1=1, axis2=2))
            return mean, 0.5 * np.sum(curvature**2, axis=(1, 2)) + np.sum(slope**2, axis=1)

        mean, variance = _in_blocks(moments, points)
        return mean, variance

    def log_mean(self, points: Points, gamma: float) -> Array:
        def log_mean(p: Points) -> tuple[Array, ...]:
            form = self._form(p)
            return (gamma * form.best - 0.5 * gamma * form.misfit + _gain(form, gamma),)

        return _in_blocks(log_mean, points)[0]

    def log_ratio_diagonal(self, points: Points, gamma: float) -> Array:
        def diagonal(p: Points) -> tuple[Array, ...]:
            form = self._inflated(self._form(p))
            return (np.maximum(_gain(form, 2.0 * gamma) - 2.0 * _gain(form, gamma), 0.0),)

        return _in_blocks(diagonal, points)[0]

    def log_ratio(self, a: Points, b: Points, gamma: float) -> Array:
        (u, m), (v, n) = self._standard(a, gamma), self._standard(b, gamma)
        r = self._correlations(a, b)
        if a is not b:
            return np.array([log_rho(u[i], m[i], v, n, r[i]) for i in range(len(u))])
        total = np.zeros((len(u), len(u)))
        for i in range(len(u)):
            total[i, i:] = log_rho(u[i], m[i], u[i:], m[i:], r[i, i:])
        return total + np.triu(total, 1).T

    def revealed_log_ratio(self, new: Points, nodes: Points, gamma: float) -> Array:
        u, m = self._standard(nodes, gamma)
        s = self._revealed(new, nodes)
        return clipped(np.array([_log_rho_diagonal(one * u, _scaled(m, one)) for one in s]))

    def revealed_variance(
        self, new: Points, nodes: Points, weights: Array, gamma: float, *, ranking: bool = False
    ) -> Array:
        u, m = self._standard(nodes, gamma)
        s = self._revealed(new, nodes)
        return _two_orders(s, u, m, weights) if ranking else _double_sum(s, u, m, weights)

    def log_likelihood_of(self, components: Array, phi: Array) -> Array:
        """log L of components (n, K) that are known, at noise parameters (n, k)."""
        known = Points(None, components, np.zeros_like(components), phi)
        return self.log_likelihood(known)[0]

    def condition_on_mean(self, z: Array) -> NoisyOutputs:
        return replace(self, batch=self.batch.condition_on_mean(z[: self.batch.x.shape[1]]))

    def alternatives(self, n: int, rng: np.random.Generator) -> Iterator[NoisyOutputs]:
        for batch in hyperparameter_draws(self.batch, n, rng):
            yield replace(self, batch=batch)

    # --- parts ----------------------------------------------------------------------------------------------

    @property
    def _noise(self) -> NoiseModel:
        assert self.likelihood.noise_model is not None
        return self.likelihood.noise_model

    @cached_property
    def _forms(self) -> Forms:
        return forms(self._noise, self.x)

    def _form(self, points: Points) -> Form:
        if "form" not in points.kept:
            points.kept["form"] = self._made(points)
        return points.kept["form"]

    def _made(self, p: Points) -> Form:
        best, matrix = self._integrated(p) if p.phi is None else self._forms.at(p.phi, p.mean)
        q, h, g = matrix[:, 0, 0], matrix[:, 1:, 0], matrix[:, 1:, 1:]
        explained = np.einsum("nij,nj->ni", g, p.mean)
        misfit = q - 2.0 * np.sum(h * p.mean, axis=1) + np.sum(explained * p.mean, axis=1)
        return Form(best, misfit, p.sd * (h - explained), p.sd[:, :, None] * g * p.sd[:, None, :])

    def _inflated(self, form: Form) -> Form:
        f = self.inflation
        return form if f == 1.0 else Form(form.best, form.misfit, f * form.slope, f**2 * form.curvature)

    def _standard(self, points: Points, gamma: float) -> tuple[Array, Array]:
        """u (n, K) and M (n, K, K), of inflated standard deviations."""
        form = self._inflated(self._form(points))
        inverse: Array = np.linalg.inv(plus_identity(gamma * form.curvature)).astype(float, copy=False)
        u = gamma * np.einsum("nij,nj->ni", inverse, form.slope)
        return u, (1.0 - _LEAST_GAP) * plus_identity(-inverse)

    def _correlations(self, a: Points, b: Points) -> Array:
        """(n, m, K) of each component between points."""
        assert a.latent is not None
        assert b.latent is not None
        r = self.batch.covariance(a.latent, b.latent)
        sd_a, sd_b = (np.sqrt(np.maximum(p.latent.variance, 1e-300)) for p in (a, b))
        r /= sd_a[:, :, None]
        r /= sd_b[:, None, :]
        return np.clip(np.moveaxis(r, 0, -1), -1.0, 1.0)

    def _revealed(self, new: Points, nodes: Points) -> Array:
        """(new, nodes, K): correlation of each component at the nodes with what a run at a new point returns of it."""
        assert new.latent is not None
        variance = new.latent.variance
        known = np.sqrt(variance / (variance + self.batch.new_noise[:, None]))
        return np.asarray(self._correlations(new, nodes) * known.T[:, None, :])

    # --- the noise integrated over --------------------------------------------------------------------------

    def _integrated(self, p: Points) -> tuple[Array, Array]:
        """The form whose value and slope are those of log ∫ L p(φ) dφ, and its mean that of the integral of means."""
        n, width = p.mean.shape
        moments = np.empty((n, width + 1, width + 1))
        moments[:, 0, 0], moments[:, 0, 1:], moments[:, 1:, 0] = 1.0, -p.mean, -p.mean
        moments[:, 1:, 1:] = p.mean[:, :, None] * p.mean[:, None, :]
        moments[:, np.arange(1, width + 1), np.arange(1, width + 1)] += p.sd**2
        flat = moments.reshape(n, -1)
        if self._noise.fixed:
            best, matrices = self._over_rule
            value, matrix = self._averaged(best, flat @ matrices.T, matrices)
        else:  # the noise depends on the outputs, and so do all matrices
            parts = [self._of_one(p.mean[i], flat[i]) for i in range(n)]
            value, matrix = np.array([v for v, _ in parts]), np.array([m for _, m in parts])
        return value + 0.5 * np.sum(flat * matrix, axis=1), matrix.reshape(n, width + 1, width + 1)

    def _of_one(self, mean: Array, moments: Array) -> tuple[float, Array]:
        best, matrix = self._forms.at(self.rule.phi, np.tile(mean, (len(self.rule.phi), 1)))
        flat = matrix.reshape(len(matrix), -1)
        value, average = self._averaged(best, (flat @ moments)[None, :], flat)
        return float(value[0]), average[0]

    def _averaged(self, best: Array, misfit: Array, matrices: Array) -> tuple[Array, Array]:
        """log of the integral over the rule, for expected misfits (n, S), and the mean of the matrices under it."""
        terms = self.rule.log_weights + best - 0.5 * misfit
        value = special.logsumexp(terms, axis=1)
        return value, np.exp(terms - value[:, None]) @ matrices

    @cached_property
    def _over_rule(self) -> tuple[Array, Array]:
        best, matrix = self._forms.at(self.rule.phi, np.zeros((len(self.rule.phi), self.x.shape[1] - 1)))
        return best, matrix.reshape(len(matrix), -1)


def _in_blocks(function: Callable[[Points], tuple[Array, ...]], points: Points) -> tuple[Array, ...]:
    """Some points at a time: of few, their matrices are kept with them."""
    if len(points) <= _AT_ONCE:
        return function(points)
    parts = [function(points.part(slice(i, i + _AT_ONCE))) for i in range(0, len(points), _AT_ONCE)]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _gain(form: Form, gamma: float) -> Array:
    """−½ log|A| + ½γ² (De)ᵀA⁻¹(De)."""
    return _log_integral(plus_identity(gamma * form.curvature), gamma * form.slope)


def _log_integral(a: Array, h: Array) -> Array:
    """−½ log|A| + ½ hᵀA⁻¹h of matrices that are at least I, by one factorisation with h as one more row."""
    n, k = h.shape
    whole = np.empty((n, k + 1, k + 1))
    whole[:, :k, :k] = a
    whole[:, k, :k] = h
    whole[:, :k, k] = h
    whole[:, k, k] = 1.0 + np.sum(h**2, axis=1)  # more than hᵀA⁻¹h
    factor = _cholesky(whole)
    diagonal = np.diagonal(factor, axis1=1, axis2=2)[:, :k]
    return 0.5 * np.sum(factor[:, k, :k] ** 2, axis=1) - np.sum(np.log(diagonal), axis=1)


def _cholesky(a: Array) -> Array:
    """Factors of matrices that are positive definite but for rounding and interpolation."""
    try:
        return np.asarray(np.linalg.cholesky(a))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(a)
        least = 1e-10 * np.maximum(values[:, -1:], 1.0)
        again = (vectors * np.maximum(values, least)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        return np.asarray(np.linalg.cholesky(again + least[:, :, None] * np.eye(a.shape[1])))


def plus_identity(stack: Array, times: float = 1.0) -> Array:
    """I, so many times, + each of the matrices."""
    stack = stack.copy()
    diagonal = np.arange(stack.shape[1])
    stack[:, diagonal, diagonal] += times
    return stack


def log_rho(u: Array, m: Array, v: Array, n: Array, r: Array) -> Array:
    """log ρ between one point (u, M) and many (v, N), with the components' correlations r (many, K)."""
    inner = _scaled(n, r)
    e = plus_identity(-inner @ m)
    a = np.linalg.solve(e, (r * v - inner @ u)[:, :, None])[:, :, 0]
    b = r * (u - a @ m)
    return np.asarray(-0.5 * np.linalg.slogdet(e)[1] + 0.5 * (a @ u + np.sum(v * b, axis=1)))


def _log_rho_diagonal(u: Array, m: Array) -> Array:
    """The same of points with themselves, whose u and M have the correlations' roots in them."""
    plus, minus = plus_identity(m), plus_identity(-m)
    solved = np.linalg.solve(plus, u[:, :, None])[:, :, 0]
    return np.asarray(-0.5 * (np.linalg.slogdet(plus)[1] + np.linalg.slogdet(minus)[1]) + np.sum(u * solved, axis=1))


def _scaled(m: Array, s: Array) -> Array:
    """Each matrix between the diagonal matrices of s."""
    return np.asarray(s[:, :, None] * m * s[:, None, :])


def _double_sum(s: Array, u: Array, m: Array, weights: Array) -> Array:
    """Σ_kl w_k w_l (ρ⁺_kl − 1) for each new point, s (new, nodes, K).

    Given what a run reveals, x ~ N(0, I), the likelihood of each node is N(x; u, A⁻¹)/N(x; 0, I) times its mean: ρ is
    the integral of two such densities over the standard normal one, by one Cholesky factor of A + A' − I.
    """
    found = np.empty(len(s))
    for i, one in enumerate(s):
        ui, a = one * u, np.linalg.inv(plus_identity(-_scaled(m, one)))
        h = np.einsum("kij,kj->ki", a, ui)
        own = 0.5 * (np.linalg.slogdet(a)[1] - np.sum(h * ui, axis=1))
        total = 0.0
        for k in range(len(u)):
            log_ratio = own[k] + own[k:] + _log_integral(plus_identity(a[k:] + a[k], -1.0), h[k:] + h[k])
            rho = np.expm1(clipped(log_ratio))
            total += weights[k] * (2.0 * float(rho @ weights[k:]) - float(rho[0]) * weights[k])
        found[i] = total
    return found


def _two_orders(s: Array, u: Array, m: Array, weights: Array) -> Array:
    """The double sum to second order in what is revealed: squares of sums over nodes, without pairs."""
    first = np.einsum("nkj,kj->nj", s, weights[:, None] * u)
    h = weights[:, None, None] * (u[:, :, None] * u[:, None, :] - m)
    second = np.zeros(len(s))
    for i in range(s.shape[2]):
        second += np.sum(np.sum(s * s[:, :, i : i + 1] * h[:, i], axis=1) ** 2, axis=1)
    return np.asarray(np.sum(first**2, axis=1) + 0.5 * second)
