"""Evaluations and priors as plain records of words and numbers, which journals and result files hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, get_args

import numpy as np

from tbq.problem.evaluation import Evaluation, Level, Proposal, Status
from tbq.problem.families import parameters
from tbq.problem.prior import Prior

Plain = Mapping[str, Any]  # of words, numbers, and lists and mappings of them

_PRIOR_POINTS = 16  # where a prior's density is compared
_DIGITS = 1e-9  # to which a prior's density is the same on every machine
_COMPUTED_DIGITS = 1e-6  # the same of one that linear algebra has computed


def evaluation_record(evaluation: Evaluation) -> Plain:
    return {**proposal_record(evaluation), **outcome_record(evaluation)}


def evaluation_of(record: Plain) -> Evaluation:
    return run_of(record, proposal_of(record))


def run_of(run: Plain, proposal: Proposal) -> Evaluation:
    """The evaluation of ``proposal`` that a record of a run holds."""
    outputs = run.get("outputs")
    return Evaluation(
        proposal.id,
        proposal.theta,
        proposal.stage,
        proposal.origin,
        proposal.acquisition,
        status=Status(run["status"]),
        log_likelihood=float(run["log_likelihood"]),
        message=str(run["message"]),
        seconds=float(run["seconds"]),
        outputs=None if outputs is None else np.array(outputs, dtype=float),
        level=proposal.level,
        log_likelihood_sd=float(run["log_likelihood_sd"]) if "log_likelihood_sd" in run else None,
    )


def proposal_record(p: Proposal | Evaluation) -> Plain:
    """A fine run has no level: so it was before there were any."""
    record: dict[str, Any] = {
        "id": p.id,
        "theta": numbers(p.theta),
        "stage": p.stage,
        "origin": p.origin,
        "acquisition": number(p.acquisition),
    }
    return record if p.level == "fine" else {**record, "level": p.level}


def proposal_of(record: Plain) -> Proposal:
    theta = np.array(record["theta"], dtype=float)
    level = record.get("level", "fine")
    if level not in get_args(Level):
        raise ValueError(f"a run of level {level!r}")
    return Proposal(record["id"], theta, record["stage"], record["origin"], float(record["acquisition"]), level)


def outcome_record(e: Evaluation) -> Plain:
    """Without what the run did not tell, so that records stay what they were before it could."""
    record: dict[str, Any] = {
        "id": e.id,
        "status": str(e.status),
        "log_likelihood": number(e.log_likelihood),
        "message": e.message,
        "seconds": number(e.seconds),
    }
    if e.log_likelihood_sd is not None:
        record["log_likelihood_sd"] = e.log_likelihood_sd
    return record if e.outputs is None else {**record, "outputs": numbers(e.outputs)}


def prior_record(prior: Prior) -> Plain:
    """Enough of a prior to recognise it."""
    theta = prior.sample(_PRIOR_POINTS, seed=0)
    return {
        "names": list(prior.names),
        "description": repr(prior),
        "exactly": _exactly(prior),
        "theta": [numbers(row) for row in theta],
        "log_density": numbers(prior.log_density(theta)),
    }


def same_prior(description: Plain, prior: Prior) -> bool:
    """Whether this is the prior of a record: by all that can be written down of it, and by its density."""
    exactly = _exactly(prior)
    if description["names"] != list(prior.names) or description.get("exactly", exactly) != exactly:
        return False
    try:
        wanted = np.array([float(v) for v in description["log_density"]])
        density = prior.log_density(np.array(description["theta"], dtype=float))
    except (KeyError, TypeError, ValueError):  # a record that no prior has written
        return False
    digits = _COMPUTED_DIGITS if prior.is_computed else _DIGITS
    return bool(np.allclose(density, wanted, rtol=digits, atol=digits))


def _exactly(prior: Prior) -> Plain:
    """Every digit of a prior that is a number; constraints, and what else is a function, its density has to tell."""
    return {
        "marginals": [
            [m.dist.name, [[k, number(v)] for k, v in sorted(parameters(m).items())]] for m in prior.marginals.values()
        ],
        "correlation": None if prior.correlation is None else prior.correlation.tolist(),
        "constrained": prior.constraint is not None,
    }


def number(x: float) -> float | str:
    """JSON writes every digit of a float, but has no infinities and no nan: they are written as words."""
    return float(x) if math.isfinite(x) else str(float(x))


def numbers(values: Iterable[float]) -> list[float | str]:
    return [number(v) for v in values]
