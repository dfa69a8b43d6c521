"""A run of the simulator: what was asked, and what came of it. Failure is an outcome, not an exception."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from tbq.common.arguments import floats, real
from tbq.common.types import Array
from tbq.common.words import printable

_HOPELESS = 200.0  # nats below the best run from which on the same value again is a penalty, not a likelihood
_ABSURD = 1e100  # beyond this a number is no log-likelihood, and its square is not even a number


Level = Literal["fine", "coarse"]  # of the model that a run is made of


class Status(StrEnum):
    """How an evaluation ended."""

    OK = "ok"
    INFEASIBLE = "infeasible"  # the log-likelihood is −inf: the likelihood is zero
    FAILED = "failed"  # exception, nan, +inf, or not a number at all
    TIMEOUT = "timeout"  # it took longer than was allowed, and was ended
    LOST = "lost"  # the worker died

    @property
    def is_failure(self) -> bool:
        """Whether the run says nothing of the likelihood."""
        return self not in (Status.OK, Status.INFEASIBLE)


@dataclass(frozen=True)
class Proposal:
    """A point to run. ``origin`` is 'initial' or the acquisition function that chose it."""

    id: int
    theta: Array  # (d,)
    stage: int
    origin: str
    acquisition: float  # log-value of the acquisition function; nan for the initial design
    level: Level = "fine"


@dataclass(frozen=True)
class Evaluation:
    """A proposal and its outcome.

    ``log_likelihood`` is a number for 'ok', −inf (or a penalty that stands for it) for 'infeasible', else nan.

    ``outputs`` is what the simulator returned, where the log-likelihood tells; nan where it is missing.
    ``log_likelihood_sd`` is the standard deviation in nats of the log-likelihood's noise, where the run told it.
    """

    id: int
    theta: Array  # (d,)
    stage: int
    origin: str
    acquisition: float
    status: Status
    log_likelihood: float
    message: str = ""
    seconds: float = 0.0
    outputs: Array | None = None  # (m,)
    level: Level = "fine"
    log_likelihood_sd: float | None = None

    def __repr__(self) -> str:
        where = ", ".join(f"{value:.4g}" for value in self.theta)
        found = (
            self.message.partition("\n")[0] if self.status.is_failure else f"log-likelihood {self.log_likelihood:.6g}"
        )
        more = "" if self.outputs is None else f", {len(self.outputs)} outputs"
        level = "" if self.level == "fine" else f", {self.level}"
        return f"<Evaluation {self.id}{level}: {self.status} at ({where}); {found}{more}>"

    @property
    def proposal(self) -> Proposal:
        """What was asked."""
        return Proposal(self.id, self.theta, self.stage, self.origin, self.acquisition, self.level)


def judge(proposal: Proposal, value: Any, seconds: float = 0.0, outputs: Array | None = None) -> Evaluation:
    """Turn whatever a log-likelihood returned into an evaluation: a number, or a tuple of it and its noise's sd."""
    sd = None
    if isinstance(value, tuple) and len(value) == 2:  # no other sequence: two numbers may be a mistake
        value, sd = value[0], real(value[1])
        if not 0.0 <= sd < _ABSURD:
            return failure(proposal, "the log-likelihood's standard deviation is not a number from 0 on", seconds)
    status, number, message = _classify(value)
    missing = 0 if outputs is None else int(np.isnan(outputs).sum())
    if outputs is not None and missing:
        message = f"{missing} of {outputs.size} outputs are missing"
    sd = sd if status is Status.OK else None
    return replace(_evaluation(proposal, status, number, message, seconds), outputs=outputs, log_likelihood_sd=sd)


def noise_sd(evaluation: Evaluation, otherwise: float) -> float:
    """Of its log-likelihood, in nats: as the run told, or as is known of all that do not."""
    return otherwise if evaluation.log_likelihood_sd is None else evaluation.log_likelihood_sd


def failure(proposal: Proposal, message: str, seconds: float = 0.0, status: Status = Status.FAILED) -> Evaluation:
    """The evaluation of a run that returned nothing."""
    return _evaluation(proposal, status, np.nan, printable(message), seconds)


def _classify(value: Any) -> tuple[Status, float, str]:
    try:
        array = floats(value)
    except OverflowError:
        return Status.FAILED, np.nan, "the log-likelihood returned a number that is too large for a float"
    except Exception:  # of an object whose own conversion fails
        return Status.FAILED, np.nan, f"the log-likelihood returned {type(value).__name__}, not a number"
    if array.size != 1:
        return Status.FAILED, np.nan, f"the log-likelihood returned shape {array.shape}, not one number"
    number = float(array.reshape(()))
    if number < -_ABSURD:
        return Status.INFEASIBLE, number, "" if number == -np.inf else "taken for a zero likelihood"
    if not number < _ABSURD:
        return Status.FAILED, np.nan, f"the log-likelihood returned {number}"
    return Status.OK, number, ""


def _evaluation(p: Proposal, status: Status, number: float, message: str, seconds: float) -> Evaluation:
    asked = (p.id, p.theta, p.stage, p.origin, p.acquisition)
    return Evaluation(*asked, status, number, message, seconds, level=p.level)


def without_penalties(runs: Iterable[Evaluation]) -> tuple[Evaluation, ...]:
    """The runs, with zero likelihood where one and the same value far below the best stands for "impossible".

    A surrogate that had to follow the cliff to such a value would learn little else. What is simulated does not repeat
    a number; runs with outputs are learned by those.
    """
    runs = tuple(runs)
    told = {(e.log_likelihood, e.theta.tobytes()) for e in runs if not e.status.is_failure and e.outputs is None}
    found = Counter(value for value, _ in told)  # of different points
    penalties = {value for value, times in found.items() if times > 1 and value < max(found) - _HOPELESS}
    return tuple(_impossible(e) if e.status is Status.OK and e.log_likelihood in penalties else e for e in runs)


def _impossible(run: Evaluation) -> Evaluation:
    return replace(run, status=Status.INFEASIBLE, message="taken for a zero likelihood: the same low value again")
