"""Priors as they are written down: the same one is known again, and one that differs at all is another."""

import json

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.problem.records import prior_record, same_prior

MARGINALS = {"a": stats.uniform(-2, 4), "b": stats.norm(0, 1)}


def is_known(before, now):
    return same_prior(json.loads(json.dumps(prior_record(before), allow_nan=False)), now)


@pytest.mark.parametrize(
    ("marginals", "same"),
    [
        (
            [stats.norm(1, 2), stats.truncnorm(-np.inf, 1.5)],
            [stats.norm(scale=2, loc=1), stats.truncnorm(-np.inf, b=1.5)],
        ),
        ([stats.uniform(), stats.gamma(2.0)], [stats.uniform(0, 1), stats.gamma(a=2, loc=0, scale=1.0)]),
    ],
)
def test_the_same_prior_in_other_words_is_the_same(marginals, same):
    assert is_known(*(tbq.Prior(dict(zip("ab", m, strict=True))) for m in (marginals, same)))


@pytest.mark.parametrize(
    "other",
    [
        tbq.Prior({**MARGINALS, "b": stats.norm(0, np.nextafter(1.0, 2.0))}),
        tbq.Prior({**MARGINALS, "b": stats.norm(-5e-324, 1)}),
        tbq.Prior({**MARGINALS, "b": stats.t(1e15)}),  # a normal to all digits
        tbq.Prior(MARGINALS, correlation=[[1, 1e-13], [1e-13, 1]]),
        tbq.Prior(MARGINALS, constraint=lambda theta: True),
        tbq.Prior({"a": MARGINALS["a"], "c": MARGINALS["b"]}),
        tbq.Prior({"b": MARGINALS["b"], "a": MARGINALS["a"]}),
    ],
)
def test_a_prior_that_differs_at_all_is_another(other):
    prior = tbq.Prior(MARGINALS)
    assert is_known(prior, prior)
    assert is_known(other, other)
    assert not is_known(prior, other)
    assert not is_known(other, prior)


def ramp(slope):
    class Ramp(stats.rv_continuous):
        def _pdf(self, x):
            return 1.0 + slope * (x - 0.5)

        def _cdf(self, x):
            return x + 0.5 * slope * (x**2 - x)

    return Ramp(a=0, b=1, name="ramp")()


@pytest.mark.parametrize("change", [1e-7, 0.3])
def test_distributions_of_ones_own_are_compared_by_their_density(change):
    before, now = (tbq.Prior({"a": ramp(slope)}) for slope in (0.5, 0.5 + change))
    assert is_known(before, tbq.Prior({"a": ramp(0.5)}))
    assert not is_known(before, now)


def test_a_constraint_that_moved_a_little_is_noticed():
    before, now = (tbq.Prior(MARGINALS, constraint=lambda t, c=c: t[0] > c) for c in (-1.99, -1.9899))
    assert is_known(before, before)
    assert not is_known(before, now)


def test_records_of_earlier_versions_are_compared_by_density():
    record = {k: v for k, v in prior_record(tbq.Prior(MARGINALS)).items() if k != "exactly"}
    assert same_prior(record, tbq.Prior(MARGINALS))
    assert not same_prior(record, tbq.Prior({**MARGINALS, "b": stats.norm(0, 1.001)}))


@pytest.mark.parametrize("change", [{"theta": "x"}, {"theta": [[1.0]]}, {"log_density": ["much"]}, {"log_density": 3}])
def test_a_record_that_no_prior_has_written_is_of_another(change):
    prior = tbq.Prior(MARGINALS)
    assert not same_prior({**prior_record(prior), **change}, prior)


def test_the_description_has_all_digits_that_tell_numbers_apart():
    prior = tbq.Prior({"a": stats.uniform(0.1, 0.9), "b": stats.norm(0, scale=1.00000000001)})
    assert repr(prior) == "Prior(a: uniform(0.1, 0.9), b: norm(0, scale=1.00000000001))"
