"""Where an exploring run may go: all over the prior, and past the population."""

from types import SimpleNamespace

import numpy as np
from scipy import stats

import tbq
from tbq import aims
from tbq.settings import resolve

BOX = tbq.Prior({name: stats.uniform(-1, 2) for name in "abc"})


def test_the_plane_is_explored_all_over_and_space_also_past_the_population(monkeypatch):
    settings, rng = resolve(3), np.random.default_rng(0)
    whole = SimpleNamespace(z=BOX.to_working(BOX.sample(2000, rng)))
    current = SimpleNamespace(z=0.1 * whole.z)
    monkeypatch.setattr(aims, "_flat", lambda z, *rest: z)
    for turn in range(4):
        target, z = aims.exploration(turn, whole, current, None, BOX, settings, np.random.default_rng(turn))
        assert np.array_equal(target, z)
        if turn % 2 == 0:
            assert np.array_equal(z, whole.z[:1000])
        else:
            assert len(z) == 1000
            assert np.abs(z).max() < 0.5 * np.abs(whole.z).max()
            assert np.mean(np.abs(z).max(axis=1) > np.abs(current.z).max()) > 0.1
    plane = tbq.Prior({name: stats.uniform(-1, 2) for name in "ab"})
    flat = SimpleNamespace(z=whole.z[:, :2])
    for turn in range(4):
        _, z = aims.exploration(turn, flat, flat, None, plane, settings, rng)
        assert np.array_equal(z, flat.z[:1000])


def test_points_past_a_population_stay_in_the_prior():
    z = BOX.to_working(BOX.sample(500, np.random.default_rng(1)))
    past = aims.beyond(z, 2000, BOX, np.random.default_rng(2))
    assert 0 < len(past) < 2000  # of a population that fills the prior, many lead out of it
    assert BOX.contains(BOX.from_working(past)).all()
