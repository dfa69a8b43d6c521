"""Run the user's log-likelihood on proposals. Whatever happens there becomes an evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, wait
from typing import Any

import numpy as np

from tbq.evaluation import Evaluation, Proposal, Status, failure, judge
from tbq.likelihood import GaussianLikelihood
from tbq.types import Array

LogLikelihood = Callable[[Array], Any]


def evaluate(
    log_likelihood: LogLikelihood,
    proposals: Sequence[Proposal],
    executor: Executor | None = None,
    vectorized: bool = False,
) -> list[Evaluation]:
    """Evaluate all proposals and return when all are done, in their order."""
    if vectorized:
        return _evaluate_together(log_likelihood, proposals)
    if executor is None:
        return [_judge(p, *_call(log_likelihood, p.theta.copy())) for p in proposals]
    futures = [executor.submit(_call, log_likelihood, p.theta.copy()) for p in proposals]
    wait(futures)
    evaluations = []
    for proposal, future in zip(proposals, futures, strict=True):
        error = future.exception()
        if error is None:
            evaluations.append(_judge(proposal, *future.result()))
        else:  # the call itself catches what the likelihood raises: this is the worker or the pickling
            evaluations.append(failure(proposal, f"{type(error).__name__}: {error}", status=Status.LOST))
    return evaluations


def _call(log_likelihood: LogLikelihood, theta: Array) -> tuple[Any, Array | None, str | None, float]:
    """Value, outputs (where the likelihood tells), error message and seconds of one call; runs in the worker."""
    start = time.perf_counter()
    value, outputs, error = None, None, None
    try:
        if isinstance(log_likelihood, GaussianLikelihood):
            value, outputs = log_likelihood.evaluate(theta)
        else:
            value = log_likelihood(theta)
    except Exception as exception:
        error = f"{type(exception).__name__}: {exception}"
    return value, outputs, error, time.perf_counter() - start


def _judge(proposal: Proposal, value: Any, outputs: Array | None, error: str | None, seconds: float) -> Evaluation:
    return judge(proposal, value, seconds, outputs) if error is None else failure(proposal, error, seconds)


def _evaluate_together(log_likelihood: LogLikelihood, proposals: Sequence[Proposal]) -> list[Evaluation]:
    value, outputs, error, seconds = _call(log_likelihood, np.array([p.theta for p in proposals]))
    share = seconds / len(proposals)
    if error is None and np.shape(value) != (len(proposals),):
        error = f"the vectorized log-likelihood returned shape {np.shape(value)}, not ({len(proposals)},)"
    if error is not None:
        return [failure(p, error, share) for p in proposals]
    rows = [None] * len(proposals) if outputs is None else outputs
    return [judge(p, v, share, row) for p, v, row in zip(proposals, value, rows, strict=True)]
