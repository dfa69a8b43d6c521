from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

import tbq
from tbq.engine import ascent, ask, init, tell
from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.settings import resolve

CENTERS = np.array([[1.5, -1.0, 0.5, 2.0], [-2.0, 1.5, -1.5, -1.0]])
WIDTHS = np.array([0.6, 0.24])
SHARES = np.array([0.7, 0.3])
PRIOR = tbq.Prior({f"x{i}": stats.uniform(-4.0, 8.0) for i in range(4)})


def narrow_second_mode(theta):
    squared = np.sum((np.asarray(theta)[..., None, :] - CENTERS) ** 2, axis=-1) / WIDTHS**2
    return special.logsumexp(np.log(SHARES) - 4.0 * np.log(WIDTHS / WIDTHS[0]) - 0.5 * squared, axis=-1)


def run_until_climbed(state):
    """Until the first climb is over, or a run ends; and how far the base of the climb lies from the narrow mode."""
    base, distance = None, np.inf
    while state.stop is None and not state.climbed:
        state, (p, *_) = ask(state)
        status = {"status": Status.OK, "log_likelihood": float(narrow_second_mode(p.theta))}
        run = Evaluation(p.id, p.theta, p.stage, p.origin, p.acquisition, message="", seconds=0.0, **status)
        state = tell(state, [run])
        if state.ascent is not None:
            base = next(e for e in state.evaluations if e.id == state.ascent.base)
            distance = from_narrow(base.theta)
    return state, distance


def from_narrow(theta):
    return np.linalg.norm((theta - CENTERS[1]) / WIDTHS[1])


def test_a_narrow_mode_is_climbed_from_a_run_in_its_flank():
    state, distance = run_until_climbed(init(PRIOR, resolve(4, population=512), seed=1))
    assert 4.0 < distance < 100.0  # standard deviations of the mode
    assert from_narrow(state.evaluations[-1].theta) < 1.0 or from_narrow(state.evaluations[-2].theta) < 1.0


def made(z, ascent_points, values):
    """A climb of which so many values are known, on a parabola."""
    return ascent._further(ascent.Ascent(0, ascent_points), values, z, [values_at(z), 0.0], 0, PRIOR)


def values_at(z):
    return 1.0 - 15.0 * float(np.sum((z - np.array([0.4, -0.3, 0.2, 0.1])) ** 2))


def test_the_second_step_ends_at_the_vertex_of_a_round_parabola():
    z = np.zeros(4)
    points = ascent._around(z, PRIOR)
    for _ in range(2):
        further = made(z, points, [values_at(p) for p in points])
        points = np.vstack([points, further])
    assert made(z, points, [values_at(p) for p in points]) is None
    assert values_at(points[-1]) > 0.95  # of 1; differences are forward ones
    assert values_at(z) < -3.0


def test_steps_stay_inside_the_prior():
    high = PRIOR.working_bounds[1]
    points = ascent._around(high, PRIOR)
    assert PRIOR.contains(PRIOR.from_working(points)).all()
    assert ascent._inside(high - 0.1, np.eye(4)[0], 5.0, PRIOR)[0] <= high[0]


@pytest.mark.parametrize("bad", [-np.inf, np.nan])
def test_a_run_that_failed_on_the_way_up_ends_the_climb(bad):
    z = np.zeros(4)
    points = ascent._around(z, PRIOR)
    points = np.vstack([points, made(z, points, [values_at(p) for p in points])])
    assert made(z, points, [*(values_at(p) for p in points[:4]), bad]) is None


def test_the_runs_of_a_climb_are_known_again_in_whitened_coordinates():
    dim = 6
    correlation = np.full((dim, dim), 0.95) + 0.05 * np.eye(dim)
    prior = tbq.Prior({f"x{i}": stats.norm() for i in range(dim)}, correlation=correlation)
    points = np.random.default_rng(0).standard_normal((dim, dim))
    runs = [
        Evaluation(i, prior.from_working(z[None, :])[0], 1, "peur", 0.0, Status.OK, float(i))
        for i, z in enumerate(points)
    ]
    climb = ascent.Ascent(99, points)
    state = SimpleNamespace(prior=prior, evaluations=runs)
    assert ascent._values(state, climb) == [float(i) for i in range(dim)]
    assert ascent._ids(state, climb) == list(range(dim))


def test_a_point_that_is_out_is_not_given_out_again():
    prior = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.norm()})
    state = init(prior, resolve(2, population=256, n_initial=8), 0)
    while state.learned is None:
        state, points = ask(state, 4)
        state = tell(
            state, [Evaluation(p.id, p.theta, 0, p.origin, 0.0, Status.OK, -p.theta @ p.theta) for p in points]
        )
    state = replace(state, doubt=np.array([0.3, 0.4]), assessment=None)
    thetas = []
    for _ in range(3):
        state, (point,) = ask(state, 1)
        thetas.append(point.theta)
    np.testing.assert_allclose(thetas[0], prior.from_working(np.array([[0.3, 0.4]]))[0])
    assert not any(np.allclose(thetas[0], theta, atol=1e-6) for theta in thetas[1:])
