"""What matters: Sobol indices of the outputs and of the log-likelihood, and what the data fix. No run is spent.

Of a quantity Y and a parameter θᵢ the first-order index is Var(E[Y | θᵢ])/Var(Y), what is known of Y when θᵢ is; the
total one E[Var(Y | θ₋ᵢ)]/Var(Y), what is not known when all others are. Both are defined where parameters depend on
each other, as they do over a posterior; only their sums mean nothing then. The first is estimated by the variance
between bins of θᵢ less what chance puts there, the second by pairs of points that differ in θᵢ alone, drawn from its
conditional density.

Every number is computed for many functions that the surrogate may be (:mod:`tbq.gp.paths`), each on another half of
the points: the intervals hold what the surrogate does not know and the error of the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import linalg
from scipy.stats import qmc

from tbq.common.errors import TbqError
from tbq.common.types import Array, IntArray
from tbq.evidence.moments import mean_and_sd
from tbq.gp import paths
from tbq.problem.prior import Prior
from tbq.result.emulate import Emulator, emulator
from tbq.result.posterior_prior import PosteriorPrior
from tbq.result.predict import labelled
from tbq.result.result import Result
from tbq.surrogate.feasibility import Bounded
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.noisy_outputs import NoisyOutputs
from tbq.surrogate.outputs import misfits

Over = Literal["prior", "posterior"]
Values = Callable[[Array], Iterator[Array]]  # of each quantity at points: (n, functions)

LOG_LIKELIHOOD = "log-likelihood"
_FUNCTIONS = 64  # that the surrogate may be
_FEWEST_FUNCTIONS = 20  # an interval of 90 % lies between them
_DRAWN = 4000  # functions of all components together: a thousand take two seconds
_POINTS = 2**12  # of a first-order index
_PAIRS = 2**12  # of the total indices of all parameters together
_FEWEST_PAIRS = 2**8
_INSIDE = 16  # points of a bin
_MOST_OUTPUTS = 60  # evenly chosen of more
_LISTED = 4  # parameters or quantities in a line
_LEVELS = (0.05, 0.95)
_CONSTANT = 1e-10  # of its size, the range of a quantity that does not vary
_REACH = 4.5  # standard deviations of a conditional density that are looked at
_HALVINGS = 12
_LOWEST = -200.0  # nats below the maximum of a density, at which it ends
_NODES = 17  # over them, and as many over all draws, since a conditional density may have several modes
_SHARES = np.linspace(0.01, 0.99, _NODES)  # of a conditional density's mass, where it is looked at again


@dataclass(frozen=True)
class Indices:
    """Sobol indices over one distribution of the parameters, with 90 % intervals; nan where nothing varies."""

    over: Over
    quantities: tuple[str, ...]  # (q,)
    parameters: tuple[str, ...]  # (d,)
    first: Array  # (q, d)
    first_interval: Array  # (2, q, d)
    total: Array  # (q, d)
    total_interval: Array  # (2, q, d)

    def __repr__(self) -> str:
        return f"<Indices over the {self.over} of {', '.join(_shortened(self.quantities))}; {self.largest()}>"

    def largest(self) -> str:
        """Total indices of the last quantity, which is the log-likelihood."""
        row, (low, high) = self.total[-1], self.total_interval[:, -1]
        some = [f"{name} {row[i]:.2f} ({low[i]:.2f} to {high[i]:.2f})" for i, name in enumerate(self.parameters)]
        return f"total of the {self.quantities[-1]}: " + ", ".join(
            _shortened([some[i] for i in np.argsort(-row, kind="stable")])
        )


@dataclass(frozen=True)
class Direction:
    """A combination of parameters, and how much of its prior spread the data have left."""

    left: float  # posterior by prior standard deviation
    weights: Array  # (d,): of the parameters in prior standard deviations; unit length, the largest positive
    words: str

    def __repr__(self) -> str:
        return f"<Direction: {self.words}, {self.left:.3g} of its prior spread left>"


@dataclass(frozen=True)
class Sensitivity:
    """What the outputs and the log-likelihood depend on, and what the data have fixed."""

    prior: Indices
    posterior: Indices
    directions: tuple[Direction, ...]  # what is fixed best comes first
    correlation: Array  # (d, d) of the posterior

    def __repr__(self) -> str:
        return f"<Sensitivity of {len(self.prior.quantities)} quantities; over the prior, {self.prior.largest()}>"


def _shortened(words: Sequence[str]) -> list[str]:
    """As many as are read at a glance."""
    return [*words[:_LISTED], *([f"and {len(words) - _LISTED} more"] if len(words) > _LISTED else [])]


def sensitivity(result: Result, seed: int = 0) -> Sensitivity:
    """See :meth:`tbq.Result.sensitivity`."""
    if result.surrogate is None:
        raise TbqError(f"sensitivity: there is no posterior. {result.stop.value}")
    rng = np.random.default_rng(seed)
    names, values = _quantities(result, rng)
    before = _indices("prior", names, values, result, *_over_prior(result, rng))
    after = _indices("posterior", names, values, result, *_over_posterior(result, rng))
    mean, sd = mean_and_sd(result.samples)
    scores = (result.samples - mean) / sd
    return Sensitivity(before, after, directions(result), scores.T @ scores / len(scores))


def directions(result: Result) -> tuple[Direction, ...]:
    """Combinations of parameters by how much the data have narrowed them.

    Eigenvectors of the posterior's covariance against the prior's, in working coordinates (logarithms where the
    parameters have such): independent of each other before and after.
    """
    prior = result.prior.unmixed
    before, after = (prior.to_working(t) for t in (prior.sample(2**12, 0, "sobol"), result.samples))
    wide, narrow = (np.atleast_2d(np.cov(z.T)) for z in (before, after))
    values, vectors = linalg.eigh(narrow, wide)
    found = []
    for value, vector in zip(values, vectors.T, strict=True):
        weights = vector * np.sqrt(np.diag(wide))
        weights = weights / np.linalg.norm(weights) * np.sign(weights[np.argmax(np.abs(weights))])
        found.append(Direction(float(np.sqrt(max(value, 0.0))), weights, _in_words(weights, prior)))
    return tuple(found)


def _in_words(weights: Array, prior: Prior) -> str:
    """``0.8 k1 − 0.6 log k2``; parameters that hardly take part are left out."""
    terms = []
    for i in np.argsort(-np.abs(weights)):
        if abs(weights[i]) >= 0.3 * np.abs(weights).max():
            kind = "" if prior.axes[i].kind in ("linear", "asinh") else "log "
            sign = "−" if weights[i] < 0 else "+"
            terms.append(f"{sign} {abs(weights[i]):.2f} {kind}{prior.names[i]}")
    return " ".join(terms).removeprefix("+ ")


# --- indices ------------------------------------------------------------------------------------------------


def _indices(
    over: Over, names: tuple[str, ...], values: Values, result: Result, base: Array, one: Array, other: Array
) -> Indices:
    """Of points ``base`` (n, d), and of pairs (pairs, d) and (d, pairs, d) that differ in one parameter."""
    d, pairs = result.prior.dim, len(one)
    everywhere = np.vstack([base, one, other.reshape(-1, d)])
    rng = np.random.default_rng(0)
    halves = np.argsort(rng.random((2, _FUNCTIONS, max(len(base), pairs))), axis=2)
    first, total = [], []
    for found in values(everywhere):
        varies = np.ptp(found) > _CONSTANT * np.abs(found).max()
        y = found if varies else np.full_like(found, np.nan)
        at_base, at_one, at_other = y[: len(base)], y[len(base) : len(base) + pairs], y[len(base) + pairs :]
        orders = halves[:, : y.shape[1]]
        first.append([_between(at_base, base[:, i], orders[0]) for i in range(d)])
        total.append([_apart(at_one, again, orders[1][:, :pairs]) for again in at_other.reshape(d, pairs, -1)])
    return Indices(over, names, result.prior.names, *_summarised(first), *_summarised(total))


def _summarised(found: list[list[tuple[Array, Array]]]) -> tuple[Array, Array]:
    """Means over functions, and intervals from halves of the points."""
    whole = np.array([[whole.mean() for whole, _ in row] for row in found])
    interval = np.moveaxis(np.array([[np.quantile(half, _LEVELS) for _, half in row] for row in found]), 2, 0)
    interval = np.clip(interval, 0.0, 1.0)  # as the indices are; their estimates by halves of the points may leave it
    return np.clip(whole, interval[0], interval[1]), interval


def _apart(one: Array, other: Array, order: IntArray) -> tuple[Array, Array]:
    """Half the mean square of differences by the variance: of all pairs, and of a half for each function."""
    rows = np.argsort(order, axis=1)[:, : len(one) // 2].T
    half = [np.take_along_axis(y, rows, axis=0) for y in (one, other)]
    whole, halves = (((a - b) ** 2).mean(axis=0) / (a.var(axis=0) + b.var(axis=0)) for a, b in ((one, other), half))
    return whole, halves


def _between(y: Array, x: Array, order: IntArray) -> tuple[Array, Array]:
    """Variance of E[y | x] by that of y, of all points and of a half for each function."""
    bins = len(y) // _INSIDE
    rows = np.argsort(x, kind="stable")[: bins * _INSIDE].reshape(bins, _INSIDE)
    binned = y[rows]  # (bins, in a bin, functions)
    rank = np.argsort(order[:, : bins * _INSIDE].reshape(-1, bins, _INSIDE), axis=2)[:, :, : _INSIDE // 2]
    half = np.take_along_axis(binned, np.moveaxis(rank, 0, 2), axis=1)
    return _explained(binned), _explained(half)


def _explained(binned: Array) -> Array:
    """Variance between bins (bins, in a bin, functions) by all, less what that within them puts there by chance."""
    bins, inside, _ = binned.shape
    within = binned.var(axis=1, ddof=1).mean(axis=0)
    between = binned.mean(axis=1).var(axis=0) - (1.0 - 1.0 / bins) * within / inside
    return np.asarray(between / binned.var(axis=(0, 1)))


# --- quantities ---------------------------------------------------------------------------------------------


def _quantities(result: Result, rng: np.random.Generator) -> tuple[tuple[str, ...], Values]:
    """Names, and a function of points in θ that gives each one's values for all functions the surrogate may be."""
    model = emulator(result)
    inner: Any = result.surrogate.inner if isinstance(result.surrogate, Bounded) else result.surrogate
    count = int(np.clip(_DRAWN / (1 if model is None else model.batch.size), _FEWEST_FUNCTIONS, _FUNCTIONS))
    drawn = [] if model is None else paths.draws_of(model.batch, count, rng)
    log_likelihood = paths.draw(inner.gp, count, rng) if isinstance(inner, LogNormal) else None
    likelihood = result.likelihood
    shown = np.arange(0)
    if model is not None:
        shown = np.unique(np.linspace(0, len(model.left) - 1, min(len(model.left), _MOST_OUTPUTS)).astype(int))

    d = result.prior.simulated.dim

    def values(theta: Array) -> Iterator[Array]:
        z = result.prior.to_working(theta)[:, :d]
        if model is not None:
            off_by = _misfits(model, drawn, z)
            for j in shown:
                yield model.intercept[j] + np.tensordot(model.slopes[:, j], off_by, 1)
        if log_likelihood is not None:
            points = inner.at(z)  # linear in the process about its mean, where that is of a warped log-likelihood
            off = log_likelihood(points.latent.x) - points.latent.mean[:, None]
            yield points.mean[:, None] + inner.inflation * points.slope[:, None] * off
        else:
            assert likelihood is not None
            assert model is not None
            if isinstance(inner, NoisyOutputs):
                phi = likelihood.noise_parameters(theta)
                yield np.column_stack([inner.log_likelihood_of(off_by[:, :, k].T, phi) for k in range(count)])
                return
            outputs = (model.intercept + off_by[:, :, k].T @ model.slopes for k in range(count))
            yield np.column_stack([likelihood.from_outputs(theta, o) for o in outputs])

    labels = () if likelihood is None or model is None else labelled(likelihood.names, likelihood.units)
    return (*(labels[i] for i in shown), LOG_LIKELIHOOD), values


def _misfits(model: Emulator, drawn: list[Callable[[Array], Array]], z: Array) -> Array:
    """Values of all components, (components, n, functions): as far from their mean as the stated error says."""
    values = np.array([functions(z) for functions in drawn])
    if model.inflation != 1.0:
        mean = model.batch.project(z).mean[:, :, None]
        values = mean + model.inflation * (values - mean)
    return misfits(model.components, values)[0]


# --- points -------------------------------------------------------------------------------------------------


def _over_prior(result: Result, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    prior = result.prior.unmixed
    base = prior.sample(_POINTS, rng)  # at random: what chance puts between bins of a regular design is not known
    if prior.copula is not None or prior.constraint is not None or isinstance(prior, PosteriorPrior):
        return base, *_conditional_pairs(prior, base, prior.log_density_working, rng)
    n = _count(prior.dim)
    u = np.clip(qmc.Sobol(2 * prior.dim, rng=rng).random(n), 1e-12, 1.0 - 1e-12)
    one, fresh = prior.from_uniform(u[:, : prior.dim]), prior.from_uniform(u[:, prior.dim :])
    other = np.repeat(one[None], prior.dim, axis=0)
    for i in range(prior.dim):
        other[i, :, i] = fresh[:, i]
    return base, one, other


def _over_posterior(result: Result, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    surrogate, prior = result.surrogate, result.prior.unmixed
    assert surrogate is not None

    def log_density(z: Array) -> Array:
        value = prior.log_density_working(z)
        inside = np.isfinite(value)
        learned_at = result.prior.to_working(prior.from_working(z[inside]))
        value[inside] += surrogate.log_mean(surrogate.at(learned_at), 1.0)
        return value

    rows = rng.permutation(len(result.samples))[:_POINTS]
    return result.samples[rows], *_conditional_pairs(prior, result.samples[rows], log_density, rng)


def _count(d: int) -> int:
    """Pairs for each parameter: a power of two."""
    return max(_FEWEST_PAIRS, 2 ** int(np.log2(_PAIRS / d)))


def _conditional_pairs(
    prior: Prior, draws: Array, log_density: Callable[[Array], Array], rng: np.random.Generator
) -> tuple[Array, Array]:
    """Some of the draws, and each again with one parameter drawn anew from its density given the others."""
    one = draws[: _count(prior.dim)]
    z, everything = prior.to_working(one), prior.to_working(draws)
    other = np.repeat(z[None], prior.dim, axis=0)
    for i in range(prior.dim):
        low, high = _ends(prior, z, i)
        nodes = np.clip(_nodes(z, everything, i), low, high)
        value = _along(log_density, z, i, nodes)
        finer = _quantiles(nodes, value, np.broadcast_to(_SHARES, (len(z), len(_SHARES))))  # where the mass is
        nodes, value = np.hstack([nodes, finer]), np.hstack([value, _along(log_density, z, i, finer)])
        order = np.argsort(nodes, axis=1, kind="stable")
        nodes, value = (np.take_along_axis(a, order, axis=1) for a in (nodes, value))
        other[i, :, i] = _quantiles(nodes, value, rng.random((len(z), 1)))[:, 0]
    return one, np.array([prior.from_working(z) for z in other])


def _ends(prior: Prior, z: Array, i: int) -> tuple[Array, Array]:
    """Between which values parameter i of each row may lie; of a constraint the nearest borders, by bisection."""
    ends = []
    for bound in prior.working_bounds:
        inside, outside = z[:, i].copy(), np.full(len(z), bound[i])
        for _ in range(_HALVINGS if prior.constraint is not None else 0):
            middle = z.copy()
            middle[:, i] = 0.5 * (inside + outside)
            good = np.isfinite(prior.log_density_working(middle))
            inside, outside = np.where(good, middle[:, i], inside), np.where(good, outside, middle[:, i])
        ends.append(inside if prior.constraint is not None else outside)
    return ends[0][:, None], ends[1][:, None]


def _along(log_density: Callable[[Array], Array], z: Array, i: int, nodes: Array) -> Array:
    """The density at the points z (n, d) with their parameter i at each of the nodes (n, m)."""
    places = np.repeat(z[:, None, :], nodes.shape[1], axis=1)
    places[:, :, i] = nodes
    return log_density(places.reshape(-1, z.shape[1])).reshape(nodes.shape)


def _nodes(z: Array, draws: Array, i: int) -> Array:
    """Where parameter i is looked at for each row: around what the others say of it, and over all of its range."""
    precision = np.linalg.pinv(np.atleast_2d(np.cov(draws.T)))
    sd = 1.0 / np.sqrt(precision[i, i])
    off = (z - draws.mean(axis=0)) @ precision[i] / precision[i, i]
    local = (z[:, i] - off)[:, None] + sd * np.linspace(-_REACH, _REACH, _NODES)
    overall = np.quantile(draws[:, i], np.linspace(0.0, 1.0, _NODES))
    return np.sort(np.hstack([local, np.tile(overall, (len(z), 1)), z[:, [i]]]), axis=1)


def _quantiles(nodes: Array, log_density: Array, share: Array) -> Array:
    """Quantiles (n, k) of densities that are exponential between their nodes (n, m), at shares of their mass (n, k)."""
    value = np.maximum(log_density - log_density.max(axis=1, keepdims=True), _LOWEST)
    rise, width = np.diff(value, axis=1), np.diff(nodes, axis=1)
    mass = width * np.exp(value[:, :-1]) * _mean_exp(rise)
    upto = np.cumsum(mass, axis=1)
    target = share * upto[:, -1:]
    cell = np.minimum((upto[:, None, :] < target[:, :, None]).sum(axis=2), mass.shape[1] - 1)
    rise, width, low, inside = (np.take_along_axis(a, cell, axis=1) for a in (rise, width, nodes[:, :-1], mass))
    part = np.clip((target - np.take_along_axis(upto, cell, axis=1) + inside) / np.maximum(inside, 1e-300), 0.0, 1.0)
    steep = np.where(np.abs(rise) > 1e-6, rise, 1.0)
    bent = np.clip(np.log1p(np.maximum(part * np.expm1(steep), -1.0 + 1e-15)) / steep, 0.0, 1.0)
    return np.asarray(low + width * np.where(np.abs(rise) > 1e-6, bent, part))


def _mean_exp(rise: Array) -> Array:
    """Mean of exp over the way from 0 to ``rise``."""
    small = np.abs(rise) < 1e-6
    return np.where(small, 1.0 + 0.5 * rise, np.expm1(rise) / np.where(small, 1.0, rise))
