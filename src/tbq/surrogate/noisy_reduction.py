"""What of a simulator's outputs is modelled where the noise has parameters of its own.

Principal components need a measure of what may be neglected: the mean of Σ(φ)⁻¹ over the noise parameters that the best
runs support. It errs on the side of small noise, and so on that of too many components.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg, special

from tbq.common.types import Array, IntArray
from tbq.gp.kernels import KernelChoice
from tbq.gp.levels import Processes
from tbq.problem import marginal
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.marginal import Rule
from tbq.problem.noise import NoiseModel
from tbq.problem.noise_forms import Dense
from tbq.problem.prior import Prior
from tbq.problem.tuning import Tuning
from tbq.surrogate.levels import Coarse, axes_of, fit_levels
from tbq.surrogate.noisy_outputs import NoisyOutputs
from tbq.surrogate.reduction import Memory, Series, fit_processes, upright

_BEST_RUNS = 6  # about which the noise parameters are looked for
_POINTS = 1024  # of the rule over them: its error is some 0.01 nats
_GLANCE = 128  # points of their prior at which runs are ranked
_NEGLECTED = 0.03  # of what is neglected where noise is known: it may be smaller than the runs so far support
_DRAWS = 24  # noise parameters over which Σ⁻¹ is averaged


class Basis(NamedTuple):
    """Outputs that were measured, as ȳ + B times components."""

    series: list[Series]
    centre: Array  # (m,)
    columns: Array  # (m, K)


def fit(
    z: Array,
    outputs: Array,
    likelihood: GaussianLikelihood,
    prior: Prior,
    choice: KernelChoice,
    memory: Memory,
    tuning: Tuning,
    coarse: Coarse | None = None,
) -> tuple[NoisyOutputs, Memory]:
    """As :func:`tbq.surrogate.reduction.fit`, for the simulator's parameters ``z``; with runs of a coarse model."""
    noise = likelihood.noise_model
    assert noise is not None
    measured, out = np.unique(noise.out, return_inverse=True)
    values = outputs[:, measured]
    complete = outputs[np.isfinite(values).all(axis=1)]
    rule, reference = weigh(noise, complete)
    precision = _precision(noise, complete[reference.best], reference.phi, out)
    below = None if coarse is None else coarse.outputs[:, measured]
    basis = _basis(values, likelihood.observed[measured], precision, tuning, below)
    batch: Processes
    given = basis.series, np.array([tuning.noise_sd]), choice
    if coarse is None:
        batch, components, memory = fit_processes(z, *given, memory, tuning)
    else:  # the axes are new ones, and what was learned of the coarse values is of others
        again = Memory(memory.starts, memory.coarse)
        batch, components, memory = fit_levels(z, coarse.z, *given, again, tuning)
    x = np.column_stack([noise.data - basis.centre[out], basis.columns[out]])
    return NoisyOutputs(batch, components, x, likelihood, prior, rule), memory


class Reference(NamedTuple):
    """What the runs so far say of the noise."""

    best: int  # which of them is
    phi: Array  # (draws, k)


def weigh(noise: NoiseModel, outputs: Array) -> tuple[Rule, Reference]:
    """A rule over the noise parameters, and draws of those that the best of some complete runs support."""
    prior = noise.prior
    runs = [marginal.likelihood_of(noise, row) for row in outputs]
    if prior is None:
        none = np.empty((1, 0))
        best = int(np.argmax([float(f(none)[0]) for f in runs]))
        return Rule(none, np.zeros(1)), Reference(best, none)
    glance = prior.sample(_GLANCE, 0, "sobol")
    heights = np.array([special.logsumexp(f(glance)) for f in runs])
    first = np.argsort(-heights, kind="stable")[:_BEST_RUNS]
    bells = [marginal.located(noise, outputs[i]) for i in first]
    rule = marginal.rule(bells, prior, _POINTS)
    terms = np.array([runs[i](rule.phi) for i in first]) + rule.log_weights
    best = int(first[int(np.argmax(special.logsumexp(terms, axis=1)))])
    edges = np.cumsum(special.softmax(special.logsumexp(terms, axis=0)))
    draws = np.searchsorted(edges, (0.5 + np.arange(_DRAWS)) / _DRAWS * edges[-1])
    return rule, Reference(best, rule.phi[np.minimum(draws, len(rule.phi) - 1)])


def _precision(noise: NoiseModel, outputs: Array, phi: Array, out: IntArray) -> Array:
    """(m, m): the mean of Σ⁻¹ over noise parameters, as one of the measured outputs."""
    m = int(out.max()) + 1
    residual = noise.data - outputs[noise.out]
    x = np.column_stack([residual, np.eye(m)[out]])
    total = np.zeros((m, m))
    for block in noise.blocks:
        if block.size:
            table = Dense(block, noise.data[block.rows], x[block.rows])
            for one in phi:
                total += table.at(one[None, :], np.zeros((1, m))).matrix[0, 1:, 1:]
    total /= len(phi)
    return np.asarray(total + 1e-9 * np.trace(total) / m * np.eye(m))


def _basis(values: Array, observed: Array, precision: Array, tuning: Tuning, coarse: Array | None = None) -> Basis:
    """Principal components in units of the noise; a few outputs as they are. ``coarse`` are those of a coarse model."""
    root = linalg.cholesky(precision, lower=True)
    complete = _complete(values)
    centre = complete.mean(axis=0)
    negligible = _NEGLECTED * tuning.neglected
    if coarse is None:
        _, spread, rows = linalg.svd((complete - centre) @ root, full_matrices=False)
        tail = np.cumsum((spread**2 / len(complete))[::-1])[::-1]
        count = min(max(int(np.sum(tail > negligible)), 1), tuning.most_components)
        axes = upright(rows[:count])
    else:
        axes = axes_of(complete @ root, _complete(coarse) @ root, negligible, tuning.most_components)
    count, m = len(axes), values.shape[1]
    if m <= tuning.few_outputs and count == m:
        unit = 1.0 / np.sqrt(np.diag(precision))
        levels = [((part - observed) / unit).T for part in (values, values if coarse is None else coarse)]
        each = zip(*levels, observed, unit, strict=True)
        series = [Series(v, 0, (float(o), float(s)), None if coarse is None else c) for v, c, o, s in each]
        return Basis(series, observed, np.diag(unit))
    columns = linalg.solve_triangular(root, axes.T, lower=True, trans=1)
    scores = _scores(values - centre, root @ axes.T, columns, precision).T
    below = [None] * count if coarse is None else _scores(coarse - centre, root @ axes.T, columns, precision).T
    return Basis([Series(f, 0, None, c) for f, c in zip(scores, below, strict=True)], centre, columns)


def _complete(values: Array) -> Array:
    return values[np.isfinite(values).all(axis=1)]


def _scores(centred: Array, onto: Array, columns: Array, precision: Array) -> Array:
    """(n, components) of outputs (n, m); of a run with missing ones, where the others determine them."""
    missing, count = np.isnan(centred), columns.shape[1]
    scores = np.where(missing, 0.0, centred) @ onto
    for i in np.flatnonzero(missing.any(axis=1)):
        seen, scores[i] = ~missing[i], np.nan
        if np.sum(seen) >= 2 * count:
            weight = np.sqrt(np.diag(precision)[seen])
            scores[i] = linalg.lstsq(columns[seen] * weight[:, None], centred[i, seen] * weight)[0]
    return np.asarray(scores)
