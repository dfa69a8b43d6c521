"""Draws of a Gaussian process as functions, which can be asked at any number of points.

A draw of the prior, made of random Fourier features, is moved so that it goes through the data (Matheron's rule; Wilson
and others 2020): with coefficients β of the mean drawn from their posterior,

    f(x) = h(x)ᵀβ + φ(x)ᵀw + k(x, X)(K + noise)⁻¹(y − Hβ − Φw − ε).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tbq.common.types import Array
from tbq.gp import regression
from tbq.gp.batch import Batch
from tbq.gp.common import Common
from tbq.gp.kernels import AdditiveKernel, ProductMatern52
from tbq.gp.levels import Levels, Processes
from tbq.gp.linalg import solve
from tbq.gp.regression import GP, basis_functions

_FREQUENCIES = 400  # each with a cosine and a sine
_FREEDOM = 5.0  # degrees of freedom of the t-distribution that is the spectrum of a Matérn-5/2 kernel
_BLOCK = 2**12  # points computed at once


@dataclass(frozen=True)
class Paths:
    """Functions drawn from a process."""

    gp: GP
    frequencies: Array  # (f, d)
    weights: Array  # (2f, n): of the features, for each function
    beta: Array  # (p, n): coefficients of the mean
    pull: Array  # (runs, n): what leads each through the data

    def __call__(self, x: Array) -> Array:
        """Values at the rows of ``x``, shape (len(x), n)."""
        return np.vstack([self._at(x[i : i + _BLOCK]) for i in range(0, len(x), _BLOCK)])

    def _at(self, x: Array) -> Array:
        gp = self.gp
        mean = gp.offset + basis_functions(gp.basis, x) @ self.beta
        moved = gp.kernel.matrix(gp.parameters, x, gp.x) @ self.pull
        return np.asarray(mean + _features(gp, x, self.frequencies) @ self.weights + moved)


def draw(gp: GP, n: int, rng: np.random.Generator) -> Paths:
    """``n`` functions drawn from the process."""
    f = gp.factors
    frequencies = _spectrum(gp, _FREQUENCIES, rng)
    weights = rng.standard_normal((2 * len(frequencies), n))
    beta = f.beta[:, None] + solve(f.chol_basis, rng.standard_normal((len(f.beta), n)), transposed=True)
    error = np.sqrt(gp.noise + gp.nugget)[:, None] * rng.standard_normal((len(gp.x), n))
    prior = basis_functions(gp.basis, gp.x) @ beta + _features(gp, gp.x, frequencies) @ weights + error
    pull = solve(f.chol, solve(f.chol, gp.y[:, None] - gp.offset - prior), transposed=True)
    return Paths(gp, frequencies, weights, beta, pull)


def _features(gp: GP, x: Array, frequencies: Array) -> Array:
    """φ(x), with φ(x)ᵀφ(x') ≈ k(x, x'); (len(x), 2f)."""
    angle = x @ frequencies.T
    size = np.sqrt(float(gp.kernel.diagonal(gp.parameters, x[:1])[0]) / len(frequencies))
    return size * np.hstack([np.cos(angle), np.sin(angle)])


def _spectrum(gp: GP, n: int, rng: np.random.Generator) -> Array:
    """Frequencies distributed as the kernel's spectral density, (n, d)."""
    d, kernel = gp.x.shape[1], gp.kernel
    normal = rng.standard_normal((n, d))
    if isinstance(kernel, AdditiveKernel):  # a sum of kernels: each frequency is of one of its terms
        return normal / np.exp(gp.parameters[:d]) * _terms(gp.parameters, d, n, rng)
    normal /= np.exp(gp.parameters[:d])
    if kernel.name == "se":
        return normal
    columns = d if isinstance(kernel, ProductMatern52) else 1
    return normal / np.sqrt(rng.chisquare(_FREEDOM, (n, columns)) / _FREEDOM)


def _terms(parameters: Array, d: int, n: int, rng: np.random.Generator) -> Array:
    """Which parameters each of n terms, chosen by their variance, depends on: rows of ones and zeros."""
    pairs = np.transpose(np.triu_indices(d, 1))
    members = np.zeros((d + len(pairs), d))
    members[np.arange(d), np.arange(d)] = 1.0
    members[np.arange(d, len(members))[:, None], pairs] = 1.0
    variance = np.exp(2.0 * parameters[d:])
    return members[rng.choice(len(members), n, p=variance / variance.sum())]


def draws_of(processes: Processes, n: int, rng: np.random.Generator) -> list[Callable[[Array], Array]]:
    """``n`` functions drawn from each of many processes, of one level or of two."""
    if isinstance(processes, Common):
        processes = processes.separate()
    if isinstance(processes, Batch):
        drawn = [draw(processes.process(k), n, rng) for k in range(processes.size)]
        slopes = processes.values.slopes
        return [path if slopes is None else _in_units(path, slopes) for path in drawn]
    assert isinstance(processes, Levels)
    coarse = [draw(processes.coarse.process(k), n, rng) for k in range(processes.coarse.size)]
    return [
        _on_coarse(processes, k, coarse[processes.column[k]], n, rng)
        if uses
        else draw(processes.delta.process(k), n, rng)
        for k, uses in enumerate(processes.uses)
    ]


def _in_units(path: Paths, slopes: Array) -> Callable[[Array], Array]:
    """The functions, asked in coordinates that have other units."""
    return lambda x: path(x * slopes)


def _on_coarse(levels: Levels, k: int, coarse: Paths, n: int, rng: np.random.Generator) -> Callable[[Array], Array]:
    """Functions ρg + δ, of drawn ρ.

    Given ρ, δ is what the data less ρ times the coarse level make of it. That is linear in ρ: a draw at the mean of ρ,
    and for what ρ differs by from it the mean of a process through the coarse values.
    """
    (rho, sd), j = levels.rho, levels.column[k]
    unit, centre = levels.spread[j], levels.centre[j]
    delta = draw(levels.delta.process(k, float(rho[k] * unit)), n, rng)
    gp, column = delta.gp, levels.values.given_terms(levels.values.x)
    assert column is not None
    seen = levels.values.seen[k]
    response = regression.build(
        gp.x, column[k, seen], gp.noise, gp.kernel, gp.basis, gp.parameters, (0.0, float(gp.scale))
    )
    off = sd[k] * rng.standard_normal(n)

    def values(x: Array) -> Array:
        explained = unit * response.project(x).mean[:, None]
        return np.asarray(delta(x) + (rho[k] + off) * (coarse(x) - centre) - off * explained)

    return values
