"""Each run against what all others say of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tbq.common.types import Array, BoolArray
from tbq.problem.evaluation import Status
from tbq.result.result import Result

_RELEVANT_DEPTH = 10.0  # nats below the best run within which a run says something about the posterior
_FLOOR = 0.02  # nats added to the standard deviation of a prediction


@dataclass(frozen=True)
class LeftOut:
    """Log-likelihoods of the successful runs and what all the others say of each."""

    found: Array  # (n,)
    expected: Array  # (n,)
    sd: Array  # (n,)

    @property
    def relevant(self) -> BoolArray:
        """Runs that were, or were expected to be, near enough to the best one to matter."""
        return np.maximum(self.found, self.expected) >= self.found.max() - _RELEVANT_DEPTH

    @property
    def scores(self) -> Array:
        """By how many standard deviations each run was off."""
        return (self.found - self.expected) / np.hypot(self.sd, _FLOOR)


def left_out(result: Result) -> LeftOut | None:
    """Each successful run against its prediction from all others; None where the surrogate does not offer it."""
    predict = getattr(result.surrogate, "left_out", None)
    runs = [e for e in result.evaluations if e.status is Status.OK]
    if predict is None or not runs:
        return None
    # The surrogate may know more: outputs of runs without a likelihood, and itself where runs failed.
    predicted = predict(result.prior.simulated.to_working(np.array([e.theta for e in runs])))
    if predicted is None:
        return None
    mean, variance = predicted
    learned = np.isfinite(mean)
    return LeftOut(np.array([e.log_likelihood for e in runs])[learned], mean[learned], np.sqrt(variance[learned]))
