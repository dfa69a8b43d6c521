"""The search against a grid, and its promise never to repeat a point."""

from functools import partial

import numpy as np
import pytest
from test_acquisition import make_target

from tbq import acquisition, search

BOX = search.Domain(np.full(2, -1.5), np.full(2, 1.5), lambda z: np.all(np.abs(z) <= 1.5, axis=1))
GRID = np.stack(np.meshgrid(*[np.linspace(-1.5, 1.5, 151)] * 2), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize("name", acquisition.ENSEMBLE)
def test_climbing_beats_a_dense_grid(name):
    target = make_target()
    f = acquisition.ACQUISITIONS[name]
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
    z, _ = search.maximise(partial(acquisition.puq, target), pool, target.surrogate.gp.x, BOX, climb=False)
    assert np.any(np.all(pool == z, axis=1))


def test_a_batch_is_greedy_and_spread_out():
    target = make_target()
    pool = np.random.default_rng(0).uniform(-1.5, 1.5, (300, 2))
    known = target.surrogate.gp.x
    named = [("peur", acquisition.peur)] * 4
    batch = search.choose(named, target, pool, known, BOX, climb=True)
    single = search.choose(named[:1], target, pool, known, BOX, climb=True)
    np.testing.assert_array_equal(batch[0].z, single[0].z)
    z = np.array([c.z for c in batch])
    gaps = np.linalg.norm(z[:, None] - z[None, :], axis=-1)[np.triu_indices(4, 1)]
    assert gaps.min() > 0.05
    assert [c.value for c in batch] == sorted((c.value for c in batch), reverse=True)


def test_the_ensemble_takes_one_point_from_each_function():
    target = make_target()
    pool = np.random.default_rng(0).uniform(-1.5, 1.5, (200, 2))
    named = [(n, acquisition.ACQUISITIONS[n]) for n in acquisition.ENSEMBLE]
    batch = search.choose(named, target, pool, target.surrogate.gp.x, BOX, climb=False)
    assert [c.acquisition for c in batch] == list(acquisition.ENSEMBLE)
    assert len({tuple(c.z) for c in batch}) == 4


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
