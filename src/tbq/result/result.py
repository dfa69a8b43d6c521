"""What a run found: evidence, posterior, their numerical errors, and every run that was made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from tbq.common.arguments import generator, whole
from tbq.common.errors import TbqError
from tbq.common.types import Array, ArrayLike
from tbq.engine.records import Conclusion
from tbq.evidence import moves
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Seed, as_rows
from tbq.result.posterior_prior import PosteriorPrior
from tbq.surrogate.protocol import SPREAD_CLIP, Surrogate

if TYPE_CHECKING:
    from tbq.result.predict import Prediction
    from tbq.result.verify import Verification
    from tbq.simulate.pool import ExecutorLike


@dataclass(frozen=True)
class Result(Conclusion):
    """Posterior and evidence of one run. Logarithms are natural."""

    likelihood: GaussianLikelihood | None = None  # where it was one
    seconds: float = 0.0  # that choosing points and learning took, the simulator's own not counted
    outage: str = ""  # what the run was paused for

    @classmethod
    def of(cls, conclusion: Conclusion, likelihood: GaussianLikelihood | None = None, seconds: float = 0.0) -> Self:
        """What the engine concluded, with what else is needed to use it."""
        return cls(**vars(conclusion), likelihood=likelihood, seconds=seconds)

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
            log_ratio = np.minimum(surrogate.log_ratio_diagonal(at, 1.0), SPREAD_CLIP**2)
            sd[inside] = density[inside] * np.sqrt(np.expm1(log_ratio))
        return sd[0] if single else sd

    def sample(self, n: int, seed: Seed = None) -> Array:
        """``n`` further posterior draws: chains on the surrogate's posterior, started from ``samples``."""
        surrogate = self._learned()
        n, rng = whole("Result.sample: n", n, 0), generator("Result.sample", seed)
        start = self.prior.to_working(self.samples[rng.integers(0, len(self.samples), max(n, len(self.samples)))])
        log_likelihood = lambda z: surrogate.log_mean(surrogate.at(z), 1.0)
        moved = moves.move(start, log_likelihood, self.prior.log_density_working, 20, rng)
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
        from tbq.result import predict

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
        from tbq.result import verify

        return verify.verify(self, n, log_likelihood, executor=executor, vectorized=vectorized, seed=seed)

    def to_arviz(self) -> Any:
        """Posterior and prior draws for ArviZ: a ``DataTree`` from its version 1 on, before that ``InferenceData``."""
        from tbq.result import export

        return export.to_arviz(self)

    def save(self, path: str | Path) -> None:
        """Write everything but functions to one file, for :func:`tbq.load`."""
        from tbq.result import storage

        storage.save(self, path)

    def summary(self) -> str:
        """A readable account: verdict, evidence with its error in parts, posterior, stages, runs, and what to doubt."""
        from tbq.report.summary import text

        return text(self)

    def report(self, path: str | Path) -> None:
        """Write it all, with pictures, to one HTML file that needs nothing else."""
        from tbq.report.page import write

        write(self, path)

    def __str__(self) -> str:
        return self.summary()

    def _learned(self) -> Surrogate[Any]:
        if self.surrogate is None:
            raise TbqError(f"Result: there is no posterior. {self.stop.value}")
        return self.surrogate
