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
    for name in set(tbq.problems.names()) - {"battery"}:  # a simulator, with tests of its own
        problem = tbq.problems.get(name)
        theta = problem.prior.sample(3, seed=0)
        assert problem.log_likelihood(theta[0]) == pytest.approx(problem.log_likelihood(theta)[0])
    with pytest.raises(tbq.TbqError, match=r"no problem 'u9'; there are .*, u1, u2"):
        tbq.problems.get("u9")


def by_importance(problem, proposal, n=100_000):
    theta = proposal.rvs(n)
    with np.errstate(divide="ignore"):
        log_weight = problem.log_likelihood(theta) + problem.prior.log_density(theta) - proposal.logpdf(theta)
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    return top + np.log(weight.mean()), weight.std() / weight.mean() / np.sqrt(n)


@pytest.mark.parametrize("name", ["linear3", "linear8", "linear12", "normal12"])
def test_the_evidence_of_a_linear_model_is_what_bayes_theorem_leaves_at_any_point(name):
    problem, d = tbq.problems.get(name), tbq.problems.get(name).prior.dim
    f = problem.log_likelihood
    gradient = np.array([f(e) - f(-e) for e in np.eye(d)]) / 2  # exact for a quadratic
    hessian = np.array([[f(a + b) - f(a) - f(b) + f(0 * a) for a in np.eye(d)] for b in np.eye(d)])
    precision = np.eye(d) - hessian
    posterior = stats.multivariate_normal(np.linalg.solve(precision, gradient), np.linalg.inv(precision))
    theta = problem.prior.sample(5, seed=0)
    left = f(theta) + problem.prior.log_density(theta) - posterior.logpdf(theta)
    np.testing.assert_allclose(left, problem.reference.log_evidence, rtol=1e-7)


def test_mixtures_by_importance_sampling_and_their_masses():
    for name, width in (("mixture4", 0.3), ("mixture8", 0.5)):
        problem = tbq.problems.get(name)
        d = problem.prior.dim
        peaks = [
            np.array([1.5, -1.0, 0.5, 2.0, -1.0, 0.5, 1.0, -1.5]),
            np.array([-2.0, 1.5, -1.5, -1.0, 1.0, -1.5, -0.5, 1.0]),
        ]
        logs = [
            by_importance(problem, stats.multivariate_t(p[:d], 1.2 * width**2 * np.eye(d), df=8, seed=1)) for p in peaks
        ]
        parts = np.exp([v for v, _ in logs])
        assert np.log(parts.sum()) == pytest.approx(problem.reference.log_evidence, abs=0.01)
        np.testing.assert_allclose([m.mass for m in problem.reference.modes], parts / parts.sum(), atol=0.005)


@pytest.mark.parametrize("name", ["correlated8", "banana6"])
def test_normals_and_bent_normals_by_importance_sampling(name):
    problem = tbq.problems.get(name)
    samples = tbq.tmcmc(problem.log_likelihood, problem.prior, population=1500, vectorized=True, seed=0).samples
    proposal = stats.multivariate_t(samples.mean(axis=0), 1.3 * np.cov(samples.T), df=5, seed=2)
    value, error = by_importance(problem, proposal)
    assert error < 0.02
    assert value == pytest.approx(problem.reference.log_evidence, abs=4 * error)


@pytest.mark.parametrize("name", ["cut2", "offset2"])
def test_planes_outside_the_paper_by_the_trapezoidal_rule(name):
    problem = tbq.problems.get(name)
    x = np.linspace(-4, 4, 2001)
    value = problem.log_likelihood(np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1))
    top = value.max()
    exact = np.trapezoid(np.trapezoid(np.exp(value - top), x), x) / 64.0
    assert problem.reference.log_evidence == pytest.approx(top + np.log(exact), abs=1e-3)


@pytest.mark.parametrize(
    ("name", "reach", "volume"),
    [("funnel3", (5.0, 10.0, 10.0), 1.0), ("student3", (4.0, 4.0, 4.0), 1.0), ("idle6", (4.0, 4.0), 8.0**4)],
)
def test_tails_and_idle_parameters_by_a_grid_over_those_that_matter(name, reach, volume):
    problem = tbq.problems.get(name)
    edges = [np.linspace(-r, r, 161) for r in reach]
    grid = np.stack(np.meshgrid(*[(e[1:] + e[:-1]) / 2 for e in edges], indexing="ij"), axis=-1).reshape(-1, len(reach))
    theta = np.zeros((len(grid), problem.prior.dim))
    theta[:, : len(reach)] = grid
    density = np.exp(problem.log_likelihood(theta) + problem.prior.log_density(theta))
    mass = density.sum() * np.prod([e[1] - e[0] for e in edges]) * volume
    assert np.log(mass) == pytest.approx(problem.reference.log_evidence, abs=0.003)
