"""A glance at the evidence against a look from all sides."""

from dataclasses import replace

import numpy as np
import pytest

from tbq import assessment, bench, problems
from tbq.settings import resolve


@pytest.fixture(scope="module")
def looked():
    problem, settings = problems.get("u1"), resolve(2, max_evaluations=26)
    state, _ = bench.drive(problem, settings, 0)
    populations, surrogate = (*state.past, state.population), state.learned.surrogate
    return assessment.assess(populations, surrogate, [], problem.prior, settings, 0), problem.prior, settings


def test_a_glance_sees_what_the_look_saw_of_the_same_surrogate(looked):
    found, prior, settings = looked
    seen = assessment.glance(found, found.surrogate, prior, settings, 0, 0.5 * found.of_surrogate)
    assert not seen.complete
    assert seen.of_surrogate == pytest.approx(found.of_surrogate, rel=1e-9)
    assert seen.log_evidence == pytest.approx(found.log_evidence, rel=1e-12)
    np.testing.assert_allclose(seen.weights, found.weights)
    np.testing.assert_array_equal(seen.target.node_z, found.target.node_z)


def test_only_a_look_can_say_that_all_is_well(looked):
    found, prior, settings = looked
    assert assessment.glance(found, found.surrogate, prior, settings, 0, 1.01 * found.of_surrogate) is None


def test_other_surrogates_and_other_posteriors_need_a_look(looked):
    found, prior, settings = looked
    torn = replace(found, of_hyperparameters=2.0 * found.of_surrogate)
    assert assessment.glance(torn, found.surrogate, prior, settings, 0, 0.0) is None
    x = found.surrogate.gp.x
    narrow = replace(found.surrogate.gp, y=-500.0 * np.sum((x - x.mean(axis=0)) ** 2, axis=1))
    gp = narrow.condition(x.mean(axis=0), 0.0, 1e-6)  # takes in the new values
    assert assessment.glance(found, replace(found.surrogate, gp=gp), prior, settings, 0, 0.0) is None
