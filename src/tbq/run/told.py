"""What a user tells of a run, looked at before it is recorded for good."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from tbq.common.arguments import floats, real
from tbq.common.errors import ArgumentError
from tbq.common.types import Array, ArrayLike
from tbq.problem.evaluation import Evaluation, Proposal, Status


def point_out(method: str, proposal_id: int, pending: Iterable[Proposal], told: Iterable[Evaluation]) -> Proposal:
    """The point of that id, which must be out."""
    out = {p.id: p for p in pending}
    if proposal_id in out:
        return out[proposal_id]
    if any(e.id == proposal_id for e in told):
        raise ArgumentError(f"Session.{method}: {proposal_id!r} was told already")
    raise ArgumentError(f"Session.{method}: {proposal_id!r} is not the id of a point that is out; these are {[*out]}")


def check_failures(ids: Iterable[int], told: Iterable[Evaluation]) -> None:
    """Refuse ids that are not those of failures of this run."""
    failed = {e.id for e in told if e.status.is_failure and e.origin != "earlier"}
    for i in ids:
        if i not in failed:
            raise ArgumentError(f"Session.forget: {i!r} is not the id of a failure; these are {sorted(failed)}")


def checked(
    log_likelihood: Any, log_likelihood_sd: float | None, outputs: ArrayLike | None, seconds: float
) -> tuple[Any, float, Array | None]:
    """Log-likelihood with its noise where that is told, seconds and outputs; refused where they are none."""
    array = None if outputs is None else _outputs_of(outputs)
    if not 0.0 <= real(seconds) < np.inf:
        raise ArgumentError(f"Session.tell: seconds must be a finite number that is not negative; got {seconds!r}")
    if log_likelihood_sd is None:
        return log_likelihood, seconds, array
    if not 0.0 <= real(log_likelihood_sd) < np.inf:
        raise ArgumentError(
            f"Session.tell: log_likelihood_sd must be a standard deviation in nats; got {log_likelihood_sd!r}"
        )
    return (log_likelihood, log_likelihood_sd), seconds, array


def _outputs_of(outputs: ArrayLike) -> Array:
    try:
        array = floats(outputs)
    except Exception:
        raise ArgumentError(f"Session.tell: outputs must be numbers; got {outputs!r}") from None
    if array.ndim != 1:
        raise ArgumentError(f"Session.tell: outputs must be a 1-D array; got shape {array.shape}")
    return array


def learnable(evaluation: Evaluation, m: int) -> Evaluation:
    """The evaluation if its outputs can be learned; refused, before it is recorded for good, if not."""
    expected = f"Session.tell: outputs must be the {m} that the likelihood has data of"
    if evaluation.outputs is None:
        if evaluation.status is Status.OK:
            raise ArgumentError(f"{expected}, where log_likelihood is a number; got none")
        return evaluation
    if len(evaluation.outputs) != m:
        raise ArgumentError(f"{expected}; got {len(evaluation.outputs)}")
    finite = np.isfinite(evaluation.outputs)
    if evaluation.status is Status.OK and not finite.all():
        raise ArgumentError(f"{expected}, all finite where log_likelihood is a number; got {evaluation.outputs}")
    return replace(evaluation, outputs=np.where(finite, evaluation.outputs, np.nan))
