"""Where a run may go that the stages would not make: all over the prior, past the population, along profiles."""

from types import SimpleNamespace

import numpy as np
from scipy import stats

import tbq
from tbq import aims
from tbq.settings import resolve

BOX = tbq.Prior({name: stats.uniform(-1, 2) for name in "abc"})


class Ridge:
    """A surrogate whose log-likelihood is highest where b = c = a/2, and falls with a."""

    def at(self, z):
        return np.asarray(z)

    def log_likelihood(self, z):
        a, b, c = z.T
        return -50 * ((b - a / 2) ** 2 + (c - a / 2) ** 2) - a, np.zeros(len(z))


def prior_points(rng, n=2000):
    return BOX.to_working(BOX.sample(n, rng))


def test_profiles_follow_a_ridge_to_where_no_member_is():
    rng = np.random.default_rng(0)
    of_prior = prior_points(rng)
    members = np.sort(np.abs(of_prior), axis=1) / 4  # all in one corner
    found = aims.profiles(members, of_prior, Ridge(), BOX, [], rng)
    far = found[np.abs(found[:, 0]) > members[:, 0].max()]
    assert len(far)  # the first parameter was among those drawn, beyond all members
    for point in found:
        changed = [j for j in range(3) if not np.isclose(members[:, j], point[j], atol=1e-12).any()]
        assert len(changed) <= 1  # the others are a member's
        with_it = members.copy()
        with_it[:, changed] = point[changed]
        mean = Ridge().log_likelihood(np.vstack([with_it, point]))[0]
        if changed:
            assert np.mean(mean[:-1] > mean[-1]) < 0.15  # the best of 64


def test_profiles_stay_where_the_prior_is():
    inside = tbq.Prior(
        {name: stats.uniform(-1, 2) for name in "abc"}, constraint=lambda theta: theta[..., 0] < theta[..., 1]
    )
    rng = np.random.default_rng(0)
    z = inside.to_working(inside.sample(1000, rng))
    found = aims.profiles(z, z, Ridge(), inside, [], rng)
    assert inside.contains(inside.from_working(found)).all()
    assert not any((z == point).all(axis=1).any() for point in found)  # each has a value that its member had not


class Region:
    """Runs succeed where the first parameter is low."""

    def log_probability(self, z):
        return np.where(z[:, 0] < 0.3, -0.1, -5.0)


def test_profiles_stay_where_runs_are_expected_to_succeed():
    rng = np.random.default_rng(0)
    z = prior_points(rng)
    assert (aims.profiles(z, z, Ridge(), BOX, [Region()], rng)[:, 0] < 0.3).all()
    nowhere = SimpleNamespace(log_probability=lambda z: np.full(len(z), -9.0))
    assert len(aims.profiles(z, z, Ridge(), BOX, [nowhere], rng)) == 1  # there is still a point


class Known(Ridge):
    """One whose log-likelihood is −z₀ and known within z₁."""

    def log_likelihood(self, z):
        return -z[:, 0], z[:, 1] ** 2


def test_a_ridges_end_is_the_least_implausible_point_that_is_not_known():
    z = np.array([[0.0, 0.001, 0.0], [1.0, 0.01, 0.0], [9.0, 3.0, 0.0], [5.0, 1.0, 0.0], [2.0, 0.0, 0.0]])
    assert np.array_equal(aims.end(z, Known(), resolve(3)), z[[2]])  # 3 standard deviations, the others 100, 5, ∞


def test_the_plane_is_explored_all_over_and_space_also_past_the_population(monkeypatch):
    settings, rng = resolve(3), np.random.default_rng(0)
    whole = SimpleNamespace(z=prior_points(rng))
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
    z = prior_points(np.random.default_rng(1), 500)
    past = aims.beyond(z, 2000, BOX, np.random.default_rng(2))
    assert 0 < len(past) < 2000  # of a population that fills the prior, many lead out of it
    assert BOX.contains(BOX.from_working(past)).all()
