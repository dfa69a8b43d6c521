"""What a user calls the outputs: names, units and coordinates, for tables and pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tbq.common.arguments import floats
from tbq.common.errors import ArgumentError
from tbq.common.types import Array, IntArray
from tbq.common.words import steers


@dataclass(frozen=True)
class Labels:
    """What outputs are called; empty where nobody said."""

    names: tuple[str, ...] = ()  # (m,)
    units: tuple[str, ...] = ()  # (m,)
    coordinates: Array | None = None  # (m,): where or when each was measured
    along: str = ""  # what the coordinates are, with their unit

    def taken(self, index: IntArray) -> Labels:
        """Those of some of the outputs."""
        names, units = (tuple(words[i] for i in index) if words else () for words in (self.names, self.units))
        return Labels(names, units, None if self.coordinates is None else self.coordinates[index], self.along)


NO_LABELS = Labels()


def checked_labels(names: Any, units: Any, coordinates: Any, m: int) -> Labels:
    """What the user calls the outputs, checked."""
    along, values = "", coordinates
    if isinstance(coordinates, Mapping):
        if len(coordinates) != 1:
            got = ", ".join(map(repr, coordinates))
            raise ArgumentError(
                f"GaussianLikelihood: coordinates must be one array under its name; got {got or 'none'}"
            )
        ((along, values),) = coordinates.items()
        along = _words("coordinates", [along], 1)[0]
    if values is not None:
        values = _numbers(values)
        if values.shape != (m,):
            raise ArgumentError(f"GaussianLikelihood: coordinates must be {m} numbers; got shape {values.shape}")
    units = [units] * m if isinstance(units, str) else units
    found = () if names is None else _words("names", names, m)
    if len(set(found)) < len(found):
        twice = Counter(found).most_common(1)[0][0]
        raise ArgumentError(f"GaussianLikelihood: names must differ; got {twice!r} more than once")
    return Labels(found, () if units is None else _words("units", units, m), values, along)


def _words(name: str, value: Any, m: int) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else list(value)
    if len(listed) != m or not all(isinstance(w, str) and not any(map(steers, w)) for w in listed):
        raise ArgumentError(f"GaussianLikelihood: {name} must be {m} texts on one line each; got {value!r}")
    return tuple(listed)


def _numbers(value: Any) -> Array:
    try:
        array = np.atleast_1d(floats(value))
    except (TypeError, ValueError):
        raise ArgumentError(f"GaussianLikelihood: coordinates must be numbers; got {type(value).__name__}") from None
    if not np.all(np.isfinite(array)):
        wrong = array[~np.isfinite(array)].flat[0]
        raise ArgumentError(f"GaussianLikelihood: coordinates must be finite; got {wrong}")
    return array
