"""Populations that follow the posterior: what tempering loses is brought back, with its evidence in closed form."""

import numpy as np
import pytest
from scipy import special, stats

import tbq
from tbq.evidence.population import Population, found_at, recounted
from tbq.problem.settings import resolve


class Peaks:
    """A surrogate that knows log L: a plateau, and a peak of which a population of the plateau knows nothing."""

    def __init__(self, height, width=0.01, at=(2.0, -1.5)):
        self.height, self.width, self.centre = height, width, np.array(at)

    def at(self, z):
        return z

    def log_mean(self, z, gamma):
        plateau = -0.5 * np.sum(z**2, axis=1)
        peak = self.height - 0.5 * np.sum(((z - self.centre) / self.width) ** 2, axis=1)
        return gamma * np.logaddexp(plateau, peak)

    @property
    def evidences(self):
        """Of the plateau and of the peak, under a standard normal prior."""
        of_peak = self.height - np.log1p(1 / self.width**2) - 0.5 * self.centre @ self.centre / (1 + self.width**2)
        return np.log(0.5), of_peak


@pytest.mark.parametrize("height", [9.0, 12.0, 30.0])
def test_a_narrow_peak_that_a_population_lost_is_brought_back(height):
    surrogate, prior = Peaks(height), tbq.Prior({"a": stats.norm(), "b": stats.norm()})
    settings = resolve(2, population=1024)
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, np.sqrt(0.5), (1024, 2))
    of_plateau, of_peak = surrogate.evidences
    old = Population(z, -0.5 * np.sum(z**2, axis=1) - of_plateau, 1.0, 0.0, surrogate, of_plateau)
    found = found_at(surrogate.centre, old, surrogate, prior, settings, rng)
    assert found is not None
    population, _ = found
    exact = np.logaddexp(of_plateau, of_peak)
    assert population.log_constant == pytest.approx(exact, abs=0.03)
    members = population.moved
    share = np.mean(np.linalg.norm(members - surrogate.centre, axis=1) < 8 * surrogate.width)
    assert share == pytest.approx(np.exp(of_peak - exact), abs=0.02)
    terms = surrogate.log_mean(population.z, 1.0) + population.log_weights
    assert special.logsumexp(terms) == pytest.approx(exact, abs=0.1)


def test_a_peak_without_evidence_changes_nothing():
    surrogate, prior = Peaks(1.0), tbq.Prior({"a": stats.norm(), "b": stats.norm()})
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, np.sqrt(0.5), (256, 2))
    old = Population(z, -0.5 * np.sum(z**2, axis=1) - np.log(0.5), 1.0, 0.0, surrogate, np.log(0.5))
    assert found_at(surrogate.centre, old, surrogate, prior, resolve(2, population=256), rng) is None


@pytest.mark.parametrize(("dim", "width"), [(4, 0.1), (8, 0.25)])
def test_a_few_members_in_the_part_are_not_counted_twice(dim, width):
    # the prior's own points stand for all of a posterior that hardly any of them has seen; its evidence is exact
    prior = tbq.Prior({f"x{i}": stats.norm() for i in range(dim)})

    class Peak:
        def at(self, z):
            return z

        def log_mean(self, z, gamma):
            return -0.5 * gamma * np.sum((z / width) ** 2, axis=1)

    exact, brought_back = -0.5 * dim * np.log1p(1 / width**2), 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        old = Population(rng.standard_normal((1024, dim)), np.zeros(1024))
        found = found_at(np.zeros(dim), old, Peak(), prior, resolve(dim, population=1024), rng)
        if found is not None:
            brought_back += 1
            assert found[0].log_constant == pytest.approx(exact, abs=0.12)
    assert brought_back > 0


def test_evidence_that_was_miscounted_on_the_way_is_counted_anew():
    surrogate, prior, rng = Peaks(12.0), tbq.Prior({"a": stats.norm(), "b": stats.norm()}), np.random.default_rng(0)
    of_plateau, of_peak = surrogate.evidences
    exact = np.logaddexp(of_plateau, of_peak)
    in_peak = rng.random(1024) < np.exp(of_peak - exact)
    z = np.where(
        in_peak[:, None],
        surrogate.centre + surrogate.width * rng.standard_normal((1024, 2)),
        np.sqrt(0.5) * rng.standard_normal((1024, 2)),
    )
    log_q = surrogate.log_mean(z, 1.0)
    common = (surrogate, prior, resolve(2, population=1024), rng)
    right = Population(z, log_q - exact, 1.0, 0.0, surrogate, exact)
    assert recounted(right, *common) is None
    wrong = Population(z, log_q - (exact - 10.0), 1.0, 0.0, surrogate, exact - 10.0)
    population, _ = recounted(wrong, *common)
    assert population.log_constant == pytest.approx(exact, abs=0.05)


def test_of_outputs_an_evidence_that_is_too_high_is_counted_anew_too():
    """Of log-likelihoods it stands: a mixture may have missed what the members of the population found."""
    surrogate, prior, rng = Peaks(12.0), tbq.Prior({"a": stats.norm(), "b": stats.norm()}), np.random.default_rng(0)
    exact = surrogate.evidences[0]
    z = np.sqrt(0.5) * rng.standard_normal((1024, 2))
    high = exact + 2.0
    wrong = Population(z, surrogate.log_mean(z, 1.0) - high, 1.0, 0.0, surrogate, high)
    assert recounted(wrong, surrogate, prior, resolve(2, population=1024), rng) is None
    settings = resolve(2, outputs=True, noise=1, population=1024)
    population, _ = recounted(wrong, surrogate, prior, settings, rng)
    assert population.log_constant == pytest.approx(exact, abs=0.1)
