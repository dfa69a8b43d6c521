"""Checks of what a user gave: the value as it is meant, or an error that names the argument."""

from __future__ import annotations

import numbers
import operator
from pathlib import Path
from typing import Any

import numpy as np

from tbq.common.errors import ArgumentError


def whole(name: str, value: Any, least: int = 1, otherwise: str = "") -> int:
    """A whole number of at least ``least``; ``otherwise`` says what else may be given. 2.0 is one, "2" is none."""
    number = _whole(value)
    if number is None or number < least:
        raise ArgumentError(f"{name} must be a whole number of at least {least}{otherwise}; got {value!r}")
    return number


def positive(name: str, value: Any, unit: str = "") -> float:
    """A finite number above zero; ``unit`` says of what, and what else may be given."""
    number = real(value)
    if not 0.0 < number < np.inf:
        raise ArgumentError(f"{name} must be a positive number{unit}; got {value!r}")
    return number


def check_timeout(timeout: float | None) -> None:
    """Refuse a time limit of a simulator that is none."""
    if timeout is not None and not 0 < timeout < np.inf:
        raise ArgumentError(f"timeout must be a positive number of seconds; got {timeout!r}")


def function(name: str, value: Any) -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        raise ArgumentError(f"{name} must be a function of theta; got {type(value).__name__}")


def file_path(where: str, path: Any) -> Path:
    """The path of a file, which need not exist."""
    if not isinstance(path, str | Path) or not Path(path).name:
        got = repr(str(path)) if isinstance(path, str | Path) else type(path).__name__
        raise ArgumentError(f"{where}: path must be the name of a file; got {got}")
    return Path(path)


def real(value: Any) -> float:
    """The number, or nan where it is none."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.inf


def floats(value: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Numbers that a simulator returned, nan where they are masked. Raises anything where they are none."""
    if isinstance(value, np.ma.MaskedArray):  # of which a plain array would show what is under the mask
        return np.ma.filled(value.astype(float), np.nan)
    if isinstance(value, list | tuple) and any(isinstance(item, np.ma.MaskedArray) for item in value):
        return np.array([floats(item) for item in value])
    if value is None or np.iscomplexobj(value):  # NumPy's nan would not tell that a ``return`` is missing
        raise TypeError("complex numbers, or nothing")
    return np.asarray(value, dtype=float)


def checked_seed(seed: Any, rng: Any = None) -> int | None:
    """The seed of a run: a whole number, so that it can be written down and the run repeated; drawn from ``rng``."""
    if rng is None:
        return None if seed is None else whole("seed", seed, 0, ", or None")
    random = generator("random numbers", seed, rng)  # refuses both, and what is neither
    return int(random.integers(2**63)) if isinstance(rng, np.random.Generator) else whole("rng", rng, 0)


def generator(where: str, seed: Any, rng: Any = None) -> np.random.Generator:
    """A random generator made of a seed, or given as one, by either of the names that people know it by."""
    if rng is not None and seed is not None:
        raise ArgumentError(f"{where}: give one of seed and rng; got both")
    name, given = ("seed", seed) if rng is None else ("rng", rng)
    try:
        return np.random.default_rng(given)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{where}: {name} must be a whole number of at least 0, a numpy.random.Generator or None; got {given!r}"
        ) from None


def _whole(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float | np.floating):
        return int(value) if float(value).is_integer() else None
    try:
        return operator.index(value)
    except TypeError:
        return None
