"""Processes of common length-scales, against the same processes with a factor each, and against differences."""

import numpy as np
import pytest

from tbq.gp import common
from tbq.gp.kernels import MATERN52
from tbq.gp.values import values_of

NOISE = 1e-8


def data(n=25, d=3):
    """Three functions of three parameters, of which the last does nothing; amplitudes differ by a hundred."""
    rng = np.random.default_rng(0)
    x, directions = rng.normal(size=(n, d)), rng.normal(size=(d, 3))
    directions[2] = 0.0
    y = np.sin(2.0 * x @ directions).T * np.array([1.0, 50.0, 0.5])[:, None]
    return values_of(x, y, np.full(y.shape, NOISE), np.ones(3, dtype=bool)), rng


def processes():
    values, rng = data()
    lengths = np.log([1.3, 0.9, 20.0])
    return common.build_common(values, MATERN52, lengths, 1e-9), rng


@pytest.mark.parametrize("n", [40, 700])  # with what covariances need, and without
def test_means_variances_and_covariances_are_those_of_separate_processes(n):
    together, rng = processes()
    separate, z = together.separate(), rng.normal(size=(n, 3))
    points, expected, few = together.project(z), separate.project(z), np.arange(9)
    unit = together.amplitude[:, None]
    np.testing.assert_allclose(points.mean / unit, expected.mean / unit, atol=1e-6)
    np.testing.assert_allclose(points.variance / unit**2, expected.variance / unit**2, atol=1e-7)
    unit = unit[:, :, None]
    of_few = separate.covariance(expected, expected.take(few)) / unit**2
    np.testing.assert_allclose(together.covariance(points, points.take(few)) / unit**2, of_few, atol=1e-7)
    np.testing.assert_allclose(together.new_noise, separate.new_noise, rtol=1e-9)


def test_left_out_values_and_a_believed_run_are_those_of_separate_processes():
    together, rng = processes()
    separate, z, elsewhere = together.separate(), rng.normal(size=3), rng.normal(size=(30, 3))
    unit = together.amplitude[:, None]
    for one, other in zip(together.leave_one_out(), separate.leave_one_out(), strict=True):
        np.testing.assert_allclose(one / unit, other / unit, rtol=1e-4, atol=1e-6)
    sure, expected = together.condition_on_mean(z), separate.condition_on_mean(z)
    np.testing.assert_allclose(sure.project(elsewhere).mean, together.project(elsewhere).mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        sure.project(elsewhere).variance / unit**2, expected.project(elsewhere).variance / unit**2, atol=1e-7
    )


def test_the_score_is_that_of_separate_processes_at_the_best_amplitudes():
    """To a constant, since its mean is flat; and no other amplitude is better for all but the flat prior."""
    values, _ = data()
    scores = common.Scores(values, MATERN52, 1e-9)
    found, expected = [], []
    for lengths in np.log([[1.3, 0.9, 20.0], [0.7, 1.5, 5.0]]):
        off = (lengths - scores.prior.mean[0]) / scores.prior.sd[0]
        found.append(scores.at(lengths[None, :], np.zeros(1, dtype=int))[0][0] + 0.5 * off @ off)
        together = common.build_common(values, MATERN52, lengths, 1e-9)
        separate = together.separate()
        prior = separate.values.hyperprior(MATERN52)
        off = (separate.parameters - prior.mean) / prior.sd
        # the coefficients' prior is as wide as each amplitude: its normalisation is no part of a flat one
        width = 4.0 * np.log(together.amplitude).sum()
        expected.append(float(np.sum(separate.score + 0.5 * np.sum(off**2, axis=1)) + width))
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], abs=0.01)


def test_the_gradient_is_that_of_differences():
    values, _ = data()
    scores, at, step = common.Scores(values, MATERN52, 1e-9), np.log([[1.3, 0.9, 4.0]]), 1e-5
    one = np.zeros(1, dtype=int)
    gradient = scores.at(at, one)[1][0]
    for j, e in enumerate(step * np.eye(3)):
        difference = (scores.at(at + e, one)[0][0] - scores.at(at - e, one)[0][0]) / (2.0 * step)
        assert gradient[j] == pytest.approx(difference, rel=1e-4, abs=1e-3)


def test_a_fit_finds_what_does_not_matter_and_goes_on_where_it_ended():
    values, rng = data(40)
    together = common.fit(values, MATERN52, None)
    lengths = np.exp(together.lengths)
    assert lengths[2] > 5.0 * lengths[:2].max()
    scores, one = common.Scores(values, MATERN52, float(together.one.values.noise[0, 0])), np.zeros(1, dtype=int)
    best = scores.at(together.lengths[None, :], one)[0][0]
    for _ in range(20):
        elsewhere = together.lengths[None, :] + 0.3 * rng.normal(size=(1, 3))
        assert scores.at(elsewhere, one)[0][0] < best + 0.1
    again = common.fit(values, MATERN52, together.lengths)
    np.testing.assert_allclose(again.amplitude, together.amplitude, rtol=0.05)


def test_amplitudes_are_those_that_the_values_were_drawn_with():
    """Without bias: the mean's coefficients count as known from so many values fewer."""
    rng, n, d = np.random.default_rng(1), 30, 4
    x, true = rng.normal(size=(n, d)), np.full(d, np.log(1.5))
    correlation = MATERN52.matrix(np.append(true, 0.0), x, x) + 1e-9 * np.eye(n)
    y = (np.linalg.cholesky(correlation) @ rng.normal(size=(n, 400))).T + 3.0 * x.sum(axis=1)
    values = values_of(x, y, np.full(y.shape, NOISE), np.ones(400, dtype=bool))
    together = common.build_common(values, MATERN52, true, 1e-9)
    assert np.mean(together.amplitude**2) == pytest.approx(1.0, abs=0.05)


def test_draws_are_around_the_best_length_scales():
    values, _ = data(40)
    together = common.fit(values, MATERN52, None)
    drawn = np.array([c.parameters[0, :3] for c in common.hyperparameter_draws(together, 50, np.random.default_rng(0))])
    assert np.all(np.abs(drawn.mean(axis=0) - together.lengths)[:2] < 3.0 * drawn.std(axis=0)[:2])
    assert np.all(drawn.std(axis=0) > 0.0)
