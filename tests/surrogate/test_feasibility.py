"""The border of zero likelihood: moments against Monte Carlo, evidences against exact ones."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

import tbq
from tbq.gp import probit
from tbq.gp import regression as gps
from tbq.gp.kernels import SE
from tbq.problem.evaluation import Status
from tbq.surrogate import feasibility
from tbq.surrogate.feasibility import Bounded, Region
from tbq.surrogate.lognormal import LogNormal

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (14, 2))


@pytest.fixture(scope="module")
def bounded():
    labels = np.where(X[:, 0] + 0.3 * X[:, 1] < 0.2, 1.0, -1.0)
    border = probit.at(X, labels, SE, "constant", np.log([0.4, 0.4, 1.5]))
    values = gps.build(X, -np.sum(X**2, axis=1), 1e-6, SE, "constant", np.log([1.0, 1.0, 0.5]))
    return Bounded(LogNormal(values, cap=np.inf), Region(border))


Z = np.array([[0.2, 0.05], [0.38, -0.5], [0.0, 0.65], [-0.1, 0.4], [0.3, 0.2]])  # about the border


def draws(bounded, z, n=400_000):
    """Joint draws of F and L at points, by the definition: h > 0, exp(g)."""
    rng = np.random.default_rng(1)
    side = bounded.region.at(z)
    joint = bounded.region.gp.covariance(side.latent, side.latent)
    scale = side.sd / np.sqrt(np.diag(joint))  # the floor under the standard deviation
    factor = np.linalg.cholesky(joint * np.outer(scale, scale) + 1e-10 * np.eye(len(z)))
    feasible = side.t * side.sd + rng.standard_normal((n, len(z))) @ factor.T > 0
    at = bounded.inner.at(z)
    factor = np.linalg.cholesky(bounded.inner.covariance(at, at) + 1e-12 * np.eye(len(z)))
    return feasible, np.exp(at.mean + rng.standard_normal((n, len(z))) @ factor.T)


def test_the_covariance_of_two_sides_is_an_orthant_probability(bounded):
    region, side = bounded.region, bounded.region.at(Z)
    r = region.gp.covariance(side.latent, side.latent) / np.outer(side.sd, side.sd)
    got = region.covariance(side, side)
    for i in range(5):
        for j in range(i + 1):
            correlation = min(r[i, j], 0.999)  # a point with itself: as if it were its close neighbour
            both = stats.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]]).cdf([side.t[i], side.t[j]])
            expected = both - special.ndtr(side.t[i]) * special.ndtr(side.t[j])
            assert got[i, j] == pytest.approx(expected, abs=2e-5 if i != j else 2e-3)


@pytest.mark.parametrize("gamma", [0.4, 1.0])
def test_moments_are_those_of_the_product(bounded, gamma):
    feasible, likelihood = draws(bounded, Z)
    value = feasible * likelihood**gamma
    at = bounded.at(Z)
    np.testing.assert_allclose(np.exp(bounded.log_mean(at, gamma)), value.mean(axis=0), rtol=0.02, atol=2e-4)
    seen = value.mean(axis=0) > 0.02
    ratio = (value.T @ value / len(value)) / np.outer(value.mean(axis=0), value.mean(axis=0))
    got = np.exp(bounded.log_ratio(at, at, gamma))
    off = ~np.eye(5, dtype=bool) & np.outer(seen, seen)
    np.testing.assert_allclose(got[off], ratio[off], rtol=0.05)
    np.testing.assert_allclose(np.exp(bounded.log_ratio_diagonal(at, gamma))[seen], np.diag(ratio)[seen], rtol=0.05)


def test_a_run_reveals_a_side_as_bayes_theorem_says(bounded):
    # without a likelihood to learn (γ → 0) the outcome of a run is all there is
    feasible, _ = draws(bounded, Z)
    new, nodes = bounded.at(Z[:1]), bounded.at(Z[1:])
    chance = feasible[:, 0].mean()
    after = np.array([feasible[feasible[:, 0] == outcome][:, 1:].mean(axis=0) for outcome in (False, True)])
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    shares = after / feasible[:, 1:].mean(axis=0) - 1.0
    variance = (1 - chance) * (shares[0] @ weights) ** 2 + chance * (shares[1] @ weights) ** 2
    got = bounded.revealed_variance(new, nodes, weights, 1e-9)
    assert got[0] == pytest.approx(variance, rel=0.05)
    each = np.log1p((1 - chance) * shares[0] ** 2 + chance * shares[1] ** 2)
    np.testing.assert_allclose(bounded.revealed_log_ratio(new, nodes, 1e-9)[0], each, rtol=0.08, atol=1e-3)


def test_belief_in_a_point_settles_its_side(bounded):
    z = Z[np.argmin(np.abs(bounded.region.at(Z).t))]
    before, after = (b.region.at(z[None, :]).t[0] for b in (bounded, bounded.condition_on_mean(z)))
    assert abs(before) < 0.7 * abs(after)
    assert before * after > 0
    assert special.ndtr(abs(after)) > 0.85


def test_there_is_no_border_before_both_outcomes_were_seen():
    z = np.random.default_rng(3).uniform(-1, 1, (20, 2))
    assert feasibility.learn(z, np.ones(20, dtype=bool), None) is None
    assert feasibility.learn(z, np.zeros(20, dtype=bool), None) is None


def test_other_hyperparameters_know_the_same_outcomes_and_differ_between_them():
    rng = np.random.default_rng(3)
    z = rng.uniform(-1, 1, (40, 2))
    region = feasibility.learn(z, np.sum(z**2, axis=1) < 0.6, None)
    others = list(region.alternatives(4, rng))
    assert len(others) == 4
    for other in others:
        assert np.all((other.at(z).probability > 0.5) == (np.sum(z**2, axis=1) < 0.6))
    between = rng.uniform(-1, 1, (200, 2))
    spread = np.std([other.at(between).probability for other in others], axis=0)
    assert 0.01 < spread.max() < 0.5


def test_half_of_the_prior_may_be_infeasible():
    problem = tbq.problems.get("cut2")
    for seed in (0, 1):
        result = tbq.infer(problem.log_likelihood, problem.prior, seed=seed)
        error = result.log_evidence - problem.reference.log_evidence
        assert abs(error) < min(3 * result.log_evidence_sd, 0.15)
        infeasible = [e for e in result.evaluations if e.status is Status.INFEASIBLE]
        assert 0 < len(infeasible) <= result.n_evaluations / 2
        assert "zero beyond a learned border" in result.summary()


def test_after_a_rare_success_runs_are_made_near_it():
    def log_likelihood(theta):  # feasible in a fiftieth of the prior
        return -np.sum(theta**2) if np.sum(theta**2) < 0.41 else -np.inf

    prior = tbq.Prior({"a": stats.uniform(-4, 8), "b": stats.uniform(-4, 8)})
    session = tbq.Session(prior, seed=0)
    outcomes = []
    while outcomes.count("ok") < 3:
        [proposal] = session.ask(1)
        value = log_likelihood(proposal.theta)
        session.tell(proposal.id, log_likelihood=value)
        outcomes.append("zero" if np.isinf(value) else "ok")
    first = outcomes.index("ok")
    assert first > 10  # by chance
    assert len(outcomes) - first < 15


def test_a_border_may_be_curved():
    def log_likelihood(theta):
        return -0.5 * np.sum((theta / 0.8) ** 2) if np.sum(theta**2) < 1.44 else -np.inf

    prior = tbq.Prior({"a": stats.uniform(-4, 8), "b": stats.uniform(-4, 8)})
    exact = np.log(2 * np.pi * 0.64 * -np.expm1(-1.44 / 1.28) / 64)
    for seed in (0, 1):
        result = tbq.infer(log_likelihood, prior, seed=seed)
        assert result.converged
        assert abs(result.log_evidence - exact) < min(3 * result.log_evidence_sd, 0.15)


def test_a_fifth_of_the_prior_may_fail():
    def log_likelihood(theta):
        if theta[0] > 2.4:
            raise RuntimeError("mesh tangled")
        return -0.5 * np.sum((theta / 0.8) ** 2)

    prior = tbq.Prior({"a": stats.uniform(-4, 8), "b": stats.uniform(-4, 8)})
    result = tbq.infer(log_likelihood, prior, seed=0)
    exact = np.log(2 * np.pi * 0.8**2 / 64)
    assert abs(result.log_evidence - exact) < 3 * result.log_evidence_sd
    assert result.log_evidence_sd < 0.1
    failed = [e.status is Status.FAILED for e in result.evaluations]
    assert np.mean(failed[12:]) < 0.25  # the region is avoided, once it is known


def test_beside_a_run_the_chance_is_nearly_that_of_the_truncated_process():
    """Against draws of the process whose signs are those of the runs: Φ(mean/sd) alone is off by a tenth."""
    x = np.array([[-1.0], [-0.6], [-0.2], [0.3], [0.8]])
    sign = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    z = np.array([[-0.98], [-0.8], [-0.55], [-0.19], [0.0], [0.1], [0.32], [0.5]])
    parameters = np.log([0.5, 1.5])
    region = Region(probit.at(x, sign, SE, "constant", parameters))
    joint = probit._covariance(np.vstack([x, z]), SE, "constant", parameters)
    h = np.random.default_rng(0).standard_normal((2_000_000, 13)) @ np.linalg.cholesky(joint + 1e-9 * np.eye(13)).T
    truncated = h[np.all(np.sign(h[:, :5]) == sign, axis=1)][:, 5:]
    truth = (truncated > 0).mean(axis=0)  # to 0.004 and better
    latent = region.gp.project(z)
    normal = special.ndtr(latent.mean / np.sqrt(latent.variance))
    got = region.at(z).probability
    np.testing.assert_allclose(got, truth, atol=0.04)
    beside = [0, 2, 3, 6]
    assert np.max(np.abs(got - truth)[beside]) < 0.01
    assert np.max(np.abs(normal - truth)[beside]) > 0.05
    np.testing.assert_allclose(region.at(x).probability, sign > 0, atol=1e-3)


def test_far_from_all_runs_the_chance_is_that_of_the_normal_process():
    x = np.array([[-1.0], [1.0]])
    region = Region(probit.at(x, np.array([1.0, -1.0]), SE, "constant", np.log([0.3, 1.0])))
    z = np.array([[-4.0], [0.0], [5.0]])
    latent = region.gp.project(z)
    normal = special.ndtr(latent.mean / np.sqrt(latent.variance))
    np.testing.assert_allclose(region.at(z).probability, normal, atol=0.02)


def test_inflation_multiplies_the_borders_part_of_standard_deviations(bounded):
    wide, gamma = replace(bounded, inflation=3.0), 1e-9  # without a likelihood only the border is there
    at, weights = bounded.at(Z), np.full(5, 0.2)
    plain, more = (np.expm1(b.log_ratio(at, at, gamma)) for b in (bounded, wide))
    np.testing.assert_allclose(more, np.where(plain > 0.0, 9.0, 1.0) * plain, rtol=1e-6, atol=1e-12)
    plain, more = (np.expm1(b.log_ratio_diagonal(at, gamma)) for b in (bounded, wide))
    np.testing.assert_allclose(more, 9.0 * plain, rtol=1e-6)
    plain, more = (b.revealed_variance(at, at, weights, gamma) for b in (bounded, wide))
    np.testing.assert_allclose(more, 9.0 * plain, rtol=1e-6)
    assert wide.condition_on_mean(Z[0]).inflation == wide.unguarded.inflation == 3.0
    np.testing.assert_array_equal(wide.log_mean(at, 1.0), bounded.log_mean(at, 1.0))
