"""Guards: where log-depths let expect a deep value, no model of values is asked."""

from dataclasses import replace

import numpy as np
import pytest

from tbq.gp import regression as gps
from tbq.gp.kernels import MATERN52, SE
from tbq.problem.tuning import Tuning
from tbq.surrogate import selection
from tbq.surrogate.data import Data
from tbq.surrogate.guard import Guard
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.warp import Warp

WARP = Warp(0.0, 8.0)


def log_likelihood(z):
    """A narrow peak in a wide square."""
    return -0.5 * np.sum((z / 0.05) ** 2, axis=1)


@pytest.fixture(scope="module")
def guarded():
    rng = np.random.default_rng(3)
    x = np.vstack([rng.uniform(-1.5, 1.5, (25, 2)), rng.normal(0.0, 0.08, (15, 2))])
    y = log_likelihood(x)
    of_values = gps.build(x, y, 1e-6, SE, "constant", np.log([0.2, 0.2, 1000.0]))
    of_depths = gps.build(x, WARP.forward(y, x), 1e-6, MATERN52, "constant", np.log([1.5, 1.5, 60.0]))
    return LogNormal(of_values, ceiling=8.0, inflation=1.5, guard=Guard(of_depths, WARP, -10.0))


def test_the_mean_alone_is_that_of_the_process(guarded):
    z = np.random.default_rng(4).uniform(-1.5, 1.5, (50, 2))
    for gp in (guarded.gp, guarded.guard.gp, gps.build(z, z[:, 0] ** 2, 1e-6, SE, "quadratic", np.zeros(3))):
        np.testing.assert_allclose(gp.mean(z), gp.predict(z)[0], rtol=1e-9, atol=1e-7)


def test_peaks_that_only_the_model_of_values_allows_are_gone(guarded):
    z = np.random.default_rng(5).uniform(-1.5, 1.5, (2000, 2))
    nothing_there = log_likelihood(z) < -30.0
    alone, points = guarded.unguarded.at(z), guarded.at(z)
    before = np.mean(guarded.unguarded.log_upper(alone, 1.0)[nothing_there] > -10.0)
    after = np.mean(guarded.log_upper(points, 1.0)[nothing_there] > -10.0)
    assert before > 0.1
    assert after < 0.2 * before


def test_a_deep_point_is_expected_to_be_as_deep_as_its_log_depth_and_teaches_nothing(guarded):
    z = np.random.default_rng(6).uniform(-1.5, 1.5, (300, 2))
    points, (expected, deep) = guarded.at(z), guarded.guard.expected(z)
    mean, variance = guarded.guard.gp.predict(z)
    np.testing.assert_allclose(expected, 8.0 * (1.0 - np.exp(-mean / 8.0)), rtol=1e-9)
    assert 0.5 < deep.mean() < 1.0
    np.testing.assert_array_equal(deep, expected < -10.0)
    alone = guarded.unguarded.at(z)
    deep &= alone.variance > 1.0  # else the model of values knows better
    np.testing.assert_array_equal(points.deep, deep)
    assert np.all(points.mean[deep] <= expected[deep])
    np.testing.assert_allclose(guarded.log_mean(points, 0.5)[deep], 0.5 * points.mean[deep])
    few = points.take(np.flatnonzero(deep)[:40])
    assert np.all(guarded.log_ratio(few, points, 1.0) == 0.0)
    assert np.all(guarded.revealed_log_ratio(few, few, 1.0) == 0.0)
    upper = np.maximum(8.0 * (1.0 - np.exp(-(mean + 2.0 * 1.5 * np.sqrt(variance)) / 8.0)), points.mean)
    own = guarded.unguarded.log_upper(alone, 2.0)
    both = np.where(~deep & (points.variance <= 1.0), own, np.minimum(upper, own))  # unsure, both must allow it
    np.testing.assert_allclose(guarded.log_upper(points, 2.0), both)


def test_elsewhere_the_model_of_values_is_believed(guarded):
    z = np.random.default_rng(7).normal(0.0, 0.03, (40, 2))
    points, alone = guarded.at(z), guarded.unguarded.at(z)
    assert not points.deep.any()
    for gamma in (0.3, 1.0):
        np.testing.assert_array_equal(guarded.log_mean(points, gamma), guarded.unguarded.log_mean(alone, gamma))
        np.testing.assert_array_equal(
            guarded.log_ratio(points, points, gamma), guarded.unguarded.log_ratio(alone, alone, gamma)
        )
    assert np.all(guarded.log_upper(points, 3.0) <= guarded.unguarded.log_upper(alone, 3.0))


def test_a_guard_does_not_cut_the_tails_that_a_model_of_values_is_sure_of(guarded):
    """One of log-depths that are too smooth calls the flank of a peak deep."""
    blunt = gps.build(
        guarded.guard.gp.x[:25], guarded.guard.gp.y[:25], 1e-6, MATERN52, "constant", np.log([3, 3, 60.0])
    )
    flank = np.random.default_rng(13).normal(0.0, 0.03, (200, 2))
    expected, called_deep = Guard(blunt, WARP, -10.0).expected(flank)
    assert called_deep.all()
    surrogate = replace(guarded, guard=Guard(blunt, WARP, -10.0))
    points, alone = surrogate.at(flank), guarded.unguarded.at(flank)
    known = alone.variance <= 1.0
    assert known.mean() > 0.5
    np.testing.assert_array_equal(points.mean[known], alone.mean[known])
    np.testing.assert_array_equal(
        surrogate.log_upper(points, 2.0)[known], guarded.unguarded.log_upper(alone, 2.0)[known]
    )
    assert np.all(points.mean[~known] <= expected[~known])


def test_a_guard_that_calls_most_of_the_best_runs_deep_is_believed_less(guarded):
    """By the log-depths left out, computed one by one."""
    assert guarded.guard.earned(log_likelihood(guarded.guard.gp.x)).margin == 0.0
    x = np.random.default_rng(10).uniform(-1.5, 1.5, (40, 2))
    y = np.where(np.arange(40) < 3, -np.arange(40), -300.0 + 50.0 * x[:, 0])  # three needles in a haystack
    h, parameters = WARP.forward(y, x), np.log([0.5, 0.5, 20.0])
    gp = gps.build(x, h, 1e-6, MATERN52, "constant", parameters)
    needed = []
    for i in range(3):
        rest = np.arange(40) != i
        others = gps.build(x[rest], h[rest], 1e-6, MATERN52, "constant", parameters, (gp.offset, gp.scale))
        mean, variance = others.predict(x[[i]])
        needed.append(float((WARP.forward(np.array([-10.0]), x[:1]) - mean)[0] / np.sqrt(variance[0])))
    bold = Guard(gp, WARP, -10.0)
    humble = bold.earned(y)
    assert humble.margin == pytest.approx(np.median(needed), rel=1e-3)
    assert humble.margin > 0.5
    z = np.random.default_rng(12).uniform(-1.5, 1.5, (500, 2))
    (value, before), (same, after) = bold.expected(z), humble.expected(z)
    np.testing.assert_allclose(same, value, rtol=1e-9)
    assert np.all(before[after])  # what is still deep was deep before
    assert after.sum() < before.sum()


def test_of_two_runs_near_a_peak_in_the_plane_nothing_is_concluded():
    x = np.random.default_rng(10).uniform(-1.5, 1.5, (40, 2))
    y = np.where(np.arange(40) < 2, -np.arange(40), -300.0 + 50.0 * x[:, 0])
    gp = gps.build(x, WARP.forward(y, x), 1e-6, MATERN52, "constant", np.log([0.5, 0.5, 20.0]))
    assert Guard(gp, WARP, -10.0).earned(y).margin == 0.0


def test_a_bowl_has_no_guard():
    runs = np.random.default_rng(11).uniform(-1.5, 1.5, (60, 3))
    y = -20.0 * runs[:, 2] - 0.5 * np.exp(-2.0 * runs[:, 2]) * (1.0 + 30.0 * np.sum((runs[:, :2] - 0.4) ** 2, axis=1))
    data = Data(runs, y, np.full(60, 1e-6), 1.0, None, Tuning())
    surrogate, memory = selection.fit(data, "auto", selection.Memory())
    assert memory.model.bowl
    assert surrogate.guard is None
    assert any(
        rival.guard is not None
        for rival, _ in selection.rivals(data, replace(memory, contenders=(selection._GUARDS[0],)))
    )


def test_depths_beyond_all_measure_do_not_rule_the_log_depths():
    z = np.random.default_rng(8).uniform(-1.5, 1.5, (40, 2))
    y = log_likelihood(z)
    data = Data(z, y, np.full(40, 1e-6), 1.0, None, Tuning())
    near = np.log1p((y.max() - y) / data.scale) <= 7.0
    np.testing.assert_array_equal(data.raised[near], y[near])
    exploded = replace(data, y=np.where(np.arange(40) == np.argmin(y), -1e89, y))
    assert np.array_equal(np.argsort(exploded.raised), np.argsort(exploded.y))  # still the deepest
    assert exploded.raised.min() > -1e8


def test_the_guard_is_of_all_runs_and_of_the_paper_there_is_none():
    rng = np.random.default_rng(9)
    x = rng.uniform(-1.5, 1.5, (30, 2))
    data = Data(x, log_likelihood(x), np.full(30, 1e-6), 1.0, None, Tuning())
    surrogate, memory = selection.fit(data, "auto", selection.Memory())
    assert len(surrogate.guard.gp.x) == 30
    assert surrogate.guard.floor == np.max(data.y) - Tuning().guard_depth
    more = replace(data, z=np.vstack([x, [[0.0, 0.0]]]), y=np.append(data.y, 0.0), noise=np.full(31, 1e-6))
    later, _ = selection.fit(more, "auto", memory)
    assert len(later.guard.gp.x) == 31
    assert later.guard.floor == -Tuning().guard_depth
    for choice, tuning in (("se", Tuning()), ("auto", Tuning(ceiling=False))):
        assert selection.fit(replace(data, tuning=tuning), choice, selection.Memory())[0].guard is None
