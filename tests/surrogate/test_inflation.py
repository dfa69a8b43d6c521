"""What predictions that runs tested say of their surrogate."""

import numpy as np
import pytest

from tbq.problem.tuning import Tuning
from tbq.surrogate import inflation

DEFAULT, PAPER = Tuning(), Tuning(inflate=False, adjust_mean=False)


@pytest.mark.parametrize("start", [1.05, 1.5])
def test_inflation_starts_as_told_and_follows_large_errors(start):
    tuning = Tuning(inflation_start=start)
    assert inflation.inflation(tuning, ()) == start
    assert inflation.inflation(tuning, (0.01,) * 50) == start  # never below
    assert inflation.inflation(tuning, (9.0,) * 25) == pytest.approx(np.sqrt((5 * start**2 + 25 * 9.0) / 30))
    assert inflation.inflation(tuning, (25.0,) * 300) == 4.0


def test_where_many_predictions_were_tested_it_may_be_less():
    assert inflation.inflation(DEFAULT, (0.01,) * 50, 1.2) == 1.2
    assert inflation.inflation(DEFAULT, (), 1.2) == 1.5
    learned = np.sqrt((5 * 1.5**2 + 30 * 1.69) / 35)
    assert 1.2 < learned < 1.5
    assert inflation.inflation(DEFAULT, (1.69,) * 30, 1.2) == pytest.approx(learned)
    assert inflation.supported(DEFAULT, (1.69,) * 30, 1.2) == 1.0


def test_deflation_follows_small_errors_and_is_never_above_one():
    assert inflation.deflation(DEFAULT, ()) == 1.0
    assert inflation.deflation(DEFAULT, (9.0,) * 25) == 1.0
    assert inflation.deflation(DEFAULT, (0.25,) * 25) == pytest.approx(np.sqrt((5 + 25 * 0.25) / 30))
    assert inflation.deflation(DEFAULT, (9.0,) * 50 + (0.25,) * 30) == pytest.approx(np.sqrt((5 + 30 * 0.25) / 35))


def test_an_error_is_stated_as_predictions_support_it():
    assert inflation.supported(DEFAULT, ()) == 1.0
    assert inflation.supported(DEFAULT, (9.0,) * 25) == 1.0
    assert inflation.supported(DEFAULT, (25.0,) * 300) == 1.0
    small = inflation.supported(DEFAULT, (0.25,) * 25)
    assert 1.5 * small == pytest.approx(np.sqrt((5 * 1.5**2 + 25 * 0.25) / 30))


def test_the_papers_settings_are_left_as_they_are():
    assert inflation.inflation(PAPER, (25.0,) * 30) == 1.0
    assert inflation.deflation(PAPER, (0.01,) * 30) == 1.0
    assert inflation.supported(PAPER, (0.01,) * 30) == 1.0
