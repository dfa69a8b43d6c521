"""Two updates in sequence agree with one update on all data."""

import numpy as np
import pytest
from scipy import stats

import tbq

PRIOR = tbq.Prior({"a": stats.uniform(-3, 6), "b": stats.lognorm(0.5)})


def first(theta):
    return -0.5 * ((theta[..., 0] - 0.5) / 0.6) ** 2 - 0.5 * ((theta[..., 0] + theta[..., 1] - 1.6) / 0.5) ** 2


def second(theta):
    return -0.5 * ((theta[..., 1] - 1.3) / 0.3) ** 2 - 0.5 * ((theta[..., 0] - 0.2) / 0.8) ** 2


@pytest.fixture(scope="module")
def results():
    one = tbq.infer(first, PRIOR, seed=0, tolerance=0.02)
    two = tbq.infer(second, one.as_prior(), seed=0, tolerance=0.02)
    both = tbq.infer(lambda theta: first(theta) + second(theta), PRIOR, seed=1, tolerance=0.02)
    return one, two, both


def test_evidences_add_up(results):
    one, two, both = results
    assert one.log_evidence + two.log_evidence == pytest.approx(both.log_evidence, abs=0.08)


def test_posteriors_agree(results):
    _, two, both = results
    np.testing.assert_allclose(two.samples.mean(axis=0), both.samples.mean(axis=0), atol=0.06)
    np.testing.assert_allclose(two.samples.std(axis=0), both.samples.std(axis=0), atol=0.05)
    theta = both.samples[:200]
    assert np.mean(np.abs(two.log_density(theta) - both.log_density(theta))) < 0.15


def test_the_posterior_is_a_prior(results):
    one, two, _ = results
    prior = one.as_prior()
    assert prior.names == PRIOR.names
    theta = prior.sample(3000, seed=1)
    np.testing.assert_allclose(theta.mean(axis=0), one.samples.mean(axis=0), atol=0.06)
    np.testing.assert_allclose(prior.log_density(theta[:5]), one.log_density(theta[:5]))
    z = prior.to_working(theta)
    np.testing.assert_allclose(z.std(axis=0), 1.0, atol=0.1)
    np.testing.assert_allclose(prior.from_working(z), theta, rtol=1e-9)
    assert prior.log_density([-9.0, 1.0]) == -np.inf
    assert "PosteriorPrior(a, b" in repr(prior)
    assert two.prior.names == ("a", "b")


def test_nothing_learned_is_no_prior():
    empty = tbq.infer(lambda theta: np.nan, PRIOR, seed=0, max_evaluations=12)
    with pytest.raises(tbq.TbqError, match="as_prior: there is no posterior"):
        empty.as_prior()
