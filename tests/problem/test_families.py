"""Distributions in the words of their readers."""

import numpy as np
import pytest
from scipy import stats

from tbq.problem.families import in_words


@pytest.mark.parametrize(
    ("marginal", "words"),
    [
        (stats.uniform(0.1, 0.2), "uniform from 0.1 to 0.3"),
        (stats.uniform(scale=8, loc=-4), "uniform from -4 to 4"),
        (stats.loguniform(0.01, 1, scale=2), "loguniform from 0.02 to 2"),
        (stats.norm(1), "normal, mean 1, sd 1"),
        (stats.truncnorm(-1, 2, 3, 0.5), "normal, mean 3, sd 0.5, cut off below 2.5 and above 4"),
        (stats.truncnorm(-np.inf, 2, 3, 0.5), "normal, mean 3, sd 0.5, cut off above 4"),
        (stats.lognorm(0.3, scale=2.2), "lognormal, median 2.2, sd of the logarithm 0.3"),
        (stats.lognorm(0.3, 1, 2), "lognorm(0.3, 1, 2)"),
        (stats.gamma(2, scale=3), "gamma(2, scale=3)"),
    ],
)
def test_a_prior_is_told_without_the_arguments_of_scipy_where_it_has_common_ones(marginal, words):
    assert in_words(marginal) == words
