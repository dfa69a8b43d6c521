"""What a run found: evidence, posterior, their numerical errors, and every run that was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from tbq.common import markup
from tbq.common.arguments import generator, whole
from tbq.common.errors import TbqError
from tbq.common.types import Array, ArrayLike
from tbq.engine.records import Conclusion
from tbq.evidence import moves
from tbq.gp.levels import Levels
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Seed, as_rows
from tbq.problem.settings import Settings
from tbq.result.modes import Mode, find
from tbq.result.posterior_prior import PosteriorPrior
from tbq.surrogate.feasibility import Bounded
from tbq.surrogate.protocol import SPREAD_CLIP, Surrogate

if TYPE_CHECKING:
    from tbq.result.predict import Prediction
    from tbq.result.sensitivity import Sensitivity
    from tbq.result.verify import Verification
    from tbq.simulate.pool import ExecutorLike


@dataclass(frozen=True)
class Result(Conclusion):
    """Posterior and evidence of one run. Logarithms are natural."""

    likelihood: GaussianLikelihood | None = None  # where it was one
    seconds: float = 0.0  # that choosing points and learning took, the simulator's own not counted
    outage: str = ""  # what the run was paused for
    options: Mapping[str, Any] = field(default_factory=dict)  # in force at the end, by their names

    @classmethod
    def of(
        cls,
        conclusion: Conclusion,
        likelihood: GaussianLikelihood | None = None,
        seconds: float = 0.0,
        settings: Settings | None = None,
    ) -> Self:
        """What the engine concluded, with what else is needed to use it."""
        options = {} if settings is None else _in_force(settings)
        return cls(**vars(conclusion), likelihood=likelihood, seconds=seconds, options=options)

    @property
    def normalized(self) -> bool | None:
        """Whether the likelihood was a density of the data; None where nobody but its author knows."""
        return None if self.likelihood is None else self.likelihood.normalized

    @property
    def log_likelihood_noise(self) -> float:
        """Standard deviation in nats of a run's log-likelihood, given or learned; 0 where there is none to speak of."""
        surrogate: Any = self.surrogate.inner if isinstance(self.surrogate, Bounded) else self.surrogate
        return float(np.sqrt(getattr(surrogate, "noise", 0.0)))

    @property
    def coarse_use(self) -> dict[str, tuple[float, float] | str]:
        """What the coarse model was worth: ρ and its standard deviation for each output or principal component.

        "not used" where its fine values are modelled better without; nothing where there is no coarse model.
        """
        if self.likelihood is None or not self.coarse:
            return {}
        inner: Any = self.surrogate.inner if isinstance(self.surrogate, Bounded) else self.surrogate
        batch = getattr(inner, "batch", None)
        if batch is None:  # log-likelihoods were learned
            return dict.fromkeys(self.likelihood.names, "not used")
        names = self.likelihood.names if batch.size == len(self.likelihood.names) else ()
        labels = names or tuple(f"component {i + 1}" for i in range(batch.size))
        if not isinstance(batch, Levels):
            return dict.fromkeys(labels, "not used")
        return {
            name: (float(rho), float(sd)) if used else "not used"
            for name, rho, sd, used in zip(labels, *batch.rho, batch.uses, strict=True)
        }

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

    def sample(self, n: int, seed: Seed = None, *, rng: Seed = None) -> Array:
        """``n`` further posterior draws: chains on the surrogate's posterior, started from ``samples``."""
        surrogate = self._learned()
        n, rng = whole("Result.sample: n", n, 0), generator("Result.sample", seed, rng)
        start = self.prior.to_working(self.samples[rng.integers(0, len(self.samples), max(n, len(self.samples)))])
        log_likelihood = lambda z: surrogate.log_mean(surrogate.at(z), 1.0)
        moved = moves.move(start, log_likelihood, self.prior.log_density_working, 20, rng)
        return self.prior.from_working(moved.z[:n])

    @cached_property
    def modes(self) -> tuple[Mode, ...]:
        """The separate pieces of the posterior with mass, centre, width and best run, the heaviest first."""
        return find(self)

    def sensitivity(self) -> Sensitivity:
        """What matters: Sobol indices over prior and posterior, what the data fix, correlations. No run is spent.

        Indices are of the outputs of a Gaussian likelihood's model, where there is one, and of the log-likelihood
        where it is not zero; their intervals hold what the surrogate does not know.
        """
        from tbq.result import sensitivity

        return sensitivity.sensitivity(self)

    def as_prior(self) -> PosteriorPrior:
        """This posterior as the prior of the next update."""
        return PosteriorPrior(self)

    def predict(
        self,
        model: Callable[[Array], Any] | None = None,
        n: int = 100,
        *,
        noise: ArrayLike | Literal["auto"] | None = "auto",
        discrepancy: bool = True,
        executor: ExecutorLike | None = None,
        vectorized: bool = False,
        seed: Seed = None,
        rng: Seed = None,
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
        discrepancy
            Whether draws have what the data say that the model lacks, where the likelihood has a discrepancy;
            ``outputs`` never do.
        executor
            As of :func:`tbq.infer`; one that is made for this is shut down at the end.
        """
        from tbq.result import predict

        draws = generator("Result.predict", seed, rng)
        return predict.predict(
            self,
            model,
            n,
            noise=noise,
            discrepancy=discrepancy,
            executor=executor,
            vectorized=vectorized,
            seed=draws,
        )

    def verify(
        self,
        n: int,
        log_likelihood: Callable[[Array], Any] | None = None,
        *,
        executor: ExecutorLike | None = None,
        vectorized: bool = False,
        seed: Seed = None,
        rng: Seed = None,
    ) -> Verification:
        """Spend ``n`` runs of the true log-likelihood on fresh posterior draws, to check and correct the result.

        The corrections are importance weights: they see what the surrogate got wrong where it puts the posterior, not
        a mode that it does not know of. By default the log-likelihood is the result's :class:`tbq.GaussianLikelihood`.
        """
        from tbq.result import verify

        draws = generator("Result.verify", seed, rng)
        return verify.verify(self, n, log_likelihood, executor=executor, vectorized=vectorized, seed=draws)

    def evaluations_table(self) -> dict[str, list[Any]]:
        """Every run as columns: ``run``, ``stage``, ``origin``, ``status``, ``log_likelihood``, ``seconds``,
        ``message``, ``log_likelihood_sd`` where runs told it, then one per parameter, which has an underscore more
        where it is called like one of these. Where there is a coarse model its runs are among them, and a column
        ``level`` tells.
        """
        runs = sorted((*self.evaluations, *self.coarse), key=lambda e: e.id)
        table: dict[str, list[Any]] = {"run": [e.id for e in runs]}
        table |= {name: [getattr(e, name) for e in runs] for name in ("stage", "origin")}
        table["status"] = [str(e.status) for e in runs]
        table |= {"level": [e.level for e in runs]} if self.coarse else {}
        table |= {name: [getattr(e, name) for e in runs] for name in ("log_likelihood", "seconds", "message")}
        if any(e.log_likelihood_sd is not None for e in runs):
            table["log_likelihood_sd"] = [e.log_likelihood_sd for e in runs]
        for i, name in enumerate(self.prior.simulated.names):
            while name in table:
                name += "_"  # noqa: PLW2901
            table[name] = [float(e.theta[i]) for e in runs]
        return table

    def evaluations_frame(self) -> Any:
        """The runs as a ``pandas.DataFrame`` with a column per parameter; without pandas, a dictionary of columns."""
        table = self.evaluations_table()
        try:
            import pandas
        except ImportError:
            return table
        return pandas.DataFrame(table)

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

    def report(self, path: str | Path, *, title: str = "", true_runs: Verification | Prediction | None = None) -> None:
        """Write it all, with pictures, to one HTML file that needs nothing else; or a PDF, by an installed browser.

        ``true_runs``, what :meth:`verify` or :meth:`predict` returned, are shown beside the surrogate's predictions.
        """
        from tbq.report.page import write

        write(self, path, title=title, true_runs=true_runs)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        known = f"log evidence {self.log_evidence:.4g} ± {self.log_evidence_sd:.2g}"
        known = "no evidence" if self.surrogate is None else known
        return f"<Result: {known}, {self.n_evaluations} runs, {self.stop.name.lower()}; {_listed(self.prior.names)}>"

    def _repr_html_(self) -> str:
        """For notebooks: how it ended, the evidence, and the posterior of each parameter."""
        if self.surrogate is None:
            return markup.paragraphs(repr(self), self.stop.value)
        quantiles = np.quantile(self.samples, [0.05, 0.5, 0.95], axis=0)
        columns = (self.samples.mean(axis=0), self.samples.std(axis=0), *quantiles)
        rows = [[label, *(f"{v:.4g}" for v in row)] for label, *row in zip(self.prior.labels, *columns, strict=True)]
        evidence = f"log evidence {self.log_evidence:.4f} ± {self.log_evidence_sd:.4f}, from {self.n_evaluations} runs"
        return markup.paragraphs(evidence, self.stop.value) + markup.table(
            ["parameter", "mean", "sd", "5 %", "median", "95 %"], rows
        )

    def _learned(self) -> Surrogate[Any]:
        if self.surrogate is None:
            raise TbqError(f"Result: there is no posterior. {self.stop.value}")
        return self.surrogate


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _in_force(settings: Settings) -> dict[str, Any]:
    """What a user chooses and may change, in plain words and numbers."""
    acquisition, noise = settings.acquisition, settings.log_likelihood_noise
    return {
        **({} if noise is None else {"log_likelihood_noise": noise}),
        "tolerance": list(settings.asked_tolerance),
        "tolerance_in_use": list(settings.tolerance),
        "max_evaluations": settings.max_evaluations,
        "surrogate": settings.surrogate,
        "acquisition": acquisition if isinstance(acquisition, str) else acquisition.__name__,
        "search": "continuous" if settings.climb else "pool",
        "kernel": settings.kernel,
        "temper_cov": settings.temper_cov,
        "n_initial": settings.n_initial,
        "population": settings.population,
        "chain_length": settings.chain_length,
        "check_runs": settings.check_runs,
    }
