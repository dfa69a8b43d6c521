"""The check before the end, against residuals worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq import engine
from tbq.acquisition import check_runs
from tbq.acquisition.check_runs import Check
from tbq.engine.conclusion import assess_evidence
from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.settings import resolve

TOLERANCE = 0.04


def check(n=4):
    return Check(10, np.zeros((n, 1)), np.zeros(n), 2, -3.0, TOLERANCE)


def found(*residuals):
    return [Evaluation(10 + i, np.zeros(1), 1, "check", np.nan, Status.OK, r) for i, r in enumerate(residuals)]


def test_the_error_is_that_of_the_mean_of_the_draws_and_of_one_imagined():
    assert check().error(found(0.0, 0.0, 1.0, 1.0)) == pytest.approx(TOLERANCE / np.sqrt(6))
    expected = np.sqrt((0.1**2 + 0.2**2 + TOLERANCE**2) / 3 / 2)
    assert check().error(found(0.1, -0.2, 0.0, 0.0)) == pytest.approx(expected)


def test_draws_that_do_not_matter_leave_what_is_imagined():
    low = Check(10, np.zeros((2, 1)), np.full(2, -9.0), 2, -3.0, TOLERANCE)
    assert low.error(found(-9.0, -9.0)) == TOLERANCE


@pytest.mark.parametrize(
    ("residuals", "passed"),
    [
        ((0.0, 0.0, 0.0, 0.0), True),
        ((0.1, 0.1, 0.1, 0.1), True),
        ((0.1, 0.2, 0.0, 0.0), False),  # the draws say that the evidence is too far off
        ((0.0, 0.0, 0.4, 0.3), False),  # the uncertain points were not foreseen
        ((-9.0, -9.0, -9.0, -9.0), False),
    ],
)
def test_it_passes_where_residuals_are_small_and_what_they_say_of_the_evidence_is(residuals, passed):
    assert check().passed(found(*residuals)) is passed


def test_what_says_nothing_does_not_pass():
    low = Check(10, np.zeros((2, 1)), np.full(2, -9.0), 2, -3.0, TOLERANCE)
    assert not low.passed(found(-9.0, -9.0))


def test_where_all_draws_failed_the_other_points_do_not_decide():
    failed = [Evaluation(10 + i, np.zeros(1), 1, "check", np.nan, Status.FAILED, np.nan) for i in range(2)]
    others = found(0.0, 0.0, 0.0, 0.0)[2:]
    assert not check().passed([*failed, *others])
    assert check().passed([failed[0], *found(0.0, 0.0, 0.0, 0.0)[1:]])


def test_zero_likelihood_where_some_was_expected_fails_a_check():
    zero = [Evaluation(10 + i, np.zeros(1), 1, "check", np.nan, Status.INFEASIBLE, -np.inf) for i in (1, 3)]
    good = [e for e in found(0.0, 0.0, 0.0, 0.0) if e.id in (10, 12)]
    assert list(check().residuals([*good, *zero])) == [0.0, 0.0, -3.0, -3.0]
    assert not check().passed([*good, *zero])
    low = Check(10, np.zeros((4, 1)), np.full(4, -9.0), 2, -3.0, TOLERANCE)  # none was expected
    assert len(low.residuals(zero)) == 0


def test_half_of_it_are_posterior_draws_the_others_uncertain_members_of_the_population():
    prior = tbq.Prior({name: stats.uniform(-1, 2) for name in "abcde"})
    settings = resolve(5, n_initial=40)
    state, proposals = engine.ask(engine.init(prior, settings, 0), 40)
    done = [Evaluation(p.id, p.theta, 0, "initial", np.nan, Status.OK, -9 * np.sum(p.theta**2)) for p in proposals]
    state = engine.tell(state, done)
    found = assess_evidence(state)
    rng = np.random.default_rng(0)
    points = (state.population, found.posterior)
    check = check_runs.plan(*points, found.surrogate, prior, settings, 40, rng)
    assert len(check.theta) == 5
    assert check.n_draws == 3
    draws = {tuple(np.round(row, 9)) for row in prior.from_working(found.posterior.z)}
    assert all(tuple(np.round(row, 9)) in draws for row in check.theta[:3])
    members = {tuple(np.round(row, 9)) for row in prior.from_working(state.population.z)}
    assert all(tuple(np.round(row, 9)) in draws | members for row in check.theta[3:])
    assert check.tolerance == settings.tolerance[1]
    exact = np.array([-9 * np.sum(row**2) for row in check.theta])
    assert np.allclose(check.expected, exact, atol=0.5)  # a quadratic, known from 40 runs
    alone = check_runs.plan(*points, found.surrogate, prior, replace(settings, check_runs=1), 40, rng)
    assert len(alone.theta) == 1


def test_noise_explains_residuals_up_to_its_own_chance():
    """Four runs of sd 0.5: their squares add up to 1 ± 0.71; up to two such deviations more fail nobody."""
    noisy = replace(check(), noise=0.5)
    assert not check().passed(found(0.5, -0.5, 0.5, -0.5))
    assert noisy.passed(found(0.5, -0.5, 0.5, -0.5))
    assert noisy.error(found(0.5, -0.5, 0.0, 0.0)) == check().error(found(0.0, 0.0, 0.0, 0.0))
    assert not noisy.passed(found(1.2, -1.2, 1.2, -1.2))
    told = [replace(e, log_likelihood_sd=0.5) for e in found(0.5, -0.5, 0.5, -0.5)]
    assert check().passed(told)  # a run knows its own noise
    assert not noisy.passed([replace(e, log_likelihood_sd=0.01) for e in told])


def test_what_is_known_not_to_be_known_explains_residuals():
    """Two draws of sd 0.3 that are independent, or know the same: their mean has an sd of 0.21, or of 0.3."""
    apart, alike = (replace(check(), believed=0.09 * m) for m in (np.eye(4), np.ones((4, 4))))
    few = found(0.3, -0.3, 0.3, -0.3)
    assert not check().passed(few)
    assert apart.passed(few)
    assert apart.error(few) == check().error(found(0.0, 0.0, 0.0, 0.0))
    assert not apart.passed(found(0.3, -0.3, 0.6, -0.6))
    one_way = found(0.3, 0.3, 0.0, 0.0)
    shift = 0.3 - 0.3 / np.sqrt(2.0)
    assert apart.error(one_way) == pytest.approx(np.hypot(check().error(found(0.0, 0.0, 0.0, 0.0)), shift))
    assert not apart.passed(one_way)
    assert alike.passed(one_way)


def test_a_planned_check_knows_what_its_surrogate_does_not():
    prior = tbq.Prior({name: stats.uniform(-1, 2) for name in "abc"})
    settings = resolve(3, n_initial=20)
    state, proposals = engine.ask(engine.init(prior, settings, 0), 20)
    done = [Evaluation(p.id, p.theta, 0, "initial", np.nan, Status.OK, -np.sum(np.cosh(p.theta))) for p in proposals]
    found = assess_evidence(engine.tell(state, done))
    rng = np.random.default_rng(0)
    check = check_runs.plan(found.posterior, found.posterior, found.surrogate, prior, settings, 20, rng)
    points = found.surrogate.at(prior.to_working(check.theta))
    np.testing.assert_allclose(np.diag(check.believed), found.surrogate.log_likelihood(points)[1], rtol=1e-6)
    correlation = found.surrogate.covariance(points, points)
    scale = np.sqrt(np.diag(correlation))
    expected = correlation / np.outer(scale, scale) * np.sqrt(np.outer(*2 * [np.diag(check.believed)]))
    np.testing.assert_allclose(check.believed, expected, rtol=1e-5, atol=1e-12)
