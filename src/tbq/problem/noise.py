"""What lies between a simulator's outputs and the data, where it has parameters of its own.

Data d = y + e, e ~ N(0, Σ(φ)): the simulator sees θ, the noise φ (levels, lengths, amplitudes). Data fall into blocks
whose errors are independent of each other, one for each group of outputs. In each block

    Σ = S C_ℓ S + a² K_λ,   S = diag(√(level² unit² + share² y²)),

with C a correlation along a coordinate within one replicate (white noise where there is none) and a² K the covariance
of the model's discrepancy, which all replicates share. With Student errors each datum has its own, of scale S.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tbq.common.errors import ArgumentError
from tbq.common.types import Array, Distribution, IntArray
from tbq.problem.prior import Prior

_AT_ONCE = 2**22  # elements of matrices in memory together


@dataclass(frozen=True)
class Exponential:
    """Residuals correlated by exp(−|x − x'|/length) along the coordinates: AR(1) where these are evenly spaced.

    ``length`` is a number where it is known, or its prior.
    """

    length: float | Distribution


@dataclass(frozen=True)
class SquaredExponential:
    """Residuals correlated by exp(−½(x − x')²/length²) along the coordinates, but for a white part of their variance.

    ``length`` is a number where it is known, or its prior; ``white`` the part, without which errors so smooth would be
    known to many digits.
    """

    length: float | Distribution
    white: float = 0.01


@dataclass(frozen=True)
class Discrepancy:
    """What the model lacks, as a Gaussian process over the coordinates: amplitude² exp(−½(x − x')²/length²).

    Each is a number where it is known, or a prior, which should say something: the data alone can hardly tell a wrong
    model from a right one with other parameters, and parameters of a wrong model stay biased.
    """

    amplitude: float | Distribution
    length: float | Distribution


class Term(NamedTuple):
    """A number of the noise: known, or one of its parameters."""

    value: float
    column: int = -1  # of φ; none where it is known

    @property
    def known(self) -> bool:
        return self.column < 0

    def at(self, phi: Array) -> Array:
        """(n,) of the rows of φ."""
        return np.full(len(phi), self.value) if self.known else phi[:, self.column]

    def moved(self, by: int) -> Term:
        """The same in a φ that has so many columns before."""
        return self if self.known else Term(self.value, self.column + by)


class Correlated(NamedTuple):
    """Residuals correlated within a replicate."""

    kind: str  # exponential or squared_exponential
    length: Term
    white: float  # part of the variance that is not


class Missing(NamedTuple):
    """The discrepancy of a block."""

    amplitude: Term
    length: Term


@dataclass(frozen=True)
class Block:
    """Data of one group: their errors are independent of all others'."""

    rows: IntArray  # (n,) which data they are
    unit: Array  # (n,) known standard deviations, or the lower Cholesky factor (n, n) of a known covariance
    level: Term  # multiplies them
    share: Term | None = None  # of the output, added to the standard deviation in squares
    freedom: Term | None = None  # degrees of freedom of Student errors
    correlation: Correlated | None = None
    discrepancy: Missing | None = None
    coordinates: Array | None = None  # (n,)
    replicate: IntArray | None = None  # (n,) which of the repeated tests each belongs to

    @property
    def size(self) -> int:
        return len(self.rows)

    @property
    def terms(self) -> tuple[Term, ...]:
        lengths = (self.correlation.length,) if self.correlation else ()
        others = (*lengths, *(self.discrepancy or ()))
        return (self.level, *(t for t in (self.share, self.freedom) if t is not None), *others)

    def moved(self, data: int, parameters: int) -> Block:
        """The same among so many more data and parameters before."""
        shifted = {n: t.moved(parameters) for n in ("level", "share", "freedom") if (t := getattr(self, n)) is not None}
        if self.correlation:
            shifted["correlation"] = self.correlation._replace(length=self.correlation.length.moved(parameters))
        if self.discrepancy:
            shifted["discrepancy"] = Missing(*(t.moved(parameters) for t in self.discrepancy))
        return replace(self, rows=self.rows + data, **shifted)

    # --- covariances ----------------------------------------------------------------------------------------

    def scales(self, phi: Array, outputs: Array) -> Array:
        """(N, n) standard deviations of the noise, for outputs (N, n) at the data."""
        sd = self.unit if self.unit.ndim == 1 else np.sqrt(np.sum(self.unit**2, axis=1))
        level = self.level.at(phi)[:, None] * sd
        if self.share is None:
            return np.asarray(level)
        return np.hypot(level, self.share.at(phi)[:, None] * outputs)

    def noise_covariance(self, phi: Array, outputs: Array) -> Array:
        """(N, n, n) of the noise alone; of Student errors, their squared scales."""
        if self.unit.ndim == 2:
            return np.asarray(self.level.at(phi)[:, None, None] ** 2 * (self.unit @ self.unit.T))
        s = self.scales(phi, outputs)
        return np.asarray(s[:, :, None] * self._correlations(phi) * s[:, None, :])

    def discrepancy_covariance(self, phi: Array) -> Array:
        """(N, n, n) of what the model lacks."""
        if self.discrepancy is None:
            return np.zeros((len(phi), self.size, self.size))
        amplitude, length = (t.at(phi)[:, None, None] for t in self.discrepancy)
        return np.asarray(amplitude**2 * smooth(self.distances, length))

    def _correlations(self, phi: Array) -> Array:
        identity = np.eye(self.size)
        if self.correlation is None:
            return np.broadcast_to(identity, (len(phi), self.size, self.size))
        kind, length, white = self.correlation
        along = length.at(phi)[:, None, None]
        value = np.exp(-self.distances / along) if kind == "exponential" else smooth(self.distances, along)
        return np.asarray((1.0 - white) * value * self.same_replicate + white * identity)

    @cached_property
    def distances(self) -> Array:
        """(n, n) between the coordinates."""
        assert self.coordinates is not None
        return np.abs(self.coordinates[:, None] - self.coordinates)

    @cached_property
    def same_replicate(self) -> Array:
        """(n, n), 1 or 0."""
        if self.replicate is None:
            return np.ones((self.size, self.size))
        return np.asarray(self.replicate[:, None] == self.replicate, dtype=float)


def smooth(distances: Array, length: Array) -> Array:
    """The squared-exponential kernel."""
    return np.asarray(np.exp(-0.5 * (distances / length) ** 2))


@dataclass(frozen=True)
class NoiseModel:
    """The data, which output each of them measures, and the noise between them."""

    data: Array  # (n,)
    out: IntArray  # (n,) which output each datum is of
    blocks: tuple[Block, ...]  # of the data: each is in one of them
    future: tuple[Block, ...]  # of one more measurement of every output
    names: tuple[str, ...] = ()  # of the noise parameters φ
    marginals: tuple[Distribution, ...] = ()

    @property
    def size(self) -> int:
        """How many noise parameters there are."""
        return len(self.names)

    @property
    def outputs(self) -> int:
        """How many outputs the simulator has."""
        return sum(b.size for b in self.future)

    @cached_property
    def prior(self) -> Prior | None:
        """Of the noise parameters; None where all is known."""
        return Prior(dict(zip(self.names, self.marginals, strict=True))) if self.names else None

    @cached_property
    def located(self) -> dict[bytes, Any]:
        """Where φ was found to lie given outputs, by these."""
        return {}

    @cached_property
    def typical(self) -> Array:
        """(1, k): the noise parameters at the medians of their priors."""
        return np.array([[float(m.median()) for m in self.marginals]])

    @property
    def observed(self) -> Array:
        """(m,): what was measured of each output, the mean where it was repeated; nan where it was not."""
        counts = np.bincount(self.out, minlength=self.outputs)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.bincount(self.out, self.data, minlength=self.outputs) / counts)

    @property
    def fixed(self) -> bool:
        """Whether the quadratic form of the likelihood is the same whatever the outputs."""
        return all(b.share is None and b.freedom is None for b in self.blocks)

    @property
    def has_discrepancy(self) -> bool:
        return any(b.discrepancy is not None for b in self.blocks)

    def scales(self, phi: Array, outputs: Array) -> Array:
        """(N, m) standard deviations of one more measurement of every output."""
        return self._gathered(lambda b: b.scales(phi, outputs[:, b.rows]), len(phi))

    def noise(self, phi: Array, outputs: Array, rng: np.random.Generator) -> Array:
        """(N, m): a draw of the noise of one more measurement of every output, for each row."""

        def draw(block: Block) -> Array:
            white = rng.standard_normal((len(phi), block.size))
            if block.freedom is not None:
                freedom = block.freedom.at(phi)[:, None]
                white = white / np.sqrt(rng.chisquare(np.broadcast_to(freedom, white.shape)) / freedom)
            if block.correlation is None and block.unit.ndim == 1:
                return white * block.scales(phi, outputs[:, block.rows])
            return _coloured(block, phi, outputs, white)

        return self._gathered(draw, len(phi))

    def discrepancy(self, phi: Array, outputs: Array, rng: np.random.Generator | None = None) -> Array:
        """(N, m): what the model lacks at every output, given the data: a draw, or its mean without ``rng``."""
        found = np.zeros((len(phi), self.outputs))
        for block, future in zip(self.blocks, self.future, strict=True):
            if block.discrepancy is None or block.size == 0:
                continue
            assert block.coordinates is not None
            assert future.coordinates is not None
            residual = self.data[block.rows] - outputs[:, self.out[block.rows]]
            for i in range(len(phi)):
                one = phi[i : i + 1]
                amplitude, length = (float(t.at(one)[0]) for t in block.discrepancy)
                across = amplitude**2 * smooth(
                    np.abs(future.coordinates[:, None] - block.coordinates), np.array(length)
                )
                total = block.noise_covariance(one, outputs[i : i + 1, self.out[block.rows]])[0]
                total = total + block.discrepancy_covariance(one)[0]
                gain = np.linalg.solve(total, across.T).T
                found[i, future.rows] = gain @ residual[i]
                if rng is not None:
                    left = future.discrepancy_covariance(one)[0] - gain @ across.T
                    found[i, future.rows] += _root(left) @ rng.standard_normal(future.size)
        return found

    def _gathered(self, part: object, n: int) -> Array:
        found = np.zeros((n, self.outputs))
        for block in self.future:
            found[:, block.rows] = part(block)  # type: ignore[operator]
        return found


def _coloured(block: Block, phi: Array, outputs: Array, white: Array) -> Array:
    parts = []
    for some in blocks_of(len(phi), block.size**2):
        covariance = block.noise_covariance(phi[some], outputs[some][:, block.rows])
        factor = np.linalg.cholesky(covariance)
        parts.append(np.einsum("nij,nj->ni", factor, white[some]))
    return np.concatenate(parts)


def _root(covariance: Array) -> Array:
    """A square root of a covariance that may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def blocks_of(n: int, elements: int) -> Iterator[slice]:
    """Slices of ``n`` rows, each of so many elements, that fit into memory together."""
    step = max(_AT_ONCE // max(elements, 1), 1)
    for i in range(0, n, step):
        yield slice(i, min(i + step, n))


def joined(parts: list[tuple[NoiseModel, int]]) -> NoiseModel:
    """The noise of independent experiments, each with the number of its outputs; equal names are told apart."""
    every = [name for model, _ in parts for name in model.names]
    data, out, blocks, future, names = [], [], [], [], []
    marginals: list[Distribution] = []
    n = m = k = 0
    for number, (model, outputs) in enumerate(parts):
        data.append(model.data)
        out.append(model.out + m)
        blocks += [b.moved(n, k) for b in model.blocks]
        future += [b.moved(m, k) for b in model.future]
        names += [f"{name} ({number + 1})" if every.count(name) > 1 else name for name in model.names]
        marginals += model.marginals
        n, m, k = n + len(model.data), m + outputs, k + model.size
    whole = (np.concatenate(data), np.concatenate(out), tuple(blocks), tuple(future), tuple(names), tuple(marginals))
    return NoiseModel(*whole)


def known(observed: Array, factor: Array) -> NoiseModel:
    """Noise without parameters, as an experiment has that has no other."""
    rows = np.arange(len(observed))
    block = Block(rows, factor, Term(1.0))
    return NoiseModel(observed, rows, (block,), (block,))


def refuse(what: str, got: str) -> ArgumentError:
    """The error of an argument of the likelihood."""
    return ArgumentError(f"GaussianLikelihood: {what}; got {got}")
