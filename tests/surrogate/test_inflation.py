"""What a run's own surprises say of its surrogate."""

import numpy as np
import pytest

from tbq.surrogate import inflation


@pytest.mark.parametrize("start", [1.05, 1.5])
def test_inflation_starts_as_told_and_follows_large_surprises(start):
    assert inflation.inflation(start, ()) == start
    assert inflation.inflation(start, (0.01,) * 50) == start  # never below
    assert inflation.inflation(start, (9.0,) * 25) == pytest.approx(np.sqrt((5 * start**2 + 25 * 9.0) / 30))
    assert inflation.inflation(start, (25.0,) * 300) == 4.0


def test_deflation_follows_small_surprises_and_is_never_above_one():
    assert inflation.deflation(1.5, ()) == 1.0
    assert inflation.deflation(1.5, (9.0,) * 25) == 1.0
    assert inflation.deflation(1.5, (0.25,) * 25) == pytest.approx(np.sqrt((5 + 25 * 0.25) / 30))
    assert inflation.deflation(1.5, (9.0,) * 50 + (0.25,) * 30) == pytest.approx(np.sqrt((5 + 30 * 0.25) / 35))


def test_an_error_is_stated_as_surprises_support_it():
    assert inflation.supported(1.5, ()) == 1.0
    assert inflation.supported(1.5, (9.0,) * 25) == 1.0
    assert inflation.supported(1.5, (25.0,) * 300) == 1.0
    small = inflation.supported(1.5, (0.25,) * 25)
    assert 1.5 * small == pytest.approx(np.sqrt((5 * 1.5**2 + 25 * 0.25) / 30))


def test_the_papers_settings_are_left_as_they_are():
    assert inflation.inflation(1.0, (25.0,) * 30) == 1.0
    assert inflation.deflation(1.0, (0.01,) * 30) == 1.0
    assert inflation.supported(1.0, (0.01,) * 30) == 1.0
