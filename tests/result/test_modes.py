"""Modes: pieces of the posterior with known masses, and shapes that are one piece however bent."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.engine.records import ErrorBudget, Stop
from tbq.result import modes
from tbq.result.result import Result


class Exact:
    """A surrogate that knows the log-likelihood."""

    description = "exact"

    def __init__(self, log_likelihood, prior):
        self.log_likelihood_of, self.prior = log_likelihood, prior

    def at(self, z):
        return z

    def log_mean(self, z, gamma):
        return gamma * self.log_likelihood_of(self.prior.from_working(z))


def known(log_likelihood, prior, draws):
    """The result of a run that found out everything."""
    nothing = ErrorBudget(0.0, 0.0, 0.0)
    return Result(prior, Exact(log_likelihood, prior), 0.0, nothing, draws, (), (), (), Stop.CONVERGED)


def box(d, half=8.0):
    return tbq.Prior({f"x{i}": stats.uniform(-half, 2 * half) for i in range(d)})


def mixture(d, centres, masses, widths, n=2000, seed=0):
    """Normal pieces: log-density and draws."""
    rng = np.random.default_rng(seed)
    centres, widths = np.asarray(centres, dtype=float), np.asarray(widths, dtype=float)
    which = rng.choice(len(masses), n, p=masses)
    draws = centres[which] + widths[which, None] * rng.standard_normal((n, d))

    def log_likelihood(theta):
        squared = np.sum((theta[:, None, :] - centres) ** 2, axis=2) / widths**2
        return np.logaddexp.reduce(np.log(masses) - d * np.log(widths) - 0.5 * squared, axis=1)

    return log_likelihood, draws, which


@pytest.mark.parametrize("d", [1, 2, 4, 8])
def test_pieces_of_a_mixture_have_their_masses(d):
    centres = np.zeros((3, d))
    centres[:, 0] = [-4.0, 0.0, 3.0]
    masses, widths = [0.6, 0.37, 0.03], [0.5, 0.5, 0.1]
    log_likelihood, draws, which = mixture(d, centres, masses, widths)
    found = known(log_likelihood, box(d), draws).modes
    assert len(found) == 3
    for k, mode in enumerate(found):
        assert mode.mass == pytest.approx(np.mean(which == k), abs=0.005)  # all but a few draws are told apart
        assert abs(mode.mass - masses[k]) < 4 * mode.mass_sd
        np.testing.assert_allclose(mode.centre, centres[k], atol=5 * widths[k] / np.sqrt(np.sum(which == k)))
        np.testing.assert_allclose(mode.width, widths[k], rtol=0.3)
        np.testing.assert_allclose(mode.peak, centres[k], atol=0.01)
    assert sorted(np.concatenate([m.rows for m in found])) == list(range(len(draws)))


@pytest.mark.parametrize(("apart", "count"), [(3.0, 1), (5.0, 2)])
def test_two_equal_normals_are_two_modes_from_four_standard_deviations_on(apart, count):
    log_likelihood, draws, _ = mixture(2, [[0, 0], [apart, 0]], [0.5, 0.5], [1.0, 1.0])
    assert len(known(log_likelihood, box(2, 12.0), draws).modes) == count


@pytest.mark.parametrize("d", [1, 3, 10])
def test_a_normal_is_one_mode_in_any_dimension(d):
    draws = np.random.default_rng(0).standard_normal((2000, d))
    result = known(lambda theta: -0.5 * np.sum(theta**2, axis=1), box(d), draws)
    assert len(result.modes) == 1
    assert result.modes[0].mass == 1.0


def test_a_flat_posterior_is_one_mode():
    draws = box(5).sample(2000, seed=0)
    assert len(known(lambda theta: np.zeros(len(theta)), box(5), draws).modes) == 1


def test_a_bent_ridge_with_two_summits_is_one_mode():
    # a ring but for its opening, along which the density rises to two ends: the straight way between them is empty
    rng = np.random.default_rng(0)
    angle = rng.uniform(-2.6, 2.6, 40_000)
    angle = angle[rng.random(len(angle)) < np.exp(0.5 * np.abs(angle) - 1.3)][:2000]
    others = 0.2 * rng.standard_normal((len(angle), 3))
    radius = 3.0 + 0.2 * rng.standard_normal(len(angle))
    draws = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), others])

    def log_likelihood(theta):
        r, angle = np.hypot(theta[:, 0], theta[:, 1]), np.abs(np.arctan2(theta[:, 1], theta[:, 0]))
        off = 0.5 * np.sum(theta[:, 2:] ** 2, axis=1) / 0.04 + 0.5 * ((r - 3.0) / 0.2) ** 2
        return 0.5 * angle - off - 50.0 * np.maximum(angle - 2.6, 0.0) ** 2

    assert len(known(log_likelihood, box(5), draws).modes) == 1


@pytest.mark.parametrize("name", ["dof2", "mixture4"])
def test_modes_of_problems_with_known_masses(name):
    problem = tbq.problems.get(name)
    result = tbq.infer(problem.log_likelihood, problem.prior, seed=1, population=512, progress=False)
    found = result.modes
    assert len(found) == 2
    for mode, reference in zip(found, sorted(problem.reference.modes, key=lambda m: -m.mass), strict=True):
        assert mode.mass == pytest.approx(reference.mass, abs=0.07)  # 512 draws: three standard deviations
        assert reference.contains(mode.centre)
        assert reference.contains(mode.best_run.theta)
        near = [e for e in result.evaluations if reference.contains(e.theta)]
        density = [e.log_likelihood + problem.prior.log_density(e.theta) for e in near]
        assert mode.best_run is near[int(np.argmax(density))]
    text = result.summary()
    assert f"modes          2, of mass {100 * found[0].mass:.0f} %" in text


def test_a_mode_without_a_run_says_so_and_nothing_learned_has_none():
    log_likelihood, draws, _ = mixture(2, [[0, 0], [6, 0]], [0.5, 0.5], [0.5, 0.5])
    result = known(log_likelihood, box(2), draws)
    assert [m.best_run for m in result.modes] == [None, None]
    assert replace(result, surrogate=None).modes == ()
    assert tbq.Session(box(2)).result().modes == ()


def test_the_maximum_is_that_of_the_density():
    log_likelihood, draws, _ = mixture(3, [[1, 2, 3]], [1.0], [0.7])
    np.testing.assert_allclose(modes.maximum(known(log_likelihood, box(3), draws)), [1, 2, 3], atol=1e-3)
