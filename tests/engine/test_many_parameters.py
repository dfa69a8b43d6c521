"""Many parameters where outputs are learned: populations follow the posterior, among which runs are chosen."""

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.problem.settings import resolve

DIM = 24
PRIOR = tbq.Prior({f"x{i}": stats.norm() for i in range(DIM)})
SLOPES = np.random.default_rng(1).standard_normal((2 * DIM, DIM)) / np.sqrt(DIM) / 0.3
OBSERVED = SLOPES @ np.full(DIM, 0.8)
COVARIANCE = np.linalg.inv(SLOPES.T @ SLOPES + np.eye(DIM))  # of the exact posterior, which is normal
MEAN = COVARIANCE @ SLOPES.T @ OBSERVED


def model(theta):
    return SLOPES @ theta


@pytest.fixture(scope="module")
def state():
    """After enough runs for a linear model to be known."""
    likelihood = tbq.GaussianLikelihood(model, OBSERVED, 1.0)
    session = tbq.Session(PRIOR, likelihood=likelihood, seed=2, max_evaluations=DIM + 16, tolerance=1e-6)
    while not session.done:
        for p in session.ask():
            outputs = model(p.theta)
            session.tell(p.id, log_likelihood=likelihood.from_outputs(p.theta, outputs), outputs=outputs)
    return session.state


def test_a_population_has_the_mean_and_the_spread_of_the_posterior(state):
    """Those of the last climb, whose surrogate is exact up to rounding; ten steps end two standard deviations off."""
    white = np.linalg.solve(np.linalg.cholesky(COVARIANCE), (state.population.moved - MEAN).T)
    assert np.linalg.norm(white.mean(axis=1)) < 1.0
    assert np.mean(white.var(axis=1)) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(("dim", "steps"), [(2, 10), (14, 10), (15, 45), (30, 90)])
def test_chains_need_steps_as_the_number_of_parameters(dim, steps):
    assert resolve(dim, outputs=True).chain_length == steps
    assert resolve(dim, outputs=True, chain_length=7).chain_length == 7


@pytest.mark.parametrize(
    ("dim", "part"), [(1, 0.25), (4, 0.25), (8, 0.5), (16, 1.0), (20, 1.25**0.5), (25, 1.25), (60, 1.25)]
)
def test_the_tolerance_grows_with_the_parameters_to_five_quarters(dim, part):
    plain = resolve(dim, outputs=True, surrogate="log_likelihood").tolerance[1]
    assert resolve(dim, outputs=True).tolerance[1] == pytest.approx(part * plain)
