"""Runs of an earlier study, fit to start another with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from tbq.common.errors import ArgumentError
from tbq.problem.evaluation import Evaluation, Level, Status, judge
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.result.result import Result
from tbq.run import journal

Source = str | Path | Result | Sequence[Evaluation]
WarmStart = Source | Mapping[Level, Source]  # by level: {"coarse": ...} for runs of the coarse model alone


def earlier(source: WarmStart, prior: Prior, likelihood: Any = None, retry_failed: bool = False) -> list[Evaluation]:
    """Evaluations of another run, fit to start one with ``prior``: renumbered, and judged by ``likelihood``.

    A likelihood that knows its outputs (``from_outputs``) judges the stored outputs anew, so that its data may be
    others. Left out, with a warning that says so, are points outside the prior and runs it cannot judge; with
    ``retry_failed`` also those that failed.
    """
    prior = prior.simulated
    if isinstance(source, Mapping):
        parts = [_of_level(s, prior, likelihood, retry_failed, level) for level, s in source.items()]
        return _numbered([e for part in parts for e in part])
    known = _fit_ones(source, prior, likelihood, retry_failed)
    coarse = isinstance(likelihood, GaussianLikelihood) and likelihood.has_coarse
    return _numbered([e for e in known if coarse or e.level == "fine"])


def _numbered(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    return [
        replace(e, id=i, stage=0, origin="earlier", acquisition=np.nan, theta=np.array(e.theta, dtype=float))
        for i, e in enumerate(evaluations)
    ]


def _of_level(source: Source, prior: Prior, likelihood: Any, retry_failed: bool, level: Any) -> list[Evaluation]:
    """Fine runs of a source, as those of a level: what was a study of the coarse model alone is one."""
    if level not in get_args(Level):
        raise ArgumentError(f"warm_start: levels are 'fine' and 'coarse'; got {level!r}")
    if level == "coarse" and not (isinstance(likelihood, GaussianLikelihood) and likelihood.has_coarse):
        raise ArgumentError("warm_start: 'coarse' needs a likelihood that has a coarse model")
    known = _fit_ones(source, prior, likelihood, retry_failed)
    return [replace(e, level=level) for e in known if e.level == "fine"]


def _fit_ones(source: Source, prior: Prior, likelihood: Any, retry_failed: bool) -> list[Evaluation]:
    """Evaluations that lie within the prior, judged anew by the likelihood."""
    names, evaluations = _evaluations_of(source)
    if names is not None and names != prior.names:
        raise ArgumentError(f"warm_start: its parameters are {', '.join(names)}; the prior's {', '.join(prior.names)}")
    evaluations = [e for e in evaluations if e.status is not Status.LOST]  # they say nothing of the point
    if retry_failed:
        evaluations = [e for e in evaluations if not e.status.is_failure]
    for e in evaluations:
        if e.theta.shape != (prior.dim,):
            raise ArgumentError(f"warm_start: theta must have shape ({prior.dim},); got {e.theta.shape}")
    within = prior.contains(np.array([e.theta for e in evaluations]).reshape(-1, prior.dim))
    inside = [e for e, ok in zip(evaluations, within, strict=True) if ok]
    _say_left_out(len(evaluations) - len(inside), len(evaluations), "lie outside the prior")
    from_outputs = getattr(likelihood, "from_outputs", None)
    if from_outputs is not None:
        judged = [_judged_anew(e, from_outputs) for e in inside if e.outputs is not None or e.status is not Status.OK]
        _say_left_out(len(inside) - len(judged), len(inside), "have no outputs that the likelihood could judge")
        inside = judged
    return inside


def _evaluations_of(source: Source) -> tuple[tuple[str, ...] | None, list[Evaluation]]:
    if isinstance(source, str | Path):
        contents = journal.read(source)
        return tuple(contents.header["prior"]["names"]), sorted(contents.evaluations, key=lambda e: e.id)
    if isinstance(source, Result):
        return source.prior.simulated.names, [*source.evaluations, *source.coarse]
    evaluations: list[Any] = list(source) if isinstance(source, Sequence) else [source]
    for e in evaluations:
        if not isinstance(e, Evaluation):
            raise ArgumentError(
                f"warm_start must be the folder of a journal, a tbq.Result or evaluations; got {type(e).__name__}"
            )
    return None, evaluations


def _judged_anew(e: Evaluation, from_outputs: Callable[[Any, Any], Any]) -> Evaluation:
    if e.outputs is None:
        return e
    return judge(e.proposal, from_outputs(e.theta, e.outputs), e.seconds, e.outputs)


def _say_left_out(count: int, total: int, why: str) -> None:
    if count:
        warnings.warn(f"warm_start: {count} of {total} evaluations {why} and are left out", stacklevel=2)
