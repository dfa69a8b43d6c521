"""From a state to the errors that are stated."""

import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from conclusions import result_of
from scipy import stats

import tbq
from tbq import engine
from tbq.engine import conclusion, training
from tbq.engine.conclusion import assess_evidence
from tbq.engine.records import ErrorBudget
from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.settings import resolve
from tbq.problem.tuning import Tuning
from tbq.report import summary
from tbq.surrogate.feasibility import Bounded
from tbq.surrogate.inflation import supported

BOX = tbq.Prior({name: stats.uniform(-3, 6) for name in "ab"})


@pytest.fixture(scope="module")
def state():
    settings = resolve(2, n_initial=15)
    state, proposals = engine.ask(engine.init(BOX, settings, 0), 15)
    value = lambda theta: 2.0 * np.sin(3.0 * theta[0]) * np.cos(2.0 * theta[1]) - np.sum(theta**2)
    return engine.tell(
        state, [Evaluation(p.id, p.theta, 0, "initial", np.nan, Status.OK, value(p.theta)) for p in proposals]
    )


def test_the_surrogates_error_counts_once_though_it_is_estimated_twice():
    parts = {"hyperparameters": 0.03, "monte_carlo": 0.04, "failures": 0.12}
    assert ErrorBudget(surrogate=0.0, check=0.0, **parts).total == pytest.approx(0.13)
    assert ErrorBudget(surrogate=0.5, check=0.2, **parts).total == pytest.approx(np.hypot(0.5, 0.13))
    assert ErrorBudget(surrogate=0.2, check=0.5, **parts).total == pytest.approx(np.hypot(0.5, 0.13))


@pytest.mark.parametrize("check", [0.2, 0.7])
def test_squares_of_the_parts_that_are_printed_add_up_to_the_total(state, check):
    result = replace(result_of(state), errors=ErrorBudget(0.5, 0.03, 0.04, check, 0.12))
    parts = summary.error_parts(result)
    assert np.sqrt(np.sum(np.square(list(parts.values())))) == pytest.approx(result.errors.total)
    assert parts.get("surrogate, by check runs") == (check if check > 0.5 else None)


def test_the_surrogates_error_is_stated_as_predictions_support_it(state):
    calm, shaken = replace(state, squared_z=(0.04,) * 30), replace(state, squared_z=(16.0,) * 30)
    now = 0.5 + conclusion._last_seen(state)
    assert conclusion._surrogate_error(calm, now) == pytest.approx(supported(Tuning(), calm.squared_z) * now)
    assert conclusion._surrogate_error(calm, now) < 0.5 * now
    assert conclusion._surrogate_error(shaken, now) == now
    settings = replace(state.settings, surrogate="outputs")
    for dim, margin in ((14, 1.5), (15, 2.0)):  # of parameters that share their length-scales over the outputs
        prior = SimpleNamespace(simulated=SimpleNamespace(dim=dim))
        of_outputs = SimpleNamespace(settings=settings, prior=prior, history=(), squared_z=calm.squared_z)
        assert conclusion._surrogate_error(of_outputs, now) == margin * now


def test_the_final_assessment_has_the_mean_that_predictions_support(state):
    calm = assess_evidence(replace(state, squared_z=(0.04,) * 30))
    usual = assess_evidence(state)
    assert calm.surrogate.deflation == pytest.approx(np.sqrt((5 + 30 * 0.04) / 35))
    assert usual.surrogate.deflation == 1.0
    assert calm.log_evidence < usual.log_evidence
    result = result_of(replace(state, squared_z=(0.04,) * 30))
    assert result.surrogate.deflation == calm.surrogate.deflation
    assert result.log_evidence == calm.log_evidence


def test_so_has_one_with_a_border(state):
    plain = state.learned.surrogate
    bounded = training.deflated(Bounded(plain, None), 0.7)
    assert bounded.inner == replace(plain, deflation=0.7)


def test_a_coarse_assessment_has_fewer_points_and_the_same_evidence_but_never_makes_a_result(state):
    coarse, fine = assess_evidence(state, coarse=True), assess_evidence(state)
    assert len(coarse.z) < 0.3 * len(fine.z)
    assert coarse.of_quadrature < state.settings.tolerance[1]
    error = np.hypot(coarse.of_quadrature, fine.of_quadrature)
    assert abs(coarse.log_evidence - fine.log_evidence) < 4.0 * error
    assert np.array_equal(coarse.posterior.z, fine.posterior.z)
    unfinished = result_of(replace(state, assessment=coarse))
    assert unfinished.log_evidence == fine.log_evidence
    assert len(unfinished.weights) == len(fine.z)


def test_a_coarse_assessment_that_is_too_rough_is_refined(state):
    strict = replace(state, settings=replace(state.settings, tolerance=(1e-4, 1e-4)))
    assert len(assess_evidence(strict, coarse=True).z) > 2**14


def test_a_failed_run_does_not_hide_the_rival_models(state):
    """They share what the failed run says: its predicted mean is taken for known."""
    rivals = training.rivals(state.runs, 1.0, 1.0, state.memory)
    assert rivals
    lost = Evaluation(99, np.array([0.5, 0.5]), 1, "peur", np.nan, Status.FAILED, np.nan)
    failed = replace(state, evaluations=(*state.evaluations, lost))
    assert len(training.rivals(failed.runs, 1.0, 1.0, state.memory)) == len(rivals)
    z = state.prior.to_working(lost.theta[None, :])
    _, variance = failed.informed(rivals[0][0]).log_likelihood(failed.informed(rivals[0][0]).at(z))
    assert variance[0] < 1e-4
    found = assess_evidence(failed)
    assert found.of_hyperparameters == pytest.approx(assess_evidence(state).of_hyperparameters, rel=0.5)


def test_rivals_have_one_order_whatever_the_hashes(state):
    code = (
        "from tbq.surrogate.data import Data\nfrom tbq.surrogate.models import Model, Start\n"
        "from tbq.surrogate.selection import Memory, rivals; from tbq.problem.tuning import Tuning\n"
        "import numpy as np\n"
        "models = [Model(k, b) for k in ('se', 'matern52') for b in ('constant', 'linear', 'quadratic')]\n"
        "warm = dict.fromkeys(models, Start(np.zeros(2), None))\n"
        "memory = Memory(model=models[0], contenders=tuple(models), warm=warm)\n"
        "x = np.linspace(-1, 1, 12)[:, None]\n"
        "data = Data(x, -x[:, 0]**2, np.full(12, 1e-6), 1.0, None, Tuning())\n"
        "found = rivals(data, memory)\n"
        "print([s.description for s, _ in found])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": s},
        ).stdout
        for s in ("1", "2", "3")
    }
    assert len(said) == 1
