"""Runs with a coarse model: models, brute force, and what the study makes of them."""

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.bench import level_models, levels
from tbq.bench.level_models import CASES, Case


def test_every_problem_has_a_stored_reference():
    assert levels.references().keys() == {make().problem for make in CASES.values()}
    assert all(sd < 0.005 for _, sd in levels.references().values())
    assert levels.references()["battery"][0] == tbq.problems.get("battery").reference.log_evidence


def test_frequencies_of_a_uniform_beam_are_those_of_the_textbook():
    stiff = np.array([1.0, 1.0, 1.0, 1e9, 0.0, 1.0])  # clamped by a spring that does not give way
    roots = np.array([1.8751041, 4.6940911, 7.8547574, 10.9955407])  # of cos x cosh x = −1
    np.testing.assert_allclose(level_models.frequencies(stiff), roots**2, rtol=1e-4)
    two, four = (np.abs(level_models.frequencies(stiff, n) / roots**2 - 1.0) for n in (2, 4))
    assert np.all(four < two)
    assert four[0] < 1e-3 < four[3]


def test_euler_s_method_approaches_the_solution():
    theta = np.array([3.0, 0.1, 1.0, 0.3])
    off = level_models.euler(theta) - level_models.decaying(theta)
    assert 0.01 < np.max(np.abs(off)) < 0.5


def test_brute_force_is_the_integral_of_a_line():
    x = np.array([-1.0, 0.0, 1.0, 2.0])
    data = np.array([-0.4, 0.2, 0.3, 1.4])

    def line(theta):
        return theta[..., :1] + theta[..., 1:] * x

    prior = tbq.Prior({"a": stats.norm(0, 1), "b": stats.norm(0, 1)})
    found, sd = levels.reference(Case("line", prior, line, line, data, 0.3, 0.1, 5), 4000)
    covariance = 0.09 * np.eye(4) + 1.0 + np.outer(x, x)
    assert found == pytest.approx(stats.multivariate_normal(np.zeros(4), covariance).logpdf(data), abs=4.0 * sd)
    assert sd < 0.05


def test_a_study_is_kept_goes_on_and_is_reported(tmp_path, monkeypatch):
    rows = levels.study(["oscillator"], [1], tmp_path)
    two, one = rows
    assert (two.levels, one.levels) == (2, 1)
    assert two.fine < one.fine
    assert two.cost == pytest.approx(two.fine + 0.01 * two.coarse, abs=1e-3)
    assert abs(two.error) < 3.0 * two.stated
    monkeypatch.setattr(levels, "run", None)  # nothing is missing
    assert levels.study(["oscillator"], [1], tmp_path)[0].fine == two.fine
    assert "| oscillator | 4 | 0." in (tmp_path / "levels.md").read_text()
