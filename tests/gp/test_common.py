"""Processes of common length-scales, against the same processes with a factor each, and against differences."""

import numpy as np
import pytest

from tbq.gp import common, paths
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


def few_matter(n=18, d=20, seed=3, bend=0.2):
    """Six smooth functions of twenty parameters, of which three do something, at fewer points than parameters."""
    rng = np.random.default_rng(seed)
    x, directions = rng.normal(size=(n, d)), np.zeros((d, 6))
    directions[:3] = np.random.default_rng(9).normal(size=(3, 6))

    def functions(x):
        u = x @ directions
        return (4.0 * u + bend * u**2).T

    values = values_of(x, functions(x), np.full((6, n), NOISE), np.zeros(6, dtype=bool))
    return values, functions, rng


LEARNED = np.log([1.3, 0.9, 4.0, 2.0, 0.5, 0.1])  # length-scales, and standard deviations of slopes


def dense(x, z, noise=0.0):
    """Covariance of one process of variance one by its definition, without the constant."""
    widths = np.exp(LEARNED[3:])
    return MATERN52.matrix(np.append(LEARNED[:3], 0.0), x, z) + (x * widths) @ (z * widths).T + noise


def test_learned_slopes_are_a_part_of_the_covariance():
    values, rng = data()
    together = common.build_common(values, MATERN52, LEARNED, 1e-9)
    x, z, ones = values.x, rng.normal(size=(7, 3)), np.ones(len(values.x))
    inverse = np.linalg.inv(dense(x, x, (1e-9 + 1e-12) * np.eye(len(x))))
    across, certain = dense(x, z), ones @ inverse @ ones
    for k, y in enumerate(values.y):
        constant = ones @ inverse @ y / certain
        mean = constant + across.T @ inverse @ (y - constant)
        amplitude = (y - constant) @ inverse @ (y - constant) / (len(x) - 1)
        missed = 1.0 - ones @ inverse @ across
        covariance = dense(z, z) - across.T @ inverse @ across + np.outer(missed, missed) / certain
        points = together.project(z)
        assert together.amplitude[k] ** 2 == pytest.approx(amplitude, rel=1e-4)
        np.testing.assert_allclose(points.mean[k], mean, rtol=1e-4, atol=1e-4 * np.sqrt(amplitude))
        np.testing.assert_allclose(
            together.covariance(points, points)[k], amplitude * covariance, rtol=1e-3, atol=1e-4 * amplitude
        )


def test_the_score_of_learned_slopes_is_that_of_their_covariance():
    """To a constant: over a flat constant, and to the highest over amplitudes."""
    values, _ = data()
    found, expected = [], []
    scores, x, ones = common.Scores(values, MATERN52, 1e-9, learned=True), values.x, np.ones(len(values.x))
    for more in (0.0, 0.3):
        widths, lengths = np.exp(LEARNED[3:] + more), LEARNED[:3] - more
        covariance = MATERN52.matrix(np.append(lengths, 0.0), x, x) + (x * widths) @ (x * widths).T
        covariance += (1e-9 + 1e-12) * np.eye(len(x))
        inverse = np.linalg.inv(covariance)
        certain = ones @ inverse @ ones
        left = [y - ones @ inverse @ y / certain for y in values.y]
        squares = np.array([r @ inverse @ r for r in left])
        each = np.linalg.slogdet(covariance)[1] + np.log(certain)
        expected.append(-0.5 * (len(x) - 1) * np.log(squares).sum() - 0.5 * len(squares) * each)
        shared = np.append(lengths, LEARNED[3:] + more)
        off = (shared - scores.prior.mean[0]) / scores.prior.sd[0]
        found.append(scores.at(shared[None, :], np.zeros(1, dtype=int))[0][0] + 0.5 * off @ off)
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], abs=0.01)


def test_the_gradient_of_learned_slopes_is_that_of_differences():
    values, _ = data()
    scores, step, one = common.Scores(values, MATERN52, 1e-9, learned=True), 1e-5, np.zeros(1, dtype=int)
    gradient = scores.at(LEARNED[None, :], one)[1][0]
    for j, e in enumerate(step * np.eye(6)):
        high, low = (scores.at((LEARNED + sign * e)[None, :], one)[0][0] for sign in (1.0, -1.0))
        assert gradient[j] == pytest.approx((high - low) / (2.0 * step), rel=1e-4, abs=1e-3)


def test_fewer_runs_than_parameters_tell_which_of_them_matter():
    values, functions, rng = few_matter()
    together = common.fit(values, MATERN52, None)
    widths = together.shared[20:]
    assert np.min(widths[:3]) > np.max(widths[3:]) + 2.0  # ranges of logarithms
    z = rng.normal(size=(200, 20))
    points, true = together.project(z), functions(z)
    assert np.mean((points.mean - true) ** 2) < 0.05 * np.var(true)
    z_score = (points.mean - true) / np.sqrt(points.variance)
    assert 0.2 < np.sqrt(np.mean(z_score**2)) < 2.0


def test_slopes_are_flat_where_that_predicts_better():
    """All parameters matter, and outputs differ in how bent they are: no common ratio of slopes to bends is theirs."""
    rng, n, d = np.random.default_rng(4), 30, 5
    x, directions = rng.normal(size=(n, d)), rng.normal(size=(d, 8))
    u = x @ directions
    y = (u * 10.0 ** np.arange(-2, 6)[None, :] + 0.1 * u**2).T
    values = values_of(x, y, np.full(y.shape, NOISE), np.ones(8, dtype=bool))
    both = {which: common._fit(values, MATERN52, None, learned=which) for which in (False, True)}
    assert both[False].left_out_score > both[True].left_out_score
    assert common.fit(values, MATERN52, None).values.slopes is None
    values, _, _ = few_matter(n=30, bend=0.02)
    values = common.replace(values, linear=np.ones(6, dtype=bool))
    assert common.fit(values, MATERN52, None).values.slopes is not None


def test_processes_with_learned_slopes_are_those_of_separate_ones():
    values, _, rng = few_matter()
    together = common.fit(values, MATERN52, None)
    separate, z, unit = together.separate(), rng.normal(size=(30, 20)), together.amplitude[:, None]
    points, expected = together.project(z), separate.project(z)
    np.testing.assert_allclose(points.mean / unit, expected.mean / unit, atol=1e-4)
    np.testing.assert_allclose(points.variance / unit**2, expected.variance / unit**2, rtol=1e-3, atol=1e-6)
    for k in (0, 5):
        mean, variance = separate.process(k).predict(z * values_slopes(together))
        np.testing.assert_allclose(mean / unit[k], expected.mean[k] / unit[k], atol=1e-4)
        np.testing.assert_allclose(variance / unit[k] ** 2, expected.variance[k] / unit[k] ** 2, rtol=1e-3, atol=1e-6)
    drawn = paths.draws_of(together, 2000, rng)
    values_drawn = drawn[0](z)
    sd = np.sqrt(points.variance[0])
    np.testing.assert_allclose(values_drawn.mean(axis=1), points.mean[0], atol=0.15 * sd.max())
    np.testing.assert_allclose(values_drawn.std(axis=1), sd, rtol=0.2, atol=0.02 * sd.max())
    again = next(common.hyperparameter_draws(together, 1, rng))
    assert again.shared.shape == (40,)
    assert not np.array_equal(again.shared, together.shared)
    rows = common.build_common(values, MATERN52, together.shared, float(together.one.values.noise[0, 0]))
    np.testing.assert_array_equal(rows.project(z).mean, points.mean)


def values_slopes(together):
    assert together.values.slopes is not None
    return together.values.slopes
