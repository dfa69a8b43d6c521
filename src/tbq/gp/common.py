"""Many Gaussian processes with the same length-scales, each with an amplitude of its own: one kernel, one factor.

With κ the correlation, τ the noise in units of a variance, and C = κ + τ, process k has the covariance a_k² C and a
mean hᵀβ_k under a flat prior. All that projects is then of one process of variance one, and the marginal likelihood
over β_k and, to the highest, over a_k is

    Σ_k −½ (n − p) log q_k − ½ K log(|C| |HᵀC⁻¹H|),   q_k = min_β (y_k − Hβ)ᵀC⁻¹(y_k − Hβ),   a_k² = q_k/(n − p).

In many dimensions a few dozen values of one output do not tell its length-scales; those of all outputs do. They tell,
too, which parameters do anything at all: slopes may be independent and normal, with a standard deviation w_i a_k for
parameter i that is learned with the length-scales. Then only the constant is flat, p is one, and fewer runs than
parameters do. That is the better model where few parameters matter, and one that is less sure of itself where all do:
the values left out decide (:func:`fit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import optimize

from tbq.common.types import Array, IntArray
from tbq.gp.batch import NONE, Batch, Projection, build
from tbq.gp.batch_fitting import laplace_draws, pairs_of
from tbq.gp.fitting import ENOUGH, MOST_FITTED
from tbq.gp.kernels import ArdKernel, HyperPrior
from tbq.gp.regression import COEFFICIENT_SD
from tbq.gp.values import FEWEST_FREE, Factors, Values, factorise

_FLAT = 100.0  # amplitudes that are the unit of the mean's coefficients: their prior is ten times as wide, and flat
_FLAT_SD = 1.0 / (COEFFICIENT_SD * _FLAT)  # slopes in that unit whose standard deviation is one amplitude
_MOST_STEPS = 60  # of a search
_SLOPE_SD = 3.0  # of the logarithms of w, whose median is one: from e⁻⁶ to e⁶, nearly nothing to nearly flat
_SLOPE_REACH = 7.0  # of the same logarithms, either way, that is searched
_HOPELESS = 1e25  # minus the score where there is no factor
_WIDTH = 512  # points projected at once
_SMALL = 512  # points of a set up to which what covariances need is kept


@dataclass(frozen=True)
class Common:
    """K processes conditioned on values at the same points, of which none is missing; immutable.

    It is used as :class:`tbq.gp.batch.Batch` is. Build it with :func:`build_common` or :func:`fit`.
    """

    one: Batch  # a process of variance one on values that are zero
    values: Values  # with noise τ a_k², in units of _FLAT amplitudes
    amplitude: Array  # (K,)
    beta: Array  # (K, p): the mean's coefficients
    alpha: Array  # (K, n): C⁻¹(y_k − Hβ_k)

    @property
    def size(self) -> int:
        return len(self.amplitude)

    @property
    def kernel(self) -> ArdKernel:
        assert isinstance(self.one.kernel, ArdKernel)
        return self.one.kernel

    @property
    def x(self) -> Array:
        return self.values.x

    @property
    def lengths(self) -> Array:
        """(d,) logarithms."""
        return self.one.parameters[0, :-1]

    @property
    def shared(self) -> Array:
        """(d,) or (2d,): logarithms of length-scales and, where slopes are not flat, of their standard deviations."""
        slopes = self.values.slopes
        return self.lengths if slopes is None else np.append(self.lengths, np.log(slopes / _FLAT_SD))

    @property
    def parameters(self) -> Array:
        """(K, d + 1) logarithms of length-scales and amplitude."""
        return np.column_stack([np.tile(self.lengths, (self.size, 1)), np.log(self.amplitude)])

    @property
    def new_noise(self) -> Array:
        """(K,) variance of what a new run would return about each process."""
        return np.asarray(self.amplitude**2 * self.one.new_noise[0])

    def separate(self) -> Batch:
        """The same processes, each with a factor of its own."""
        return build(self.values, self.kernel, self.parameters)

    def project(self, z: Array) -> Projection:
        """Mean and variance of all processes at points, with what covariances need where these are few."""
        if len(z) <= _SMALL:
            return self._kept(z)
        parts = [self._kept(z[i : i + _WIDTH]) for i in range(0, len(z), _WIDTH)]
        mean, variance = (np.hstack([getattr(p, name) for p in parts]) for name in ("mean", "variance"))
        return Projection(z, mean, variance, NONE, NONE, again=self._kept)

    def _kept(self, z: Array) -> Projection:
        point = self.one.project(z)
        functions = self.one.values.mean_functions(z)[0]
        # k(X, z) is L v: what it gives with α is (L⁻¹(y − Hβ))ᵀ v, and needs no kernel again
        mean = self.values.offset[:, None] + self.beta @ functions.T + self._white @ point.v[0]
        return replace(point, mean=mean, variance=self.amplitude[:, None] ** 2 * point.variance)

    @cached_property
    def _white(self) -> Array:
        """(K, n): L⁻¹(y − Hβ)."""
        inverse = self.one.factors.inverse[0]
        return (self.values.y - self.values.offset[:, None] - self.beta @ self._functions.T) @ inverse.T

    @cached_property
    def _functions(self) -> Array:
        return self.one.values.mean_functions(self.x)[0]

    def covariance(self, a: Projection, b: Projection) -> Array:
        """Posterior covariances between two sets of points, (K, n, m)."""
        return np.asarray(self.amplitude[:, None, None] ** 2 * self.one.covariance(a, b))

    def leave_one_out(self) -> tuple[Array, Array]:
        """Mean and variance (noise included) of each value as predicted from all others, (K, n)."""
        variance = self.one.leave_one_out()[1]
        return self.values.y - self.alpha * variance, self.amplitude[:, None] ** 2 * variance

    @property
    def left_out_score(self) -> float:
        """Log-density of all values, each as predicted from those at the other points."""
        mean, variance = self.leave_one_out()
        return float(-0.5 * np.sum((self.values.y - mean) ** 2 / variance + np.log(variance)))

    def condition_on_mean(self, z: Array) -> Common:
        """All processes with one more value at a point (d,), the one that each expects there: means do not change."""
        mean, values = self._kept(z[None, :]).mean, self.values
        more = replace(
            values,
            x=np.vstack([values.x, z]),
            y=np.hstack([values.y, mean]),
            noise=np.hstack([values.noise, values.noise[:, :1]]),
            seen=np.hstack([values.seen, values.seen[:, :1]]),
        )
        alpha = np.hstack([self.alpha, np.zeros((self.size, 1))])
        return replace(self, one=self.one.condition_on_mean(z), values=more, alpha=alpha)


@dataclass(frozen=True)
class Scores:
    """The marginal likelihood above times the prior of what all processes share, as of one process.

    That is (d,) logarithms of length-scales and, where slopes are ``learned``, as many of their standard deviations.
    """

    values: Values
    kernel: ArdKernel
    noise: float  # τ
    learned: bool = False

    @cached_property
    def prior(self) -> HyperPrior:
        """Of the shared parameters, (1, d) or (1, 2d)."""
        prior = _one_of(self.values, self.noise).hyperprior(self.kernel)
        lengths = [part[:, :-1] for part in (prior.mean, prior.sd, prior.low, prior.high)]
        if not self.learned:
            return HyperPrior(*lengths)
        slopes = (0.0, _SLOPE_SD, -_SLOPE_REACH, _SLOPE_REACH)
        both = zip(lengths, slopes, strict=True)
        return HyperPrior(*(np.hstack([part, np.full(part.shape, value)]) for part, value in both))

    def at(self, parameters: Array, which: IntArray) -> tuple[Array, Array]:
        """Scores (M,) and gradients (M, ...) at shared parameters (M, ...); −inf where there is no factor."""
        found = [self._at(row) for row in parameters]
        return np.array([score for score, _ in found]), np.array([slope for _, slope in found])

    def _at(self, parameters: Array) -> tuple[float, Array]:
        n, d = self.values.x.shape
        place, distances = self._pairs
        values = with_slopes(self.values, parameters[d:]) if self.learned else self.values
        one, inverse = _one_of(values, self.noise), np.exp(-2.0 * parameters[:d])
        profile, slope = self.kernel.profile_and_slope(inverse @ distances)
        covariance = np.eye(n)  # factorise adds noise and nugget
        covariance.reshape(-1)[place] = profile
        factors, score, ok = factorise(one, covariance[None], np.ones(1))
        if not ok[0]:
            return -np.inf, np.zeros(len(parameters))
        functions = one.mean_functions(values.x)[0]
        _, alpha, squares = _conditioned(factors, values, functions)
        size, free = len(alpha), _free(values, functions)
        weights = (alpha * (free / squares)[:, None]).T @ alpha
        weights -= size * (factors.inverse[0].T @ factors.inverse[0] - factors.projected[0].T @ factors.projected[0])
        gradient = (weights.reshape(-1)[place] * slope) @ distances.T * inverse
        if self.learned:  # a slope's standard deviation w adds w² x xᵀ to the covariance
            of_slopes = np.einsum("ni,ni->i", functions[:, 1:], weights @ functions[:, 1:]) / _FLAT_SD**2
            gradient = np.append(gradient, of_slopes)
        off = (parameters - self.prior.mean[0]) / self.prior.sd[0]
        total = size * score[0] - 0.5 * free * np.log(squares).sum() - 0.5 * off @ off
        return float(total), gradient - off / self.prior.sd[0]

    @cached_property
    def _pairs(self) -> tuple[IntArray, Array]:
        return pairs_of(self.values.x)


def fit(values: Values, kernel: ArdKernel, start: Array | None) -> Common:
    """The processes whose shared parameters maximise marginal likelihood times prior.

    Of a linear mean, slopes are flat or have learned standard deviations, whichever predicts values left out better;
    where there are hardly more runs than parameters, only the latter. ``start`` are the shared parameters of fewer
    values; else the search starts at the prior's centre.
    """
    n, d = values.x.shape
    if n < d + FEWEST_FREE:
        return _fit(values, kernel, start, learned=True)
    learned = _fit(values, kernel, start, learned=True)
    flat = _fit(values, kernel, None if start is None else start[:d], learned=False)
    return learned if learned.left_out_score > flat.left_out_score else flat


def _fit(values: Values, kernel: ArdKernel, start: Array | None, *, learned: bool) -> Common:
    # of the process that has least in units of its variance: more would hide what others know
    noise = float(np.min(values.noise[:, 0] / values.scale**2))
    scores, which = _scores(values, kernel, noise, learned=learned), np.zeros(1, dtype=int)
    low, high = scores.prior.low[0], scores.prior.high[0]

    def objective(parameters: Array) -> tuple[float, Array]:
        score, slope = scores.at(parameters[None, :], which)
        return (-float(score[0]), -slope[0]) if np.isfinite(score[0]) else (_HOPELESS, np.zeros_like(parameters))

    at = scores.prior.mean[0].copy()
    if start is not None:
        at[: len(start)] = start
    options = {"maxiter": _MOST_STEPS, "ftol": ENOUGH}
    bounds = list(zip(low, high, strict=True))
    at = np.clip(at, low, high)
    found = optimize.minimize(objective, at, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if start is not None and found.fun >= _HOPELESS:  # what was fitted to fewer points leads nowhere
        return _fit(values, kernel, None, learned=learned)
    return build_common(values, kernel, found.x, noise)


def hyperparameter_draws(processes: Common, n: int, rng: np.random.Generator) -> Iterator[Common]:
    """All processes at ``n`` draws from a normal approximation of their shared parameters' posterior (Laplace)."""
    values, kernel, one = processes.values, processes.kernel, processes.one
    noise, shared = float(one.values.noise[0, 0]), processes.shared
    scores = _scores(replace(values, slopes=None), kernel, noise, learned=values.slopes is not None)
    for drawn in laplace_draws(scores, shared[None, :], n, rng):
        yield build_common(values, kernel, drawn[0], noise)


def _scores(values: Values, kernel: ArdKernel, noise: float, *, learned: bool) -> Scores:
    return Scores(values.some(-(-len(values.x) // MOST_FITTED)), kernel, noise, learned)


def build_common(values: Values, kernel: ArdKernel, shared: Array, noise: float) -> Common:
    """The processes at given shared parameters (d,) or (2d,), with noise in units of their variances."""
    d = values.x.shape[1]
    values = with_slopes(values, shared[d:]) if len(shared) > d else replace(values, slopes=None)
    one = build(_one_of(values, noise), kernel, np.append(shared[:d], 0.0)[None, :])
    functions = one.values.mean_functions(values.x)[0]
    beta, alpha, squares = _conditioned(one.factors, values, functions)
    amplitude = np.sqrt(squares / _free(values, functions))
    noise_of_each = np.broadcast_to(noise * amplitude[:, None] ** 2, values.y.shape)
    own = replace(values, noise=noise_of_each, scale=_FLAT * amplitude)
    return Common(one, own, amplitude, beta, alpha)


def with_slopes(values: Values, logarithms: Array) -> Values:
    """With linear means whose slopes have standard deviations (d,), logarithms in units of the amplitudes."""
    return replace(values, slopes=_FLAT_SD * np.exp(logarithms), linear=np.ones(len(values.y), dtype=bool))


def _free(values: Values, functions: Array) -> int:
    """Values that tell amplitudes: all but one for each coefficient whose prior is flat."""
    return len(functions) - (functions.shape[1] if values.slopes is None else 1)


def _one_of(values: Values, noise: float) -> Values:
    """Zeros at the same points, in units in which the variance is one."""
    none, unit = np.zeros((1, len(values.x))), np.ones(1)
    some = (none, none + noise, values.seen[:1], values.linear[:1], 0.0 * unit, _FLAT * unit)
    return Values(values.x, *some, slopes=values.slopes)


def _conditioned(factors: Factors, values: Values, functions: Array) -> tuple[Array, Array, Array]:
    """β (K, p), C⁻¹(y − Hβ) (K, n) and q (K,)."""
    white = (values.y - values.offset[:, None]) @ factors.inverse[0].T
    half = white @ factors.basis[0] @ factors.inverse_basis[0].T
    beta = half @ factors.inverse_basis[0]
    residual = white - beta @ factors.basis[0].T
    squares = np.sum(residual**2, axis=1) + np.sum(beta**2, axis=1) / (COEFFICIENT_SD * _FLAT) ** 2
    return beta, residual @ factors.inverse[0], np.maximum(squares, 1e-300)
