"""The look before a long run: what one run of the model means for the data."""

import numpy as np
import pytest

import tbq
from tbq.cli import precheck


def test_two_experiments_are_each_measured_by_their_own_noise():
    force = tbq.GaussianLikelihood(lambda theta: theta[:1] * [1.0, 2.0, 3.0], [1.0, 2.5, 3.0], 0.1)
    sag = tbq.GaussianLikelihood(lambda theta: theta[1:], [4.0, 6.0], [0.5, 1.0], scale=lambda theta: theta[0])
    theta = np.array([2.0, 5.0, 3.0])
    likelihood = force + sag
    _, outputs = likelihood.evaluate(theta)
    lines = "\n".join(precheck._compare(likelihood, theta, outputs)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.split() == ["output", "observed", "off", "by"]) + 1
    found = np.array([line.split() for line in lines[start : start + 5]], dtype=float)
    np.testing.assert_allclose(found[:, 0], [2.0, 4.0, 6.0, 5.0, 3.0])
    np.testing.assert_allclose(found[:, 1], [1.0, 2.5, 3.0, 4.0, 6.0])
    np.testing.assert_allclose(found[:, 2], [10.0, 15.0, 30.0, 1.0, -1.5])
    assert any(f"log-likelihood is {likelihood(theta):.6g}" in line for line in lines)


def test_another_number_of_outputs_is_told():
    likelihood = tbq.GaussianLikelihood(np.sum, [1.0], 0.1) + tbq.GaussianLikelihood(np.sum, [2.0], 0.1)
    with pytest.raises(tbq.TbqError, match=r"returned 3 numbers, but data\.observed has 2"):
        list(precheck._compare(likelihood, np.ones(2), np.ones(3)))
