"""What simulators return, raise and print, and what is made of it: an evaluation, never the end of a session."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.run import journal

PRIOR = tbq.Prior({"a": stats.uniform(0, 1)})
OPTIONS = {"seed": 0, "n_initial": 1, "max_evaluations": 1, "population": 80, "progress": False}


class Moody:
    """What some libraries return for a number."""

    def __float__(self):
        raise RuntimeError("not in the mood")


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Unreadable:
    """A number here, and nothing that another process could read."""

    def __float__(self):
        return -1.5

    def __reduce__(self):
        return int, ("no number",)


def moody(theta):
    return Moody()


def mute(theta):
    raise MuteError


def huge(theta):
    return 10**400


def unreadable(theta):
    return Unreadable()


EXECUTORS = {
    "here": {},
    "threads": {"executor": lambda: ThreadPoolExecutor(2)},
    "processes": {"executor": lambda: ProcessPoolExecutor(2)},
    "apart": {"timeout": 60.0},
}


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("log_likelihood", "message"),
    [
        (moody, "the log-likelihood returned Moody, not a number"),
        (mute, "MuteError, whose message cannot be had: __str__ raised RuntimeError"),
        (huge, "the log-likelihood returned a number that is too large for a float"),
    ],
)
def test_whatever_cannot_be_a_number_is_a_failed_run(log_likelihood, message, executor):
    result = tbq.infer(log_likelihood, PRIOR, **OPTIONS, **EXECUTORS[executor])
    assert [(e.status, e.message) for e in result.evaluations] == [("failed", message)]


@pytest.mark.parametrize("executor", ["processes", "apart"])
def test_what_only_its_own_process_can_read_is_made_a_number_there_or_told(executor):
    result = tbq.infer(unreadable, PRIOR, **OPTIONS, **EXECUTORS[executor])
    if executor == "processes":
        assert [e.log_likelihood for e in result.evaluations] == [-1.5]
    else:
        assert {e.status for e in result.evaluations} == {"failed"}
        assert "cannot be read: ValueError: invalid literal" in result.evaluations[0].message


@pytest.mark.parametrize("value", [10**400, Moody(), np.ma.masked, np.array([1 + 2j])])
def test_a_session_is_told_anything(tmp_path, value):
    with tbq.Session(PRIOR, seed=0, journal=tmp_path) as session:
        (p,) = session.ask()
        assert session.tell(p.id, log_likelihood=value).status == "failed"
    (told,) = journal.read(tmp_path).evaluations
    assert told.message


@pytest.mark.parametrize("values", [[[1.0], [2.0, 3.0]], [Moody()], Moody()])
def test_what_a_vectorised_likelihood_may_return(values):
    result = tbq.infer(lambda theta: values, PRIOR, vectorized=True, **OPTIONS)
    assert [e.status for e in result.evaluations] == ["failed"]
    assert all("returned" in e.message for e in result.evaluations)


# --- what is masked is missing ------------------------------------------------------------------------------


MASKED = np.ma.array([1.0, 99.0, 3.0], mask=[False, True, False])


@pytest.mark.parametrize("value", [np.ma.masked, np.ma.array([-1.0], mask=[True]), np.ma.array(-1.0, mask=True)])
def test_a_masked_log_likelihood_is_none(value):
    result = tbq.infer(lambda theta: value, PRIOR, **OPTIONS)
    assert [(e.status, e.message) for e in result.evaluations] == [("failed", "the log-likelihood returned nan")]


@pytest.mark.parametrize(
    "outputs", [MASKED, [MASKED[0], np.ma.array(99.0, mask=True), 3.0], np.ma.array([1, 99, 3], mask=[0, 1, 0])]
)
def test_masked_outputs_are_missing(outputs):
    likelihood = tbq.GaussianLikelihood(lambda theta: outputs, [1.0, 2.0, 3.0], 0.1)
    value, kept = likelihood.evaluate([0.5])
    assert np.isnan(value)
    np.testing.assert_array_equal(kept, [1.0, np.nan, 3.0])
    result = tbq.infer(likelihood, PRIOR, **OPTIONS)
    assert [e.message for e in result.evaluations] == ["1 of 3 outputs are missing"]


def test_masked_outputs_that_are_told_are_missing():
    session = tbq.Session(PRIOR, seed=0)
    (p,) = session.ask()
    told = session.tell(p.id, log_likelihood=np.nan, outputs=MASKED)
    np.testing.assert_array_equal(told.outputs, [1.0, np.nan, 3.0])


def test_masked_data_are_gaps_and_not_taken_for_what_is_under_the_mask():
    likelihood = tbq.GaussianLikelihood(lambda theta: theta, MASKED, 0.1)
    np.testing.assert_array_equal(np.isnan(likelihood.observed), np.ma.getmaskarray(MASKED))


def test_masked_predictions_are_left_out():
    result = tbq.infer(lambda theta: -theta[0], PRIOR, **{**OPTIONS, "max_evaluations": 12})
    masked = lambda theta: np.ma.array([theta[0]], mask=[theta[0] > 0.5])
    prediction = result.predict(masked, 20, seed=0)
    assert 0 < len(prediction.outputs) < 20
    assert prediction.outputs.max() <= 0.5
    with pytest.raises(tbq.TbqError, match="must return one finite number"):
        tbq.integrate(lambda theta: np.ma.masked, PRIOR, seed=0)


# --- what a simulator does to our output --------------------------------------------------------------------


def closes(theta):
    print("last words")
    sys.stdout.close()
    return -theta[0]


def removes(theta):
    sys.stdout = sys.stderr = None
    return -theta[0]


def cuts(theta):
    os.close(1)
    return -theta[0]


@pytest.mark.parametrize("log_likelihood", [closes, removes, cuts])
def test_a_simulator_that_closes_stdout_loses_nothing(log_likelihood):
    result = tbq.infer(log_likelihood, PRIOR, timeout=60.0, **OPTIONS)
    assert [(e.status, e.log_likelihood) for e in result.evaluations] == [
        ("ok", -e.theta[0]) for e in result.evaluations
    ]


CLEAR = "\x1b[2J\x1b]0;owned\x07"
SHOWN = r"\x1b[2J\x1b]0;owned\x07"


def test_escape_sequences_are_shown_not_obeyed():
    def paints(theta):
        raise ValueError(f"mesh {CLEAR}\ttangled\nthere\r\u2028\u202e")

    result = tbq.infer(paints, PRIOR, **OPTIONS)
    message = f"ValueError: mesh {SHOWN}\ttangled\nthere" + r"\r\u2028\u202e"
    assert [e.message for e in result.evaluations] == [message]
    assert "\x1b" not in result.summary()
