"""All that a run is, between two calls: frozen, so that a step returns a new one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tbq.acquisition import check_runs
from tbq.common.randomness import stream
from tbq.common.types import Array
from tbq.engine import training
from tbq.engine.records import Record, Stage, Stop, Waypoint
from tbq.evidence.estimate import Assessment
from tbq.evidence.population import Population
from tbq.evidence.target import Target
from tbq.problem.evaluation import Evaluation, Proposal, Status
from tbq.problem.joint_prior import joint
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.problem.settings import Settings
from tbq.surrogate import feasibility, inflation
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.protocol import Surrogate


@dataclass(frozen=True)
class Learned:
    """What the finished runs say of the current stage."""

    stage: int
    surrogate: Surrogate[Any]
    target: Target
    candidates: Array  # (m, d) points of the population to rank, in working coordinates
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

    prior: Prior  # of all parameters; runs, and the search for them, are of ``prior.simulated``
    settings: Settings
    seed: int
    population: Population
    likelihood: GaussianLikelihood | None = None  # the data, where outputs can be learned
    past: tuple[Population, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()  # of the fine model, where there is a coarse one
    coarse: tuple[Evaluation, ...] = ()
    plan: Array = field(default_factory=lambda: np.empty((0, 0)))  # (n, d) coarse runs that were decided on
    pending: tuple[Proposal, ...] = ()
    next_id: int = 0
    memory: training.Memory = field(default_factory=training.Memory)
    border: feasibility.Region | None = None  # of zero likelihood, once a run found it
    reach: feasibility.Region | None = None  # where runs do not fail, once one did
    learned: Learned | None = None
    anew_at: int = 0  # runs when outputs were last learned, or a far posterior climbed to, as if nothing were known
    anew_with: int = 0  # the same, coarse runs counted
    satisfied: int = 0
    assessment: Assessment | None = None  # of the last surrogate, where the stage was satisfied with it
    check: check_runs.Check | None = None  # under way: the runs that decide whether to believe the surrogate
    check_error: float = 0.0  # of the log-evidence, as the last check found it
    checked_at: int = 0  # runs when it was passed; 0 where it was not
    squared_z: tuple[float, ...] = ()  # squared z-scores of relevant runs, predicted before they were made
    doubt: Array | None = None  # (d,): where much evidence may have been overlooked, to be run next
    doubts: int = 0  # such runs since one of them changed anything
    ascent: Any = None  # engine.ascent.Ascent under way, from a run that found far more than expected
    climbed: tuple[int, ...] = ()  # ids of runs that need no such climb any more
    ascents: int = 0  # that were begun
    stages: tuple[Stage, ...] = ()
    history: tuple[Record, ...] = ()
    stop: Stop | None = None

    @property
    def runs(self) -> training.Runs:
        """What there is to learn from."""
        return training.Runs(
            self.evaluations, self.prior, self.settings, self.likelihood, self.coarse, found=self.found
        )

    @property
    def inflation(self) -> float:
        """By how much standard deviations are multiplied, by what predictions were off by lately."""
        lately = max(len(self.evaluations) // self.settings.tuning.inflation_lately, 1)
        return inflation.inflation(self.settings.tuning, self.squared_z[-lately:], self.least_inflation)

    @property
    def least_inflation(self) -> float:
        """What standard deviations are multiplied by at least: less where many predictions were tested on the way."""
        tuning = self.settings.tuning
        return tuning.far_inflation if self.far else tuning.inflation_start

    @property
    def found(self) -> bool:
        """Whether it is known where the posterior is: once the evidence was known to its order of magnitude.

        With a best run that was nearly as good as it is now: what was found before that was a plateau on the way.
        """
        tuning = self.settings.tuning
        best = np.maximum.accumulate([e.log_likelihood if e.status is Status.OK else -np.inf for e in self.evaluations])
        since = int(np.argmax(best >= best[-1] - tuning.guard_depth)) if len(best) else 0
        return any(r.gamma == 1.0 and r.cov < tuning.lost and r.n_evaluations > since for r in self.history)

    @property
    def far(self) -> bool:
        """Whether the posterior is far from most of the prior, so that it has to be climbed to."""
        return self.settings.surrogate == "log_likelihood" and training.is_far(self.runs)

    @property
    def noise(self) -> float:
        """Standard deviation in nats of the noise of a further run's log-likelihood."""
        return training.further_noise(self.runs, self.memory)

    @property
    def coarse_out(self) -> tuple[Proposal, ...]:
        """Coarse runs that have not returned."""
        return tuple(p for p in self.pending if p.level == "coarse")

    @property
    def out(self) -> tuple[Proposal, ...]:
        """Fine runs that have not returned."""
        return tuple(p for p in self.pending if p.level == "fine")

    @property
    def asked(self) -> int:
        """Fine runs that were asked for."""
        return len(self.evaluations) + len(self.out)

    def informed(self, surrogate: Surrogate[Any]) -> Surrogate[Any]:
        """A surrogate of the successful runs with what the others tell.

        Nothing more is to be had where a run failed: the predicted mean is taken for known there. Beyond the border of
        zero likelihood there is none.
        """
        for e in self.evaluations:
            if e.status.is_failure:
                surrogate = surrogate.condition_on_mean(self.prior.simulated.to_working(e.theta[None, :])[0])
        if self.border is None:
            return surrogate
        if isinstance(surrogate, LogNormal):
            surrogate = self._low_beyond_border(surrogate)
        tuning = self.settings.tuning
        return feasibility.Bounded(surrogate, self.border, tuning.border_inflation if tuning.inflate else 1.0)

    def _low_beyond_border(self, surrogate: LogNormal) -> LogNormal:
        """Not much more expected than the best run returned where a run found no likelihood.

        A process does not learn a zero: a slim chance of a huge likelihood would be looked for again and again.
        """
        best = max(e.log_likelihood for e in self.evaluations if e.status is Status.OK)
        zero = self.prior.to_working(np.array([e.theta for e in self.evaluations if e.status is Status.INFEASIBLE]))
        return surrogate.at_most(zero, np.full(len(zero), best + self.settings.tuning.beyond_border))

    @property
    def waypoint(self) -> Waypoint | None:
        """What a replay can go on from; None where more carries over than that."""
        anew = self.settings.surrogate == "outputs" and self.anew_with == len(self.evaluations) + len(self.coarse)
        if self.learned is None or not anew or self.check or self.assessment or self.stop:
            return None
        return Waypoint(self.history, self.squared_z, self.satisfied, self.memory.compared_at, self.check_error)

    @property
    def regions(self) -> list[feasibility.Region]:
        """Outside of which runs find zero likelihood or fail."""
        return [region for region in (self.border, self.reach) if region is not None]


def init(prior: Prior, settings: Settings, seed: int, likelihood: GaussianLikelihood | None = None) -> State:
    """A run that has seen nothing yet. Log-likelihoods are learned with the noise parameters integrated over."""
    learned = likelihood if settings.surrogate == "outputs" else None
    prior = joint(prior, None if learned is None else learned.noise_prior)
    theta = prior.sample(settings.population, stream(seed, "population"), settings.tuning.design)
    population = Population(prior.to_working(theta), np.zeros(settings.population))
    return State(prior, settings, seed, population, likelihood)
