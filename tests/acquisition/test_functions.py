"""PUQ, PVC, PLUR and PEUR against the paper's own identities, and their behaviour at the edges."""

import numpy as np
import pytest
from scipy import stats

from tbq.acquisition import functions
from tbq.evidence import moments
from tbq.gp import regression as gps
from tbq.gp.kernels import MATERN52, SE
from tbq.surrogate import lognormal

NAMES = list(functions.ACQUISITIONS)


def make_target(gamma=1.0, kernel=SE, shift=0.0, order=None, noise=1e-6, n_nodes=150, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.5, 1.5, (12, 2))
    nodes = rng.uniform(-1.5, 1.5, (n_nodes, 2))
    y = -2.0 * np.sum(x**2, axis=1) + shift
    if order is not None:
        x, y = x[order], y[order]
    gp = gps.build(x, y, noise, kernel, "constant", np.log([0.9, 1.1, 1.5]))
    return target_of(gp, nodes, gamma)


def target_of(gp, nodes, gamma):
    surrogate = lognormal.LogNormal(gp, cap=np.inf)
    points = surrogate.at(nodes)
    log_prior = stats.uniform(-1.5, 3).logpdf
    log_z, weights = moments.normalise(surrogate.log_mean(points, gamma) - np.log(len(nodes)))
    return functions.Target(surrogate, gamma, log_z, points, nodes, weights, lambda z: log_prior(z).sum(axis=1))


def futures(target, z, n=61):
    """The surrogate after a run at z, for quadrature nodes of its unknown outcome, with their probabilities."""
    t, w = np.polynomial.hermite_e.hermegauss(n)
    gp, noise = target.surrogate.gp, float(target.surrogate.gp.noise[0])
    point = gp.project(z[None, :])
    sd = np.sqrt(point.variance[0] + noise + gps.NUGGET * np.exp(2 * gp.parameters[-1]))
    for ti, wi in zip(t, w / w.sum(), strict=True):
        after = lognormal.LogNormal(gp.condition(z, float(point.mean[0] + sd * ti), noise), cap=np.inf)
        yield wi, after, after.at(target.node_z)


def likelihood_moments(surrogate, points, gamma):
    mean = np.exp(surrogate.log_mean(points, gamma))
    covariance = np.outer(mean, mean) * np.expm1(surrogate.log_ratio(points, points, gamma))
    return mean, covariance


@pytest.mark.parametrize("gamma", [0.4, 1.0])
@pytest.mark.parametrize("z", [np.array([0.1, 0.2]), np.array([-1.3, 1.1])])
def test_plur_and_peur_are_what_the_paper_says_they_are(gamma, z):
    """eq:PLURInterp and eq:PEURInterp: both rows of both, with the unknown outcome integrated out."""
    target = make_target(gamma)
    mean, covariance = likelihood_moments(target.surrogate, target.nodes, gamma)
    z_mean, z_variance = mean.mean(), covariance.mean()
    change = reduction = np.zeros(len(mean))
    z_change, z_reduction = 0.0, z_variance
    for probability, after, points in futures(target, z):
        m, c = likelihood_moments(after, points, gamma)
        change = change + probability * (m - mean) ** 2
        reduction = reduction + probability * (np.diag(covariance) - np.diag(c))
        z_change += probability * (m.mean() - z_mean) ** 2
        z_reduction -= probability * c.mean()
    plur = np.exp(functions.plur(target, z[None, :])[0]) * z_mean**2
    assert plur == pytest.approx(change.mean(), rel=1e-5)
    assert plur == pytest.approx(reduction.mean(), rel=1e-5)
    peur = np.exp(functions.peur(target, z[None, :])[0]) * z_mean**2
    assert peur == pytest.approx(z_change, rel=1e-5)
    assert peur == pytest.approx(z_reduction, rel=1e-5)


def test_peur_equals_the_papers_random_pairing_in_expectation():
    target = make_target()
    z = np.array([[0.3, -0.4], [1.2, 1.0]])
    a = target.surrogate._shift(target.surrogate.at(z), target.nodes, 1.0)
    mean = np.exp(target.surrogate.log_mean(target.nodes, 1.0) - target.log_evidence)
    rng = np.random.default_rng(3)
    paired = []
    for _ in range(4000):
        p, q = rng.integers(0, len(mean), (2, len(mean)))  # two independent samples of the prior
        paired.append(np.mean(mean[p] * mean[q] * np.expm1(a[:, p] * a[:, q]), axis=1))
    error = np.std(paired, axis=0) / np.sqrt(len(paired))
    assert np.all(np.abs(np.mean(paired, axis=0) - np.exp(functions.peur(target, z))) < 4 * error)


def test_puq_is_the_posterior_sd_and_pvc_the_variances_density():
    target = make_target()
    z = target.node_z
    mean, covariance = likelihood_moments(target.surrogate, target.nodes, 1.0)
    density = 1.0 / 9.0
    puq = np.exp(functions.puq(target, z) + target.log_evidence)
    np.testing.assert_allclose(puq, np.sqrt(np.diag(covariance)) * density, rtol=1e-6)
    signed = covariance.mean(axis=1) * density
    np.testing.assert_allclose(
        np.exp(functions.pvc(target, z) + 2 * target.log_evidence), np.maximum(signed, 0), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(
        np.exp(functions.abs_pvc(target, z) + 2 * target.log_evidence), np.abs(signed), rtol=1e-6, atol=1e-9
    )
    # and PVC integrates to the variance of the evidence
    assert signed.mean() * 9.0 == pytest.approx(covariance.mean())
    assert covariance.mean() == pytest.approx(
        (moments.evidence_cov(target.surrogate, target.nodes, target.weights) * mean.mean()) ** 2
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kernel", [SE, MATERN52], ids=["se", "matern52"])
def test_training_points_are_worth_nothing(name, kernel):
    target = make_target(kernel=kernel)
    f = functions.ACQUISITIONS[name]
    elsewhere = f(target, target.node_z).max()
    at_data = f(target, target.surrogate.gp.x).max()
    order = 2.0 if name == "puq" else 4.0  # PUQ goes as the noise's sd, the others as its variance
    assert at_data < elsewhere - order


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gamma", [1e-3, 1.0])
def test_values_and_gradients_are_finite_everywhere(name, gamma):
    target = make_target(gamma)
    x = target.surrogate.gp.x
    corners = np.array([[-1.5, -1.5], [1.5, 1.5]])
    f = functions.ACQUISITIONS[name]
    for z in np.vstack([x, x + 1e-9, corners * (1 - 1e-9), target.node_z[:20]]):
        steps = 1e-4 * np.vstack([np.eye(2), -np.eye(2)])
        around = f(target, np.clip(z + steps, -1.5, 1.5))
        assert np.all(np.isfinite(around))
        assert np.isfinite(f(target, z[None, :])[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_wild_surrogate_gives_finite_values_that_differ(name):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.5, 1.5, (5, 2))
    gp = gps.build(x, -300.0 * np.sum(x**2, axis=1), 1e-6, SE, "constant", np.log([0.5, 0.5, 150.0]))
    target = target_of(gp, rng.uniform(-1.5, 1.5, (200, 2)), 1.0)
    values = functions.ACQUISITIONS[name](target, rng.uniform(-1.5, 1.5, (50, 2)))
    assert np.all(np.isfinite(values))
    assert len(np.unique(values)) > 40


@pytest.mark.parametrize("shift", [-1e6, 1e6, 3.0])
@pytest.mark.parametrize("name", NAMES)
def test_a_constant_in_the_log_likelihood_changes_nothing(name, shift):
    f = functions.ACQUISITIONS[name]
    plain, shifted = make_target(), make_target(shift=shift)
    z = plain.node_z[:30]
    np.testing.assert_allclose(f(shifted, z), f(plain, z), atol=1e-5)
    assert shifted.log_evidence - shift == pytest.approx(plain.log_evidence, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_data_changes_nothing(name):
    f = functions.ACQUISITIONS[name]
    a, b = make_target(), make_target(order=np.random.default_rng(5).permutation(12))
    z = a.node_z[:30]
    np.testing.assert_allclose(f(a, z), f(b, z), atol=1e-6)


def test_believing_a_run_leaves_the_mean_and_removes_its_worth():
    target = make_target()
    z = np.array([0.9, -0.9])
    believed = target.conditioned(z)
    np.testing.assert_allclose(believed.nodes.mean, target.nodes.mean, atol=1e-6)
    assert np.all(believed.nodes.variance <= target.nodes.variance + 1e-9)
    assert functions.peur(believed, z[None, :])[0] < functions.peur(target, z[None, :])[0] - 4.0
