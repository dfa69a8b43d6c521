"""All that a run is, between two calls: frozen, so that a step returns a new one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tbq.acquisition import check_runs
from tbq.common.randomness import stream
from tbq.common.types import Array
from tbq.engine import training
from tbq.engine.records import Record, Stage, Stop
from tbq.evidence.estimate import Assessment
from tbq.evidence.population import Population
from tbq.evidence.target import Target
from tbq.problem.evaluation import Evaluation, Proposal
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.problem.settings import Settings
from tbq.surrogate import feasibility
from tbq.surrogate.protocol import Surrogate


@dataclass(frozen=True)
class Learned:
    """What the finished runs say of the current stage."""

    stage: int
    surrogate: Surrogate[Any]
    target: Target
    candidates: Array  # (m, d) points to rank, in working coordinates
    weights: Array  # (n,) of the population, at γ
    log_evidence: float  # of the tempered posterior
    cov: float
    bound: float

    @property
    def gamma(self) -> float:
        return self.target.gamma


@dataclass(frozen=True)
class State:
    """All that a run is, between two calls."""

    prior: Prior
    settings: Settings
    seed: int
    population: Population
    likelihood: GaussianLikelihood | None = None  # the data, where outputs can be learned
    past: tuple[Population, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    pending: tuple[Proposal, ...] = ()
    next_id: int = 0
    memory: training.Memory = field(default_factory=training.Memory)
    border: feasibility.Region | None = None  # of zero likelihood, once a run found it
    reach: feasibility.Region | None = None  # where runs do not fail, once one did
    learned: Learned | None = None
    satisfied: int = 0
    assessment: Assessment | None = None  # of the last surrogate, where the stage was satisfied with it
    check: check_runs.Check | None = None  # under way: the runs that decide whether to believe the surrogate
    check_error: float = 0.0  # of the log-evidence, as the last check found it
    squared_z: tuple[float, ...] = ()  # squared z-scores of relevant runs, predicted before they were made
    stages: tuple[Stage, ...] = ()
    history: tuple[Record, ...] = ()
    stop: Stop | None = None

    @property
    def runs(self) -> training.Runs:
        """What there is to learn from."""
        return training.Runs(self.evaluations, self.prior, self.settings, self.likelihood)

    def informed(self, surrogate: Surrogate[Any]) -> Surrogate[Any]:
        """A surrogate of the successful runs with what the others tell.

        Nothing more is to be had where a run failed: the predicted mean is taken for known there. Beyond the border of
        zero likelihood there is none.
        """
        for e in self.evaluations:
            if e.status.is_failure:
                surrogate = surrogate.condition_on_mean(self.prior.to_working(e.theta[None, :])[0])
        return surrogate if self.border is None else feasibility.Bounded(surrogate, self.border)

    @property
    def regions(self) -> list[feasibility.Region]:
        """Outside of which runs find zero likelihood or fail."""
        return [region for region in (self.border, self.reach) if region is not None]


def init(prior: Prior, settings: Settings, seed: int, likelihood: GaussianLikelihood | None = None) -> State:
    """A run that has seen nothing yet."""
    theta = prior.sample(settings.population, stream(seed, "population"), settings.tuning.design)
    population = Population(prior.to_working(theta), np.zeros(settings.population))
    return State(prior, settings, seed, population, likelihood)
