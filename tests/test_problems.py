"""The problem library against dense quadrature."""

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.problems.frames import frequencies3


@pytest.mark.parametrize("name", ["u1", "u2", "u3", "u4"])
def test_exact_evidences_by_the_trapezoidal_rule(name):
    problem = tbq.problems.get(name)
    x = np.linspace(-4, 4, 2001)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)
    likelihood = np.exp(problem.log_likelihood(grid))
    exact = np.trapezoid(np.trapezoid(likelihood, x), x) / 64.0
    assert problem.reference.evidence == pytest.approx(exact, rel=1e-5)


def test_ten_is_a_product_of_three_plane_integrals():
    problem = tbq.problems.get("ten")
    x = np.linspace(-4, 4, 3201)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)
    best = np.array([2.0, 0.0, 0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0, 0.0])  # the peak of one mode, up to its twin
    exact = 1.0
    for pair in ((0, 1), (2, 3), (4, 5)):
        theta = np.broadcast_to(best, (*grid.shape[:2], 10)).copy()
        theta[..., pair] = grid
        part = np.exp(problem.log_likelihood(theta) - problem.log_likelihood(best))
        exact *= np.trapezoid(np.trapezoid(part, x), x) / 64.0
    assert problem.reference.evidence == pytest.approx(exact * np.exp(problem.log_likelihood(best)), rel=1e-5)
    assert sum(m.mass for m in problem.reference.modes) == pytest.approx(1.0)


def test_the_two_storey_frame_and_its_modes():
    problem = tbq.problems.get("dof2")
    z = np.linspace(-6, 6, 2401)
    theta = np.stack(np.meshgrid(*problem.prior.from_working(np.column_stack([z, z])).T, indexing="ij"), axis=-1)
    normal = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    mass = np.exp(problem.log_likelihood(theta)) * np.outer(normal, normal) * (z[1] - z[0]) ** 2
    assert problem.reference.evidence == pytest.approx(mass.sum(), rel=1e-4)
    for mode in problem.reference.modes:
        assert mode.mass == pytest.approx(mass[mode.contains(theta)].sum() / mass.sum(), abs=2e-4)


def test_the_three_storey_frame_and_its_modes():
    # importance sampling from a wide Student-t around each mode, located by the frequencies themselves
    problem = tbq.problems.get("dof3")
    rng = np.random.default_rng(0)
    masses = []
    for start in ([0.4999, 1.1888, 3.2134], [0.6602, 2.1795, 1.3271]):
        jacobian = np.array([(frequencies3(start + e) - frequencies3(start - e)) / 2e-5 for e in 1e-5 * np.eye(3)])
        spread = 1.5 * 0.05**2 * np.linalg.inv(jacobian @ jacobian.T)
        proposal = stats.multivariate_t(start, spread, df=6, seed=rng)
        theta = proposal.rvs(100_000)
        log_weight = problem.log_likelihood(theta) + problem.prior.log_density(theta) - proposal.logpdf(theta)
        masses.append(np.exp(log_weight).mean())
    assert problem.reference.evidence == pytest.approx(sum(masses), rel=0.01)
    np.testing.assert_allclose([m.mass for m in problem.reference.modes], np.array(masses) / sum(masses), atol=0.005)


@pytest.mark.parametrize("name", tbq.problems.names())
def test_modes_share_the_posterior_between_them(name):
    problem = tbq.problems.get(name)
    theta = problem.prior.sample(500, seed=0)
    if problem.reference.modes:
        assert np.all(sum(m.contains(theta).astype(int) for m in problem.reference.modes) == 1)


def test_problems_are_listed_and_unknown_ones_named():
    assert {"u1", "u2", "u3", "u4"} <= set(tbq.problems.names())
    for name in tbq.problems.names():
        problem = tbq.problems.get(name)
        theta = problem.prior.sample(3, seed=0)
        assert problem.log_likelihood(theta[0]) == pytest.approx(problem.log_likelihood(theta)[0])
    with pytest.raises(tbq.TbqError, match=r"no problem 'u9'; there are .*, u1, u2"):
        tbq.problems.get("u9")
