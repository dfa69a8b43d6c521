"""Timeouts, retries, dying workers and servers with a coarse model: either level leaves the other alone."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from decays import OPTIONS, PRIOR, Killing, Moody, Slow, coarse, fine, ids, likelihood, one, plain_coarse, right

import tbq
from tbq.engine import training
from tbq.problem.evaluation import Status

SHORT = {**OPTIONS, "max_evaluations": 6}


def failed(runs):
    return [e for e in runs if e.status.is_failure]


def test_runs_of_either_level_that_hang_are_ended_and_the_others_go_on():
    """A coarse run is made at every fine one but those that gave nothing to be compared with."""
    both = likelihood(Slow(), cost=1.0, model=Slow())  # so dear that there are few coarse ones
    found = tbq.infer(both, PRIOR, timeout=2.0, executor=partial(ThreadPoolExecutor, 4), batch_size=4, **SHORT)
    for runs in (found.evaluations, found.coarse):
        late = failed(runs)
        assert {e.status for e in late} == {Status.TIMEOUT}
        assert [e.id for e in late] == [e.id for e in runs if e.theta[1] > 2.0]
    there = {tuple(e.theta) for e in found.coarse}
    assert [tuple(e.theta) in there for e in found.evaluations] == [not e.status.is_failure for e in found.evaluations]


@pytest.mark.parametrize("executor", [None, partial(ThreadPoolExecutor, 3)])
def test_runs_of_either_level_are_tried_again(tmp_path, executor):
    (tmp_path / "fine").mkdir()
    (tmp_path / "coarse").mkdir()
    below, above = Moody(tmp_path / "coarse", 1, plain_coarse), Moody(tmp_path / "fine", 2, one)
    plain = tbq.infer(likelihood(), PRIOR, **SHORT)
    found = tbq.infer(likelihood(below, model=above), PRIOR, retries=2, executor=executor, **SHORT)
    assert ids(found) == ids(plain)
    assert not failed((*found.evaluations, *found.coarse))
    assert {below.calls(e.theta) for e in found.coarse} == {2}
    assert {above.calls(e.theta) for e in found.evaluations} == {3}


def test_failures_of_the_coarse_model_alone_are_no_outage():
    def never(theta):
        raise ValueError("no mesh")

    found = tbq.infer(likelihood(never), PRIOR, outage_after=(3, 3), patience=0.1, **SHORT)
    assert not found.outage
    assert (found.n_evaluations, len(failed(found.coarse)), found.n_coarse) == (6, 16, 16)


def test_a_coarse_model_that_ends_its_process_takes_no_fine_run_with_it():
    pool = partial(ProcessPoolExecutor, 2)
    found = tbq.infer(likelihood(Killing(), cost=1.0), PRIOR, executor=pool, batch_size=4, **SHORT)
    assert not failed(found.evaluations)
    lost = failed(found.coarse)
    assert {e.status for e in lost} == {Status.LOST}
    assert [e.id for e in lost] == [e.id for e in found.coarse if e.theta[1] > 2.0]


def test_a_vectorised_coarse_model_is_called_with_all_points_of_its_level_at_once():
    shapes = {"fine": [], "coarse": []}

    def noted(level, model):
        def run(theta):
            shapes[level].append(theta.shape)
            return model(theta)

        return run

    many = likelihood(noted("coarse", coarse), model=noted("fine", fine))
    found = tbq.infer(many, PRIOR, vectorized=True, batch_size=4, **OPTIONS)
    assert right(found)
    assert shapes["coarse"][0] == (16, 2)
    assert shapes["fine"][0] == (5, 2)
    assert sum(n for n, _ in shapes["coarse"]) == found.n_coarse
    assert sum(n for n, _ in shapes["fine"]) == found.n_evaluations


def test_a_vectorised_coarse_model_that_returns_nonsense_fails_alone():
    found = tbq.infer(likelihood(lambda theta: coarse(theta)[:3], model=fine), PRIOR, vectorized=True, **SHORT)
    assert not failed(found.evaluations)
    assert len(failed(found.coarse)) == found.n_coarse == 16
    assert "shape" in found.coarse[0].message


def test_a_coarse_model_with_another_number_of_outputs_fails_alone_and_says_why():
    found = tbq.infer(likelihood(lambda theta: plain_coarse(theta)[:5]), PRIOR, **SHORT)
    assert not failed(found.evaluations)
    assert {e.message for e in found.coarse} == {"TbqError: the model returned outputs of shape (5,), not (12,)"}


def test_the_checks_before_the_end_are_fine_runs(monkeypatch):
    asked = lambda runs, memory, *rest: replace(memory, objection="Something speaks against it.")
    monkeypatch.setattr(training, "compare_with_values", asked)
    found = tbq.infer(likelihood(), PRIOR, **OPTIONS)
    assert right(found)
    checks = [e for e in (*found.evaluations, *found.coarse) if e.origin == "check"]
    assert len(checks) >= 4
    assert {e.level for e in checks} == {"fine"}
    np.testing.assert_allclose([e.outputs for e in checks], [one(e.theta) for e in checks])
