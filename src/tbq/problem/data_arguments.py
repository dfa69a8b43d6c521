"""Data and known noise as they are given to a likelihood: checked, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from tbq.common.arguments import floats
from tbq.common.errors import ArgumentError
from tbq.common.types import Array, ArrayLike


def checked_data(observed: ArrayLike) -> Array:
    """The data as they are, gaps and all."""
    try:
        data = np.array(floats(observed))
    except (TypeError, ValueError):
        raise ArgumentError(f"GaussianLikelihood: observed must be numbers; got {type(observed).__name__}") from None
    if data.ndim > 2 or data.size == 0:
        raise ArgumentError(
            f"GaussianLikelihood: observed must be a number, a 1-D array or replicates (r, m); got shape {data.shape}"
        )
    if np.isinf(data).any():
        raise ArgumentError("GaussianLikelihood: observed must be finite, or nan where nothing was measured; got inf")
    return np.atleast_1d(data)


def _numbers(name: str, value: ArrayLike) -> Array:
    try:
        array = np.array(floats(value))
    except (TypeError, ValueError):
        raise ArgumentError(f"GaussianLikelihood: {name} must be numbers; got {type(value).__name__}") from None
    if not np.all(np.isfinite(array)):
        raise ArgumentError(f"GaussianLikelihood: {name} must be finite; got {array[~np.isfinite(array)].flat[0]}")
    return array


def noise_factor(noise: Any, m: int) -> Array:
    """Standard deviations, or the Cholesky factor of a covariance."""
    array = _numbers("noise", noise)
    if array.ndim < 2:
        if array.size not in (1, m):
            raise ArgumentError(f"GaussianLikelihood: noise must have 1 or {m} standard deviations; got {array.size}")
        if not np.all(array > 0.0):
            raise ArgumentError(f"GaussianLikelihood: noise must be positive; got {array[array <= 0.0].flat[0]}")
        return np.array(np.broadcast_to(array, m))
    if array.shape != (m, m) or not np.allclose(array, array.T, rtol=1e-8, atol=0.0):
        raise ArgumentError(
            f"GaussianLikelihood: noise as a covariance must be symmetric, of shape ({m}, {m}); got shape {array.shape}"
        )
    try:
        return np.asarray(linalg.cholesky(array, lower=True))
    except linalg.LinAlgError:
        raise ArgumentError("GaussianLikelihood: noise as a covariance must be positive definite") from None
