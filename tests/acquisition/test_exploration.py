"""Where an exploring run may go: all over the prior, and past the current population."""

from types import SimpleNamespace

import numpy as np
from scipy import stats

import tbq
from tbq.acquisition import exploration
from tbq.problem.settings import resolve
from tbq.problem.tuning import Tuning

BOX = tbq.Prior({name: stats.uniform(-1, 2) for name in "abc"})


def test_the_plane_is_explored_all_over_and_space_also_past_the_population(monkeypatch):
    settings, rng = resolve(3), np.random.default_rng(0)
    population = SimpleNamespace(z=BOX.to_working(BOX.sample(2000, rng)))
    gamma = 0.3
    monkeypatch.setattr(exploration, "_flat", lambda z, *rest: SimpleNamespace(z=z, gamma=gamma))
    for turn in range(4):
        target, z = exploration.exploration(turn, population, population, None, BOX, settings, rng)
        assert np.array_equal(z, target.z)
        if turn % 2 == 0:
            assert np.array_equal(z, population.z[:1000])
        else:
            known = [(population.z == point).all(axis=1).any() for point in z]
            assert np.mean(known) < 0.01  # a member paired with itself
    plane = tbq.Prior({name: stats.uniform(-1, 2) for name in "ab"})
    whole = SimpleNamespace(z=population.z[:, :2])
    for turn in range(4):
        _, z = exploration.exploration(turn, whole, whole, None, plane, settings, rng)
        assert np.array_equal(z, whole.z[:1000])
    gamma = 0.001  # thousands of nats of difference: all turns go past the population
    for turn, (prior, points) in enumerate([(BOX, population), (plane, whole), (BOX, population)]):
        _, z = exploration.exploration(turn, points, points, None, prior, settings, rng)
        assert not np.array_equal(z, points.z[: len(z)])


def test_points_past_a_population_lie_in_the_prior_and_further_out():
    rng = np.random.default_rng(1)
    narrow = 0.1 * BOX.to_working(BOX.sample(500, rng))
    past = exploration.beyond(narrow, Tuning(candidates=4000), BOX, rng)
    assert BOX.contains(BOX.from_working(past)).all()
    assert 1.2 < past.std() / narrow.std() < 3.0
