"""Where an exploring run may go: along profiles, to the highest likelihood that there may be."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.acquisition import exploration
from tbq.problem.settings import resolve

BOX = tbq.Prior({name: stats.uniform(-1, 2) for name in "abc"})


class Ridge:
    """A surrogate whose log-likelihood is highest where b = c = a/2, and falls with a."""

    def __init__(self, spread=0.0):
        self.spread = spread

    def at(self, z):
        return np.asarray(z)

    def log_likelihood(self, z):
        a, b, c = z.T
        return -50 * ((b - a / 2) ** 2 + (c - a / 2) ** 2) - a, np.full(len(z), self.spread**2)

    def log_mean(self, z, gamma):
        return gamma * self.log_likelihood(z)[0]

    def log_spread(self, z, gamma):
        return np.full(len(z), gamma * self.spread)


def prior_points(rng, n=2000):
    return BOX.to_working(BOX.sample(n, rng))


def test_profiles_follow_a_ridge_to_where_no_member_is():
    rng = np.random.default_rng(0)
    of_prior = prior_points(rng)
    members = np.sort(np.abs(of_prior), axis=1) / 4  # all in one corner
    found = exploration.profiles(members, of_prior, Ridge(), BOX, [], rng)
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
    found = exploration.profiles(z, z, Ridge(), inside, [], rng)
    assert inside.contains(inside.from_working(found)).all()
    assert not any((z == point).all(axis=1).any() for point in found)  # each has a value that its member had not


class Region:
    """Runs succeed where the first parameter is low."""

    def log_probability(self, z):
        return np.where(z[:, 0] < 0.3, -0.1, -5.0)


def test_profiles_and_the_peak_stay_where_runs_are_expected_to_succeed():
    rng = np.random.default_rng(0)
    z = prior_points(rng)
    assert (exploration.profiles(z, z, Ridge(), BOX, [Region()], rng)[:, 0] < 0.3).all()
    rising = Ridge(0.5)
    rising.log_likelihood = lambda z: (z[:, 0], np.full(len(z), 0.25))
    assert exploration.peak(z, rising, [], resolve(3))[0, 0] > 0.9
    assert 0.2 < exploration.peak(z, rising, [Region()], resolve(3))[0, 0] < 0.3


def test_where_no_run_is_expected_to_succeed_there_is_still_a_point():
    rng = np.random.default_rng(0)
    z = prior_points(rng)
    nowhere = SimpleNamespace(log_probability=lambda z: np.full(len(z), -9.0))
    assert len(exploration.profiles(z, z, Ridge(), BOX, [nowhere], rng)) == 1
    assert len(exploration.peak(z, Ridge(0.5), [nowhere], resolve(3))) == 1


class Known(Ridge):
    """One whose log-likelihood is −z₀ and known within z₁."""

    def log_likelihood(self, z):
        return -z[:, 0], z[:, 1] ** 2

    def log_spread(self, z, gamma):
        return gamma * z[:, 1]


def test_a_ridges_end_is_the_least_implausible_point_that_is_not_known():
    z = np.array([[0.0, 0.001, 0.0], [1.0, 0.01, 0.0], [9.0, 3.0, 0.0], [5.0, 1.0, 0.0], [2.0, 0.0, 0.0]])
    assert np.array_equal(
        exploration.end(z, Known(), resolve(3)), z[[2]]
    )  # 3 standard deviations, the others 100, 5, ∞


@pytest.mark.parametrize(("spread", "expected"), [(0.5, 1), (0.001, 2000)])
def test_the_peak_is_looked_at_only_where_it_is_not_known(spread, expected):
    z = prior_points(np.random.default_rng(0))
    surrogate = Ridge(spread)
    found = exploration.peak(z, surrogate, [], resolve(3))
    assert len(found) == expected
    if expected == 1:
        mean, _ = surrogate.log_likelihood(z)
        assert surrogate.log_likelihood(found)[0] == mean.max()


def test_the_plane_is_explored_all_over_and_space_in_four_ways(monkeypatch):
    settings, rng = resolve(3), np.random.default_rng(0)
    population = SimpleNamespace(z=prior_points(rng))
    monkeypatch.setattr(exploration, "_flat", lambda z, *rest: z)
    monkeypatch.setattr(exploration, "end", lambda z, *rest: ("end", len(z)))
    monkeypatch.setattr(exploration, "peak", lambda z, *rest: ("peak", len(z)))
    looks = [
        exploration.exploration(
            turn, population, population, Ridge(0.5), BOX, [], settings, np.random.default_rng(turn)
        )
        for turn in range(5)
    ]
    for target, z in (looks[0], looks[4]):
        assert np.array_equal(target, population.z[:1000])
        assert np.array_equal(z, target)
    assert looks[1][1] == ("end", 64)
    past, z = looks[2]
    assert np.array_equal(z, past)
    assert not any((population.z == point).all(axis=1).any() for point in past)
    assert looks[3][1] == ("peak", len(looks[3][0]) + len(population.z))
    plane = tbq.Prior({name: stats.uniform(-1, 2) for name in "ab"})
    whole = SimpleNamespace(z=population.z[:, :2])
    for turn in range(4):
        _, z = exploration.exploration(turn, whole, whole, Ridge(0.5), plane, [], settings, rng)
        assert np.array_equal(z, whole.z[:1000])
