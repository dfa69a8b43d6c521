"""Steps up from the best run: the region by hand, its optimum in closed form, a curved valley beside another method."""

import numpy as np
import pytest
from scipy import optimize, stats

import tbq
from tbq.acquisition import trust_region

BOX = tbq.Prior({n: stats.uniform(-10.0, 20.0) for n in "abc"})


def test_the_region_grows_with_steps_to_its_edge_and_shrinks_with_runs_inside_that_find_less():
    z = np.array([[0.0], [0.45], [0.5], [9.0], [0.4]])
    y = np.array([0.0, 1.0, 0.5, -9.0, 0.9])
    widths = [trust_region.half_width(z[:n], y[:n], 1) for n in range(1, 6)]
    np.testing.assert_allclose(widths, [0.5, 0.8, 0.64, 0.64, 0.512])  # ×1.6, ×0.8, the far one says nothing, ×0.8


def test_a_small_step_that_finds_more_moves_the_region_and_leaves_its_width():
    assert trust_region.half_width(np.array([[0.0], [0.1]]), np.array([0.0, 1.0]), 1) == 0.5


def test_the_region_has_a_least_and_a_largest_width():
    many = np.arange(100.0)
    assert trust_region.half_width(2.0 * many[:, None], many, 1) == 2.0
    assert trust_region.half_width(np.zeros((200, 1)), -np.arange(200.0), 1) == 1e-3


def paraboloid(z):
    return -0.5 * np.sum(((z - [0.1, -0.15, 0.05]) / [1.0, 2.0, 1.5]) ** 2, axis=1)


def test_the_top_of_a_paraboloid_within_the_region_is_found_at_once():
    rng = np.random.default_rng(0)
    z = 0.3 * rng.standard_normal((30, 3))
    found, gain = trust_region.step_up(z, paraboloid(z), 30, BOX)
    np.testing.assert_allclose(found, [0.1, -0.15, 0.05], atol=0.01)
    assert gain == pytest.approx(-np.max(paraboloid(z)), abs=0.01)


def test_a_step_goes_no_further_than_the_region_and_not_beyond_the_prior():
    low, high = BOX.working_bounds
    start = np.array([high[0] - 0.1, 0.0, 0.0])
    z = start + 0.1 * np.vstack([np.zeros(3), -np.eye(3)])
    found, gain = trust_region.step_up(z, z[:, 0] * 5.0, len(z), BOX)
    assert gain > 0.0
    assert found[0] == pytest.approx(high[0])
    assert np.all(found <= high)
    assert np.all(found >= low)
    assert np.linalg.norm(found - start) <= 0.5 + 1e-12


def valley(z):
    """A bent valley fifty times as long as it is wide, its top at (1, 1, 1)."""
    return -float(100.0 * np.sum((z[1:] - z[:-1] ** 2) ** 2) + np.sum((1.0 - z[:-1]) ** 2))


def climbed(seed, runs):
    """The highest value after so many runs, of which the first ten are anywhere."""
    prior = tbq.Prior({n: stats.uniform(-2.0, 4.0) for n in "abc"})
    z = list(prior.to_working(prior.sample(10, seed=seed)))
    value = lambda z: valley(prior.from_working(z[None, :])[0])
    y = [value(row) for row in z]
    start = z[int(np.argmax(y))]
    while len(y) < runs:
        step, _ = trust_region.step_up(np.array(z), np.array(y), 10, prior)
        z.append(step)
        y.append(value(step))
    bounds = list(zip(*prior.working_bounds, strict=True))
    other = optimize.minimize(
        lambda z: -value(z),
        start,
        method="COBYQA",
        bounds=bounds,
        options={"maxfev": runs - 10, "initial_tr_radius": 0.5},
    )
    return max(y), -other.fun


def test_a_curved_valley_is_climbed_as_well_as_by_a_method_of_optimisation():
    ours, theirs = np.array([climbed(seed, 60) for seed in range(4)]).T
    assert np.median(ours) > -1.0
    assert np.median(ours) > np.median(theirs) - 0.5
