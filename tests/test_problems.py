"""The problem library against dense quadrature."""

import numpy as np
import pytest

import tbq


@pytest.mark.parametrize("name", ["u1", "u2", "u3", "u4"])
def test_exact_evidences_by_the_trapezoidal_rule(name):
    problem = tbq.problems.get(name)
    x = np.linspace(-4, 4, 2001)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)
    likelihood = np.exp(problem.log_likelihood(grid))
    exact = np.trapezoid(np.trapezoid(likelihood, x), x) / 64.0
    assert problem.reference.evidence == pytest.approx(exact, rel=1e-5)


def test_problems_are_listed_and_unknown_ones_named():
    assert {"u1", "u2", "u3", "u4"} <= set(tbq.problems.names())
    for name in tbq.problems.names():
        problem = tbq.problems.get(name)
        theta = problem.prior.sample(3, seed=0)
        assert problem.log_likelihood(theta[0]) == pytest.approx(problem.log_likelihood(theta)[0])
    with pytest.raises(tbq.TbqError, match="no problem 'u9'; there are u1"):
        tbq.problems.get("u9")
