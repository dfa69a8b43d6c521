"""A check before the end: fresh runs where the posterior is said to be, compared with what is expected there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tbq.common.types import Array
from tbq.evidence.population import Population
from tbq.problem.evaluation import Evaluation, Proposal, Status, noise_sd
from tbq.problem.prior import Prior
from tbq.problem.settings import Settings
from tbq.problem.tuning import Tuning
from tbq.surrogate.protocol import Surrogate

_CHANCE = 2.0  # standard deviations by which a sum of squared noise may exceed its mean
_FLAT = 0.01  # nats: where the log-likelihood is flat, all of it matters


@dataclass(frozen=True)
class Check:
    """Points to run and the log-likelihoods expected of them."""

    first_id: int
    theta: Array  # (n, d)
    expected: Array  # (n,) log-likelihoods
    n_draws: int  # of the points, the first so many are posterior draws
    threshold: float  # log-likelihood below which a point does not matter
    tolerance: float  # on the evidence
    tuning: Tuning = field(default_factory=Tuning)
    noise: float = 0.0  # standard deviation in nats of runs that do not tell theirs
    believed: Array | None = None  # (n, n) covariance of what is not known of the log-likelihoods; None for nothing

    def proposals(self, next_id: int, n: int, stage: int) -> list[Proposal]:
        """The next points that have not been proposed yet; none when all are out."""
        start = next_id - self.first_id
        return [
            Proposal(self.first_id + i, self.theta[i], stage, "check", np.nan)
            for i in range(start, min(start + n, len(self.theta)))
        ]

    def complete(self, evaluations: Sequence[Evaluation]) -> bool:
        return len(self._mine(evaluations)) == len(self.theta)

    def passed(self, evaluations: Sequence[Evaluation]) -> bool:
        """Whether the residuals that matter are small, and so is what the draws, of which there must be some, say."""
        tolerance, residuals = self.tolerance, self.residuals(evaluations)
        if len(self.residuals(self._draws(evaluations))) == 0:
            return False
        if self.error(evaluations) > self.tuning.check_error * tolerance:
            return False
        return float(np.sqrt(self._excess(evaluations) / len(residuals))) < self.tuning.check_rms * tolerance

    def error(self, evaluations: Sequence[Evaluation]) -> float:
        """What the posterior draws among them say of the evidence: the standard error of their mean.

        They are few: one more is imagined that is off by the tolerance. What is not known of them, and known not to
        be, is part of the evidence's error already; but their mean must not be off by more than that allows.
        """
        draws = self._draws(evaluations)
        n = len(self.residuals(draws))
        scatter = (self._excess(draws) + self.tolerance**2) / (n + 1) / max(n, 1)
        return float(np.hypot(np.sqrt(scatter), self._shift(draws)))

    def _shift(self, draws: Sequence[Evaluation]) -> float:
        """By how much the mean residual exceeds its own standard deviation, as it is believed and by noise."""
        residuals, relevant = self.residuals(draws), self._relevant(draws)
        if self.believed is None or not len(residuals):
            return 0.0
        rows = [e.id - self.first_id for e in relevant]
        noise = np.array([noise_sd(e, self.noise) for e in relevant]) ** 2
        sd = np.sqrt(np.mean(self.believed[np.ix_(rows, rows)]) + np.sum(noise) / len(rows) ** 2)
        return max(abs(float(np.mean(residuals))) - float(sd), 0.0)

    def _draws(self, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
        return [e for e in evaluations if e.id < self.first_id + self.n_draws]

    def _excess(self, evaluations: Sequence[Evaluation]) -> float:
        """Sum of the squared residuals that matter, less what is believed and what noise explains.

        Of the noise all but one chance in forty.
        """
        relevant = self._relevant(evaluations)
        expected = np.array([noise_sd(e, self.noise) for e in relevant]) ** 2
        explained = np.sum(expected) + _CHANCE * np.sqrt(2.0 * np.sum(expected**2))
        if self.believed is not None:
            explained += sum(self.believed[e.id - self.first_id, e.id - self.first_id] for e in relevant)
        return max(float(np.sum(self.residuals(evaluations) ** 2) - explained), 0.0)

    def residuals(self, evaluations: Sequence[Evaluation]) -> Array:
        """Found less expected, where it matters; zero likelihood is as far off as counts, a failed run says nothing."""
        clip, mine = self.tuning.check_clip, self._relevant(evaluations)
        return np.array([np.clip(_found(e) - self._expected(e), -clip, clip) for e in mine])

    def _relevant(self, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
        mine = [e for e in self._mine(evaluations) if not e.status.is_failure]
        return [e for e in mine if max(_found(e), self._expected(e)) > self.threshold - _FLAT]

    def _expected(self, evaluation: Evaluation) -> float:
        return float(self.expected[evaluation.id - self.first_id])

    def _mine(self, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
        return [e for e in evaluations if self.first_id <= e.id < self.first_id + len(self.theta)]


def _found(evaluation: Evaluation) -> float:
    return evaluation.log_likelihood if evaluation.status is Status.OK else -np.inf


def plan(
    population: Population,
    posterior: Population,
    surrogate: Surrogate[Any],
    prior: Prior,
    settings: Settings,
    first_id: int,
    rng: np.random.Generator,
) -> Check:
    """Half of the points are posterior draws; the others are the most uncertain of the population."""
    n, d = settings.check_runs, prior.simulated.dim
    n_draws = (n + 1) // 2
    drawn = posterior.z[:, :d]  # what is expected of a run is integrated over the noise
    points = list(drawn[rng.choice(len(posterior.z), n_draws, replace=False)])
    moved = (
        population.z[: round((1.0 - population.prior_fraction) * len(population.z)), :d] if population.gamma else drawn
    )
    conditioned = surrogate
    for z in points:
        conditioned = conditioned.condition_on_mean(z)
    while len(points) < n:
        crowd = moved[rng.choice(len(moved), settings.tuning.check_crowd, replace=False)]
        points.append(crowd[int(np.argmax(conditioned.log_likelihood(conditioned.at(crowd))[1]))])
        conditioned = conditioned.condition_on_mean(points[-1])
    z = np.array(points)
    draws, _ = surrogate.log_likelihood(surrogate.at(drawn))
    threshold = float(np.quantile(draws, settings.tuning.check_depth))
    there = surrogate.at(z)
    expected, variance = surrogate.log_likelihood(there)
    theta = prior.simulated.from_working(z)
    believed = _scaled_to(variance, surrogate.log_ratio(there, there, 1.0))
    return Check(
        first_id, theta, expected, n_draws, threshold, settings.tolerance[1], settings.tuning, believed=believed
    )


def _scaled_to(variance: Array, covariance: Array) -> Array:
    """The covariance with these variances: a surrogate's relative one is inflated, to be safe elsewhere."""
    scale = np.sqrt(variance / np.maximum(np.diag(covariance), 1e-300))
    return np.asarray(scale[:, None] * covariance * scale)
