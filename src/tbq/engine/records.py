"""What the engine says of a run: why it ended, its stages, the parts of its error, and all of it together."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from tbq.common.types import Array
from tbq.problem.evaluation import Evaluation
from tbq.problem.prior import Prior
from tbq.surrogate.protocol import Surrogate


class Stop(Enum):
    """Why a run ended, as the sentence that the user reads."""

    CONVERGED = "The surrogate's error of the evidence met the tolerance twice in a row."
    BUDGET = "The budget of evaluations was used up before the tolerance was met and checked."
    NOTHING_LEARNED = "Too few evaluations succeeded to learn anything from them."
    EXECUTOR = "The executor broke; give a function that makes one, and it is made anew."
    PAUSED = "The simulator is out of order; when it is repaired, the same call with the same journal goes on."
    UNFINISHED = "The run is not finished."


@dataclass(frozen=True)
class ErrorBudget:
    """Standard deviations of the log-evidence by cause."""

    surrogate: float  # what the surrogate does not know of the likelihood
    hyperparameters: float  # what is not known of the surrogate itself
    monte_carlo: float  # what the quadrature misses
    check: float = 0.0  # the surrogate's again, as the last check runs found it
    failures: float = 0.0  # mass around runs that failed, as the surrogate expects it from their neighbours
    unsettled: float = 0.0  # by how much the evidence still moved, where the run had not converged

    @property
    def total(self) -> float:
        of_surrogate = max(self.surrogate, self.check)
        parts = (of_surrogate, self.hyperparameters, self.monte_carlo, self.failures, self.unsettled)
        return float(np.sqrt(np.sum(np.square(parts))))


@dataclass(frozen=True)
class Stage:
    """One tempering stage; plain BQ has a single one, with γ = 1."""

    gamma: float
    evaluations: int  # runs made in it, the initial design counting to the first
    log_evidence: float  # of the tempered posterior at γ, as it was known then
    log_ratio: float  # log Z_j/Z_{j−1} by the population of the stage before (eq:PostMeanRatio)
    log_bridge: float  # the same ratio, of the densities that the populations follow, through both (eq:bridgeestimate)
    log_ratio_sd: float  # what its surrogate did not know
    effective_sample_size: float  # of the weights that led to it
    acceptance: float  # of the moves that made its population
    unique: float  # fraction of its points that moved


@dataclass(frozen=True)
class Record:
    """What was believed after an update, for plots of convergence."""

    n_evaluations: int
    stage: int
    gamma: float
    log_evidence: float  # of the tempered posterior at γ
    cov: float
    bound: float
    model: str
    error: float  # standard deviation of the final log-evidence, as far as it could be told then


@dataclass(frozen=True)
class Waypoint:
    """All that carries over from before an update at which outputs were learned anew, apart from the runs.

    A replay can go on from here: whatever else the state has follows from the runs.
    """

    history: tuple[Record, ...]
    squared_z: tuple[float, ...]
    satisfied: int
    compared_at: int  # runs when outputs were last compared with log-likelihoods
    check_error: float


@dataclass(frozen=True)
class Conclusion:
    """Posterior and evidence as the engine knows them, with their numerical errors. Logarithms are natural."""

    prior: Prior
    surrogate: Surrogate[Any] | None  # None where nothing could be learned
    log_evidence: float
    errors: ErrorBudget
    samples: Array  # (n, d) posterior draws
    evaluations: tuple[Evaluation, ...]
    stages: tuple[Stage, ...]
    history: tuple[Record, ...]
    stop: Stop
    seed: int | None = None
    notes: tuple[str, ...] = ()  # what speaks against the surrogate
    weights: Array = field(default_factory=lambda: np.empty(0))  # (m,) of the points that the evidence was taken over
    squared_z: tuple[float, ...] = ()  # squared z-scores of runs that mattered, predicted before they were made
    coarse: tuple[Evaluation, ...] = ()  # runs of a coarse model, where there is one
    coarse_cost: float = 0.0  # of one of them, in fine runs

    @property
    def log_evidence_sd(self) -> float:
        """Total numerical error of ``log_evidence``; its parts are in ``errors``."""
        return self.errors.total

    @property
    def evidence(self) -> float:
        """exp(``log_evidence``): 0 or infinite where that leaves the range of floating-point numbers."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_evidence))

    @property
    def evidence_cov(self) -> float:
        """Coefficient of variation of ``evidence``, from the same total error."""
        with np.errstate(over="ignore"):
            return float(np.sqrt(np.expm1(self.log_evidence_sd**2)))

    @property
    def n_evaluations(self) -> int:
        return len(self.evaluations)

    @property
    def n_coarse(self) -> int:
        """Runs of the coarse model."""
        return len(self.coarse)

    @property
    def cost(self) -> float:
        """Of all runs, in fine ones; those of a warm start do not count."""
        made = [sum(e.origin != "earlier" for e in runs) for runs in (self.evaluations, self.coarse)]
        return made[0] + self.coarse_cost * made[1]

    @property
    def converged(self) -> bool:
        return self.stop is Stop.CONVERGED
