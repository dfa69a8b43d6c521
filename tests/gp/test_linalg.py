"""Factors and solves against NumPy's."""

import numpy as np
import pytest

from tbq.gp.linalg import cholesky, solve

rng = np.random.default_rng(0)
ROOT = rng.normal(size=(6, 6))
MATRIX = ROOT @ ROOT.T + np.eye(6)


def test_the_factor_is_read_from_the_upper_triangle():
    np.testing.assert_allclose(cholesky(np.triu(MATRIX)), np.linalg.cholesky(MATRIX), atol=1e-12)


@pytest.mark.parametrize("matrix", [-np.eye(3), np.array([[1.0, 2.0], [2.0, 1.0]]), np.full((2, 2), np.nan)])
def test_there_is_none_of_a_matrix_that_is_not_positive_definite(matrix):
    assert cholesky(matrix) is None


@pytest.mark.parametrize("b", [rng.normal(size=6), rng.normal(size=(6, 4)), np.asfortranarray(rng.normal(size=(6, 4)))])
@pytest.mark.parametrize("transposed", [False, True])
def test_solves_leave_their_argument_alone_unless_it_may_be_overwritten(b, transposed):
    factor, before = cholesky(MATRIX.copy()), b.copy()
    expected = np.linalg.solve(factor.T if transposed else factor, b)
    np.testing.assert_allclose(solve(factor, b, transposed=transposed), expected, atol=1e-12)
    np.testing.assert_array_equal(b, before)
    np.testing.assert_allclose(solve(factor, b, transposed=transposed, overwrite=True), expected, atol=1e-12)
