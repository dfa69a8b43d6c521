"""The search against a grid, and its promise never to repeat a point."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats
from test_functions import make_target

import tbq
from tbq.acquisition import exploration, functions, search

BOX = search.Domain(np.full(2, -1.5), np.full(2, 1.5), lambda z: np.all(np.abs(z) <= 1.5, axis=1))
GRID = np.stack(np.meshgrid(*[np.linspace(-1.5, 1.5, 151)] * 2), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize("name", functions.ENSEMBLE)
def test_climbing_beats_a_dense_grid(name):
    target = make_target()
    f = functions.ACQUISITIONS[name]
    pool = np.random.default_rng(0).uniform(-1.5, 1.5, (300, 2))
    known = target.surrogate.gp.x
    z, value = search.maximise(partial(f, target), pool, known, BOX, climb=True)
    _, pooled = search.maximise(partial(f, target), pool, known, BOX, climb=False)
    assert value >= pooled
    assert value >= f(target, GRID).max() - 1e-3
    assert BOX.contains(z[None, :])[0]
    assert f(target, z[None, :])[0] == pytest.approx(value)


def test_the_pool_alone_returns_a_member_of_the_pool():
    target = make_target()
    pool = np.random.default_rng(0).uniform(-1.5, 1.5, (300, 2))
    z, _ = search.maximise(partial(functions.puq, target), pool, target.surrogate.gp.x, BOX, climb=False)
    assert np.any(np.all(pool == z, axis=1))


def test_a_choice_is_the_best_point_with_its_value_and_whose_it_is():
    target = make_target()
    pool = np.random.default_rng(0).uniform(-1.5, 1.5, (300, 2))
    choice = search.choose(("pvc", functions.pvc), target, pool, target.surrogate.gp.x, BOX, climb=False)
    values = functions.pvc(target, pool)
    np.testing.assert_array_equal(choice.z, pool[np.argmax(values)])
    assert (choice.value, choice.acquisition) == (pytest.approx(values.max()), "pvc")
    leftmost = replace(target, log_weight=lambda z: -1e6 * z[:, 0])
    choice = search.choose(("pvc", functions.pvc), leftmost, pool, target.surrogate.gp.x, BOX, climb=False)
    np.testing.assert_array_equal(choice.z, pool[np.argmin(pool[:, 0])])


def test_points_that_believe_in_those_before_them_are_spread_out_and_worth_less_and_less():
    target = make_target()
    pool = np.random.default_rng(0).uniform(-1.5, 1.5, (300, 2))
    choices = []
    for _ in range(4):
        known = np.vstack([target.surrogate.gp.x, *(c.z for c in choices)])
        choices.append(search.choose(("peur", functions.peur), target, pool, known, BOX, climb=True))
        target = target.conditioned(choices[-1].z)
    z = np.array([c.z for c in choices])
    gaps = np.linalg.norm(z[:, None] - z[None, :], axis=-1)[np.triu_indices(4, 1)]
    assert gaps.min() > 0.05
    assert [c.value for c in choices] == sorted((c.value for c in choices), reverse=True)


def test_known_points_are_never_proposed():
    target = make_target()
    pool = np.vstack([target.surrogate.gp.x, [[0.2, 0.2]]])
    flat = lambda target, z: np.zeros(len(z))
    greedy = lambda target, z: -np.sum((z - target.surrogate.gp.x[0]) ** 2, axis=1)
    for f in (flat, greedy, lambda target, z: np.full(len(z), np.nan)):
        for climb in (False, True):
            z, _ = search.maximise(partial(f, target), pool, target.surrogate.gp.x, BOX, climb=climb)
            assert np.linalg.norm(target.surrogate.gp.x - z, axis=1).min() > 1e-6


def test_points_outside_the_domain_are_refused():
    target = make_target()
    half = search.Domain(BOX.low, BOX.high, lambda z: z[:, 0] < 0)  # a constraint inside the box
    outward = lambda target, z: z[:, 0]
    pool = np.column_stack([np.linspace(-1.4, -0.1, 20), np.zeros(20)])
    z, value = search.maximise(partial(outward, target), pool, target.surrogate.gp.x, half, climb=True)
    assert z[0] < 0
    assert value == pytest.approx(-0.1)


def test_values_decide_between_the_best_by_a_ranking():
    """The ranking is climbed and is off by a little; the exact value chooses among what it found."""
    pool = np.linspace(-0.9, 0.9, 37)[:, None] * np.ones(2)
    calls = []

    def value_at(z):
        calls.append(len(z))
        return -np.sum((z - 0.31) ** 2, axis=1)

    def ranking(z):
        return -np.sum((z - 0.25) ** 2, axis=1)

    best, value = search.maximise(value_at, pool, np.empty((0, 2)), BOX, climb=False, ranking=ranking)
    np.testing.assert_allclose(best, [0.3, 0.3])
    assert value == pytest.approx(-2.0 * 0.01**2)
    assert sum(calls) < len(pool)


def test_the_most_probable_point_is_that_of_likelihood_and_prior():
    prior = tbq.Prior({"a": stats.norm(), "b": stats.norm()})

    class Known:
        def at(self, z):
            return z

        def log_likelihood(self, z):
            return -0.5 * np.sum((z - [1.0, -2.0]) ** 2, axis=1) / 0.25, np.zeros(len(z))

    population = np.random.default_rng(0).standard_normal((50, 2))
    found = exploration.most_probable(Known(), population, population[:3], prior)
    np.testing.assert_allclose(found, [[0.8, -1.6]], atol=1e-3)


def test_the_most_promising_point_is_where_a_likelihood_higher_than_expected_gains_most():
    prior = tbq.Prior({"a": stats.norm(), "b": stats.norm()})

    class Sure:
        sd = 0.0  # nats at the best point

        def at(self, z):
            return z

        def log_upper(self, z, deviations):
            mean = -0.5 * np.sum((z - [1.0, -2.0]) ** 2, axis=1) / 0.25
            far = np.sum((z - [1.0, -1.0]) ** 2, axis=1)
            return mean + deviations * self.sd * (1.0 - np.exp(-far))

    class Unsure(Sure):
        sd = 9.0

    population = np.random.default_rng(0).standard_normal((50, 2))
    run = np.array([[0.8, -1.6]])  # at the top of what is expected
    assert exploration.most_promising(Sure(), population, run, prior, 0.1).shape == (0, 2)
    (found,) = exploration.most_promising(Unsure(), population, run, prior, 0.1)
    grid = np.stack(np.meshgrid(np.linspace(-1, 3, 201), np.linspace(-4, 1, 251)), axis=-1).reshape(-1, 2)
    value = Unsure().log_upper(grid, 1.0) + prior.log_density_working(grid)
    np.testing.assert_allclose(found, grid[np.argmax(value)], atol=0.02)
    assert exploration.most_promising(Unsure(), population, run, prior, 9.0).shape == (0, 2)
