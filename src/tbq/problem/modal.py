"""Modes of vibration as data: measured modes are paired with the model's before anything is learned.

Eigenvalues in their order are no smooth functions of θ where modes cross, and shapes have neither sign nor scale. What
is learned here is what the model says of each *measured* mode, in the order of these: the modes most like it by

    MAC = (φᵀψ)² / (φᵀφ)(ψᵀψ),

scaled to it by least squares. Measured modes Ψ that lie close together are taken as the subspace that they span: with
the model's modes Φ paired with them and ΦR the projection of Ψ on their span, R⁻¹ diag(f²) R has the squared
frequencies in the basis of the measured modes, whichever way the model's own ones are turned or swapped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from tbq.common.arguments import floats, real
from tbq.common.errors import ArgumentError, TbqError
from tbq.common.types import Array, ArrayLike, Distribution, IntArray
from tbq.problem.likelihood import GaussianLikelihood

Level = float | Distribution
_LEAST_TURN = 1e-6  # of R's determinant: below, the model's modes have nothing of the measured ones


class ModalLikelihood(GaussianLikelihood):
    """The log-likelihood of measured frequencies and mode shapes.

    Parameters
    ----------
    model
        Function of ``theta`` that returns frequencies (q,) and shapes (n, q), a column for each mode, of at least as
        many modes as were measured. It may be that of another unit: see ``eigenvalues``.
    frequencies
        Measured ones (p,), in the model's unit.
    shapes
        Measured ones (sensors, p), of any sign and scale; nan where a sensor gave nothing. Without them modes are
        paired in the order of their frequencies.
    frequency_noise
        Relative error of a frequency, as a standard deviation, or its prior.
    shape_noise
        Error of each component of a shape whose components' squares sum to one, as a standard deviation, or its prior.
    mac_noise
        The same by what 1 − MAC would be on average, of repeated measurements of a mode; in the place of
        ``shape_noise``.
    sensors
        Which of the model's degrees of freedom were measured, in the order of the rows of ``shapes``; all when not
        given.
    close
        Relative distance of measured frequencies below which modes are taken together, as the subspace they span.
    eigenvalues
        Whether the model returns eigenvalues (2πf)² in the place of frequencies.
    coarse
        A cheaper model of the same modes at the same degrees of freedom, such as one of a coarser mesh.
    cost
        Of a run of it, in runs of ``model``; timed where it is not given.

    Examples
    --------
    >>> def model(theta):
    ...     values, shapes = np.linalg.eigh(np.array([[2.0, -1.0], [-1.0, 1.0]]) * theta[0])
    ...     return np.sqrt(values), shapes
    >>> measured = np.array([[0.53, 0.85], [0.85, -0.52]])
    >>> likelihood = tbq.ModalLikelihood(model, [0.62, 1.6], measured, frequency_noise=0.01, shape_noise=0.02)
    >>> round(float(likelihood(np.array([1.0]))), 2)
    14.84
    """

    def __init__(
        self,
        model: Callable[[Array], Any],
        frequencies: ArrayLike,
        shapes: ArrayLike | None = None,
        *,
        frequency_noise: Level = 0.01,
        shape_noise: Level | None = None,
        mac_noise: float | None = None,
        sensors: ArrayLike | None = None,
        close: float = 0.02,
        eigenvalues: bool = False,
        coarse: Callable[[Array], Any] | None = None,
        cost: float | None = None,
    ) -> None:
        for name, function in (("model", model), ("coarse", coarse)):
            if not callable(function) and (name == "model" or function is not None):
                raise ArgumentError(f"ModalLikelihood: {name} must be a function of theta; got {function!r}")
        measured = _frequencies(frequencies)
        wanted = None if shapes is None else _shapes(shapes, len(measured))
        how = (measured, wanted, _sensors(sensors, wanted), _clusters(measured, close), bool(eigenvalues))
        paired, below = Paired(model, *how), None if coarse is None else Paired(coarse, *how)
        noise = {"frequency": frequency_noise}
        if wanted is not None:
            noise["shape"] = _shape_noise(shape_noise, mac_noise, wanted)
        groups = {"frequency": slice(0, len(measured)), "shape": slice(len(measured), None)}
        observed = np.append(np.ones(len(measured)), paired.components)
        names = [f"f{j + 1}" for j in range(len(measured))] + [
            f"mode {j + 1}, sensor {i + 1}" for j, i in paired.places
        ]
        groups = {name: groups[name] for name in noise}
        super().__init__(paired, observed, noise, groups=groups, names=names, coarse=below, cost=cost)


class Paired:
    """A model of modes as one of what it says of each measured mode: frequency ratios, then components of shapes."""

    def __init__(
        self,
        model: Callable[[Array], Any],
        frequencies: Array,
        shapes: Array | None,
        sensors: IntArray | None,
        clusters: list[IntArray],
        eigenvalues: bool,
    ) -> None:
        self.model, self.frequencies, self.shapes = model, frequencies, shapes
        self.sensors, self.clusters, self.eigenvalues = sensors, clusters, eigenvalues

    @property
    def places(self) -> list[tuple[int, int]]:
        """Mode and sensor of each component."""
        return [] if self.shapes is None else [(int(j), int(i)) for j, i in np.argwhere(np.isfinite(self.shapes.T))]

    @property
    def components(self) -> Array:
        """Those measured, mode by mode."""
        return np.array([self.shapes[i, j] for j, i in self.places]) if self.shapes is not None else np.empty(0)

    def __call__(self, theta: Array) -> Array:
        theta = np.asarray(theta, dtype=float)
        if theta.ndim == 1:
            return self._one(self.model(theta))
        rows = theta.reshape(-1, theta.shape[-1])
        return np.array([self._one(self.model(row)) for row in rows]).reshape(*theta.shape[:-1], -1)

    def _one(self, answer: Any) -> Array:
        frequencies, shapes = self._answer(answer)
        if self.shapes is None:
            return np.sort(frequencies)[: len(self.frequencies)] / self.frequencies
        seen = shapes if self.sensors is None else shapes[self.sensors]
        if seen.shape[0] != len(self.shapes):
            raise TbqError(f"the model's shapes have {seen.shape[0]} components, and {len(self.shapes)} were measured")
        pairs = paired_modes(self.shapes, seen)
        ratios, fitted = np.empty(len(self.frequencies)), np.full(self.shapes.shape, np.nan)
        for cluster in self.clusters:
            mine = pairs[cluster]
            f, fitted[:, cluster] = in_measured_basis(self.shapes[:, cluster], seen[:, mine], frequencies[mine])
            ratios[cluster] = f / self.frequencies[cluster]
        return np.append(ratios, [fitted[i, j] for j, i in self.places])

    def _answer(self, answer: Any) -> tuple[Array, Array]:
        """Frequencies and shapes, checked."""
        try:
            values, shapes = answer
            values, shapes = floats(values), floats(shapes)
        except (TypeError, ValueError):
            raise TbqError("the model must return frequencies and shapes; it returned something else") from None
        p = len(self.frequencies)
        if values.ndim != 1 or shapes.ndim != 2 or shapes.shape[1] != len(values) or len(values) < p:
            wanted = f"frequencies (q,) and shapes (n, q) of at least {p} modes"
            raise TbqError(f"the model must return {wanted}; it returned shapes {values.shape} and {shapes.shape}")
        if not np.all(np.isfinite(values)) or np.any(values < 0.0) or not np.all(np.isfinite(shapes)):
            raise TbqError("the model returned frequencies or shapes that are negative or not finite")
        return (np.sqrt(values) / (2.0 * np.pi) if self.eigenvalues else values), shapes


def mac(measured: Array, model: Array) -> Array:
    """Modal assurance criterion of each measured mode with each of the model's, (p, q), over sensors that gave it."""
    known = np.isfinite(measured)
    measured = np.where(known, measured, 0.0)
    dots = measured.T @ model
    norms = np.sum(measured**2, axis=0)[:, None] * (known.T.astype(float) @ model**2)
    return np.asarray(dots**2 / np.maximum(norms, 1e-300))


def paired_modes(measured: Array, model: Array) -> IntArray:
    """Which of the model's modes each measured one is paired with: that of the largest sum of MAC."""
    return np.asarray(optimize.linear_sum_assignment(mac(measured, model), maximize=True)[1])


def in_measured_basis(measured: Array, model: Array, frequencies: Array) -> tuple[Array, Array]:
    """Frequencies and shapes of as many modes of the model as were measured, in the basis of these."""
    known = np.isfinite(measured).all(axis=1)
    turn, *_ = np.linalg.lstsq(model[known], measured[known])  # R: columns have the measured modes in the model's
    size = np.linalg.norm(turn, axis=0)
    if np.abs(np.linalg.det(turn / np.maximum(size, 1e-300))) < _LEAST_TURN or not np.all(size > 0.0):
        turn = np.eye(len(frequencies))  # far from the data, where any pairing will do
    squares = np.diag(np.linalg.solve(turn, frequencies[:, None] ** 2 * turn))
    low, high = frequencies.min(), frequencies.max()
    return np.sqrt(np.clip(squares, low**2, high**2)), model @ turn


# --- arguments ----------------------------------------------------------------------------------------------


def _frequencies(value: ArrayLike) -> Array:
    try:
        found = np.atleast_1d(floats(value))
    except (TypeError, ValueError):
        found = np.empty((0, 0))
    if found.ndim != 1 or len(found) == 0 or not np.all(np.isfinite(found) & (found > 0.0)):
        raise ArgumentError(f"ModalLikelihood: frequencies must be positive numbers; got {value!r}")
    return found


def _shapes(value: ArrayLike, p: int) -> Array:
    """Each of unit norm over the sensors that gave it."""
    try:
        found = floats(value)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.ndim != 2 or found.shape[1] != p or np.isinf(found).any():
        raise ArgumentError(
            f"ModalLikelihood: shapes must have a column for each of the {p} frequencies; got shape {found.shape}"
        )
    norms = np.sqrt(np.nansum(found**2, axis=0))
    if not np.all(norms > 0.0):
        raise ArgumentError("ModalLikelihood: each of shapes must have a component that is not zero")
    return np.asarray(found / norms)


def _sensors(value: ArrayLike | None, shapes: Array | None) -> IntArray | None:
    if value is None:
        return None
    found = np.asarray(value)
    if shapes is None or found.shape != (len(shapes),) or found.dtype.kind not in "iu" or found.min() < 0:
        raise ArgumentError(
            "ModalLikelihood: sensors must be the numbers of the degrees of freedom, from 0, one for each row of "
            f"shapes; got {value!r}"
        )
    return found


def _clusters(frequencies: Array, close: float) -> list[IntArray]:
    """Modes that follow each other more closely than ``close``."""
    if not 0.0 <= real(close) < 1.0:
        raise ArgumentError(f"ModalLikelihood: close must be a fraction from 0 on, below 1; got {close!r}")
    order = np.argsort(frequencies)
    gaps = np.diff(frequencies[order]) / frequencies[order][1:]
    return [np.sort(part) for part in np.split(order, np.flatnonzero(gaps >= close) + 1)]


def _shape_noise(shape_noise: Level | None, mac_noise: float | None, shapes: Array) -> Level:
    if (shape_noise is None) == (mac_noise is None):
        got = "none" if shape_noise is None else "both"
        raise ArgumentError(
            f"ModalLikelihood: give one of shape_noise and mac_noise, where there are shapes; got {got}"
        )
    if mac_noise is None:
        assert shape_noise is not None
        return shape_noise
    sensors = float(np.mean(np.isfinite(shapes).sum(axis=0)))
    if not 0.0 < real(mac_noise) < 1.0 or sensors < 2:
        raise ArgumentError(
            f"ModalLikelihood: mac_noise must lie between 0 and 1, and shapes have two sensors; got {mac_noise!r}"
        )
    return float(np.sqrt(mac_noise / (sensors - 1.0)))
