"""What problems with data share: how the data are written down, and the normal density that most people assume."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tbq.common.types import Array

LOG_2PI = float(np.log(2.0 * np.pi))


def numbers(text: str) -> Array:
    """The numbers of a text, separated by blanks."""
    return np.array(text.split(), dtype=float)


def columns(theta: Array) -> Iterator[Array]:
    """The parameters one by one, each of shape (..., 1), so that they broadcast against data."""
    return (theta[..., i, None] for i in range(theta.shape[-1]))


def log_normal_density(residual: Array, sd: Array) -> Array:
    """log of the density of independent normal residuals: the sum over the last axis."""
    return -0.5 * np.sum((residual / sd) ** 2 + 2.0 * np.log(sd) + LOG_2PI, axis=-1)
