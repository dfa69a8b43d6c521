"""What a run found: evidence, posterior, their numerical errors, and every run that was made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tbq import particles
from tbq.arguments import generator, whole
from tbq.errors import TbqError
from tbq.evaluation import Evaluation
from tbq.likelihood import GaussianLikelihood
from tbq.online import PosteriorPrior
from tbq.prior import Prior, Seed, as_rows
from tbq.surrogate import WILD, Surrogate
from tbq.types import Array, ArrayLike

if TYPE_CHECKING:
    from tbq.predict import Prediction
    from tbq.runner import ExecutorLike
    from tbq.verify import Verification


class Stop(Enum):
    """Why a run ended, as the sentence that the user reads."""

    CONVERGED = "The surrogate's error of the evidence met the tolerance twice in a row."
    BUDGET = "The budget of evaluations was used up before the tolerance was met and checked."
    NOTHING_LEARNED = "Too few evaluations succeeded to learn anything from them."
    EXECUTOR = "The executor broke; give a function that makes one, and it is made anew."
    UNFINISHED = "The run is not finished."


@dataclass(frozen=True)
class ErrorBudget:
    """Standard deviations of the log-evidence by cause."""

    surrogate: float  # what the surrogate does not know of the likelihood
    hyperparameters: float  # what is not known of the surrogate itself
    monte_carlo: float  # what the quadrature misses
    check: float = 0.0  # the surrogate's again, as the last check runs found it
    failures: float = 0.0  # mass around runs that failed, as the surrogate expects it from their neighbours

    @property
    def total(self) -> float:
        parts = (max(self.surrogate, self.check), self.hyperparameters, self.monte_carlo, self.failures)
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
    unique: float  # share of its points that moved


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


@dataclass(frozen=True)
class Result:
    """Posterior and evidence of one run. Logarithms are natural."""

    prior: Prior
    surrogate: Surrogate[Any] | None
    log_evidence: float
    errors: ErrorBudget
    samples: Array  # (n, d) posterior draws
    evaluations: tuple[Evaluation, ...]
    stages: tuple[Stage, ...]
    history: tuple[Record, ...]
    stop: Stop
    seed: int | None = None
    likelihood: GaussianLikelihood | None = None  # where it was one
    notes: tuple[str, ...] = ()  # what speaks against the surrogate
    weights: Array = field(default_factory=lambda: np.empty(0))  # of the points that the evidence was taken over
    surprises: tuple[float, ...] = ()  # squared z-scores of runs that mattered, predicted before they were made
    seconds: float = 0.0  # that choosing points and learning took, the simulator's own not counted

    @staticmethod
    def empty(prior: Prior, evaluations: tuple[Evaluation, ...], stop: Stop) -> Result:
        """The result of a run from which nothing could be learned: no number is made up."""
        errors = ErrorBudget(np.inf, np.inf, np.inf)
        return Result(prior, None, np.nan, errors, np.empty((0, prior.dim)), evaluations, (), (), stop)

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
    def converged(self) -> bool:
        return self.stop is Stop.CONVERGED

    @property
    def normalized(self) -> bool | None:
        """Whether the likelihood was a density of the data; None where nobody but its author knows."""
        return None if self.likelihood is None else self.likelihood.normalized

    def log_density(self, theta: ArrayLike) -> Array:
        """Log of the normalised posterior density at one θ or at the rows of an array."""
        points, single = as_rows(theta, self.prior.dim, "Result.log_density")
        surrogate = self._learned()
        prior = self.prior.log_density(points)
        value = np.full(len(points), -np.inf)
        inside = np.isfinite(prior)
        if inside.any():
            at = surrogate.at(self.prior.to_working(points[inside]))
            value[inside] = surrogate.log_mean(at, 1.0) + prior[inside] - self.log_evidence
        return value[0] if single else value

    def density_sd(self, theta: ArrayLike) -> Array:
        """Numerical standard deviation of the posterior density: σ_post(θ)/μ_Z (eq:PostVarPosterior).

        The log-likelihood's own standard deviation counts up to four nats: beyond, the moments of its exponential rest
        on events no one will see.
        """
        points, single = as_rows(theta, self.prior.dim, "Result.density_sd")
        surrogate = self._learned()
        density = np.exp(self.log_density(points))
        sd = np.zeros(len(points))
        inside = density > 0
        if inside.any():
            at = surrogate.at(self.prior.to_working(points[inside]))
            log_ratio = np.minimum(surrogate.log_ratio_diagonal(at, 1.0), WILD**2)
            sd[inside] = density[inside] * np.sqrt(np.expm1(log_ratio))
        return sd[0] if single else sd

    def sample(self, n: int, seed: Seed = None) -> Array:
        """``n`` further posterior draws: chains on the surrogate's posterior, started from ``samples``."""
        surrogate = self._learned()
        n, rng = whole("Result.sample: n", n, 0), generator("Result.sample", seed)
        start = self.prior.to_working(self.samples[rng.integers(0, len(self.samples), max(n, len(self.samples)))])
        log_likelihood = lambda z: surrogate.log_mean(surrogate.at(z), 1.0)
        moved = particles.move(start, log_likelihood, self.prior.log_density_working, 20, rng)
        return self.prior.from_working(moved.z[:n])

    def as_prior(self) -> PosteriorPrior:
        """This posterior as the prior of the next update."""
        return PosteriorPrior(self)

    def predict(
        self,
        model: Callable[[Array], Any] | None = None,
        n: int = 100,
        *,
        noise: ArrayLike | Literal["auto"] | None = "auto",
        executor: ExecutorLike | None = None,
        vectorized: bool = False,
        seed: Seed = None,
    ) -> Prediction:
        """Run a model at ``n`` posterior draws: posterior predictive draws, or anything else that follows from θ.

        Parameters
        ----------
        model
            Function of ``theta`` that returns numbers, or names and numbers (derived quantities). By default the one
            behind the :class:`tbq.GaussianLikelihood`. Runs that fail are left out and counted.
        noise
            Standard deviations or a covariance of noise to add; None for none; ``"auto"``: the Gaussian likelihood's,
            where there is one and the model returns as many numbers, without names, as were observed.
        executor
            As of :func:`tbq.infer`; one that is made for this is shut down at the end.
        """
        from tbq import predict

        return predict.predict(self, model, n, noise=noise, executor=executor, vectorized=vectorized, seed=seed)

    def verify(
        self,
        n: int,
        log_likelihood: Callable[[Array], Any] | None = None,
        *,
        executor: ExecutorLike | None = None,
        vectorized: bool = False,
        seed: Seed = None,
    ) -> Verification:
        """Spend ``n`` runs of the true log-likelihood on fresh posterior draws, to check and correct the result.

        The corrections are importance weights: they see what the surrogate got wrong where it puts the posterior, not
        a mode that it does not know of. By default the log-likelihood is the result's :class:`tbq.GaussianLikelihood`.
        """
        from tbq import verify

        return verify.verify(self, n, log_likelihood, executor=executor, vectorized=vectorized, seed=seed)

    def to_arviz(self) -> Any:
        """Posterior and prior draws for ArviZ: a ``DataTree`` from its version 1 on, before that ``InferenceData``."""
        from tbq import export

        return export.to_arviz(self)

    def save(self, path: str | Path) -> None:
        """Write everything but functions to one file, for :func:`tbq.load`."""
        from tbq import storage

        storage.save(self, path)

    def summary(self) -> str:
        """A readable account: verdict, evidence with its error in parts, posterior, stages, runs, and what to doubt."""
        from tbq.summary import text

        return text(self)

    def report(self, path: str | Path) -> None:
        """Write it all, with pictures, to one HTML file that needs nothing else."""
        from tbq.report import write

        write(self, path)

    def __str__(self) -> str:
        return self.summary()

    def _learned(self) -> Surrogate[Any]:
        if self.surrogate is None:
            raise TbqError(f"Result: there is no posterior. {self.stop.value}")
        return self.surrogate
