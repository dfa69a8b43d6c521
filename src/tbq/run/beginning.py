"""How a run begins: what is looked at before anything is run, and the first state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tbq import engine
from tbq.common.threads import single_threaded
from tbq.problem.evaluation import Evaluation
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.problem.settings import Settings

_SCALES = 256  # points of the prior at which an unknown noise must have a scale


def noise_of(prior: Prior, settings: Settings, likelihood: Any) -> Prior | None:
    """The prior of the noise, where it has parameters of its own; a scale that is no number is refused."""
    if not isinstance(likelihood, GaussianLikelihood):
        return None
    if settings.surrogate == "outputs" and likelihood.scaled:
        likelihood.check_scales(prior.sample(_SCALES, 0, "sobol"))
    return likelihood.noise_prior


def start(
    prior: Prior, settings: Settings, seed: int, known: Sequence[Evaluation], likelihood: Any = None
) -> engine.State:
    """A run that has seen nothing but ``known``, which stands in for the initial design and costs no budget."""
    settings = settings.with_budget(sum(e.level == "fine" for e in known))
    with single_threaded():
        data = likelihood if isinstance(likelihood, GaussianLikelihood) else None
        state = replace(engine.init(prior, settings, seed, data), next_id=len(known))
        return engine.tell(state, known) if known else state
