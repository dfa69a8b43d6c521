"""Cholesky factors and triangular solves straight from LAPACK.

SciPy's own functions copy a matrix of many columns into Fortran order, which takes as long as the solve, and spend
several times as long as LAPACK on checks where matrices are small. Factors are lower triangles in Fortran order.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack

from tbq.common.types import Array


def cholesky(upper: Array) -> Array | None:
    """L with L Lᵀ = A, of which the upper triangle is read (and overwritten); None where there is none."""
    factor, failed = lapack.dpotrf(upper.T, lower=1, clean=1, overwrite_a=1)
    return None if failed or not np.isfinite(factor[-1, -1]) else factor  # some LAPACKs let a nan through


def triangular_inverse(upper: Array) -> Array | None:
    """L⁻¹ with L Lᵀ = A, of which the upper triangle is read (and overwritten); None where there is none."""
    factor = cholesky(upper)
    return None if factor is None else np.asarray(lapack.dtrtri(factor, lower=1, overwrite_c=1)[0])


def solve(factor: Array, b: Array, *, transposed: bool = False, overwrite: bool = False) -> Array:
    """L⁻¹ b, or L⁻ᵀ b, for a vector or a matrix; ``overwrite`` where b is not needed any more."""
    if b.ndim == 1:
        return np.asarray(blas.dtrsv(factor, b, lower=1, trans=int(transposed), overwrite_x=int(overwrite)))
    # from the right on the transpose: a matrix in C order is one in Fortran order then
    side = {"side": 1, "lower": 1, "trans_a": int(not transposed), "overwrite_b": int(overwrite)}
    return np.asarray(blas.dtrsm(1.0, factor, b.T, **side).T)
