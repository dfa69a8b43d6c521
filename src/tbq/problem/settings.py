"""What a run is told: the user's options checked, and the rest chosen from the number of parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack, cast, get_args

import numpy as np

from tbq.common.arguments import positive, real, whole
from tbq.common.errors import ArgumentError
from tbq.gp.kernels import KernelChoice
from tbq.problem.options import (
    AcquisitionName,
    Algorithm,
    EngineOptions,
    Search,
    SurrogateChoice,
    with_defaults,
)
from tbq.problem.tuning import Tuning

_MANY_PARAMETERS = 15  # beyond which posteriors are harder to find and to draw from

SurrogateInUse = Literal["log_likelihood", "outputs"]


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run but the prior, the likelihood and the seed. Build it with :func:`resolve`."""

    surrogate: SurrogateInUse  # what is learned; of outputs all stages are climbed anew with every run, at no cost
    acquisition: str | Callable[..., Any]
    climb: bool  # refine the best of the pool continuously
    kernel: KernelChoice
    tolerance: tuple[
        float, float
    ]  # ε on the coefficient of variation, in intermediate stages (∞: they get no runs) and the last
    temper_cov: float  # ς on the weights' coefficient of variation; infinite for plain BQ, which has one stage
    n_initial: int
    population: int
    chain_length: int
    max_evaluations: int
    check_runs: int  # fresh runs that must agree with a surrogate of log-likelihoods before the end
    tuning: Tuning
    otherwise: Settings | None = None  # of log-likelihoods, to go on with where outputs cannot be modelled
    coarse: bool = False  # whether there is a coarse model to learn from
    log_likelihood_noise: float | None = None  # standard deviation in nats; None where it is learned
    strictness: float = 1.0  # fraction of the tolerance asked for that ``tolerance`` is: outputs can do better
    thinned: bool = False  # whether a node's pair with itself counts only for what it stands for

    @property
    def asked_tolerance(self) -> tuple[float, float]:
        """As the user gave it, for intermediate stages and for the final one."""
        return self.tolerance[0] / self.strictness, self.tolerance[1] / self.strictness

    def final_chain(self, dim: int) -> int:
        """Steps of the chains that end in posterior draws: with outputs they follow no stages that forgot the others.

        A random walk needs steps as the number of parameters, and past fifteen more.
        """
        if self.surrogate == "log_likelihood":
            return self.chain_length
        past = max(dim / _MANY_PARAMETERS, 1.0)
        return max(self.chain_length, round(self.tuning.final_steps * dim * past))

    def with_budget(self, runs: int) -> Settings:
        """The same with so many more runs, whichever surrogate is in use."""
        otherwise = None if self.otherwise is None else self.otherwise.with_budget(runs)
        return replace(self, max_evaluations=self.max_evaluations + runs, otherwise=otherwise)

    def with_limits_of(self, other: Settings) -> Settings:
        """The same with the tolerance, the budget and the initial design of others."""
        otherwise = self.otherwise
        if otherwise is not None and other.otherwise is not None:
            otherwise = otherwise.with_limits_of(other.otherwise)
        limits = {n: getattr(other, n) for n in ("tolerance", "strictness", "max_evaluations", "n_initial")}
        return replace(self, **limits, otherwise=otherwise)


def resolve(
    dim: int,
    *,
    outputs: bool = False,
    noise: int = 0,
    coarse: bool = False,
    tuning: Tuning | None = None,
    **options: Unpack[EngineOptions],
) -> Settings:
    """Check the user's options and fill in what was left to us; ``outputs`` says that there are some to learn from.

    ``noise`` is how many parameters there are beside the simulator's ``dim``, which no run has; ``coarse`` says that
    there is a coarse model.
    """
    chosen = with_defaults("options", EngineOptions, cast(dict[str, Any], options))
    tuning = tuning or Tuning()
    surrogate = _learned(chosen["surrogate"], outputs)
    settings = _of_values(dim, chosen, tuning)
    if surrogate == "log_likelihood":
        return settings
    if settings.log_likelihood_noise is not None:
        raise ArgumentError(
            "log_likelihood_noise is not used where outputs are learned; give surrogate='log_likelihood'"
        )
    settings = _of_outputs(dim, noise, chosen, settings, may_give_up=surrogate == "auto")
    return _of_levels(chosen, settings) if coarse else settings


def _of_levels(options: dict[str, Any], settings: Settings) -> Settings:
    """Where a coarse model does most of the work, and the fine one starts with few runs."""
    least = settings.tuning.fewest_fine
    if options["n_initial"] is not None and options["n_initial"] < least:
        raise ArgumentError(f"n_initial must be at least {least} with a coarse model; got {options['n_initial']!r}")
    first = settings.n_initial if options["n_initial"] is not None else min(least, settings.max_evaluations)
    return replace(settings, n_initial=first, coarse=True)


def _of_values(dim: int, options: dict[str, Any], tuning: Tuning) -> Settings:
    """Where log-likelihoods are learned."""
    algorithm, acquisition, search = options["algorithm"], options["acquisition"], options["search"]
    one_of("algorithm", algorithm, get_args(Algorithm))
    if not callable(acquisition):
        one_of("acquisition", acquisition, get_args(AcquisitionName), ", or a callable")
    one_of("search", search, get_args(Search))
    one_of("kernel", options["kernel"], get_args(KernelChoice))
    first = _chosen("n_initial", options["n_initial"], max(12, 2 * dim))
    budget = _chosen("max_evaluations", options["max_evaluations"], max(first, 100 + 50 * dim))
    plain = algorithm == "bq"
    population = _chosen("population", options["population"], 2**13 if plain else 2**11, least=64 + 16 * dim)
    return Settings(
        surrogate="log_likelihood",
        acquisition=acquisition,
        climb=search == "continuous" or (search == "auto" and dim <= tuning.climb_up_to),
        kernel=options["kernel"],
        tolerance=_tolerance(options["tolerance"]),
        temper_cov=np.inf if plain else positive("temper_cov", options["temper_cov"]),
        n_initial=min(first, budget),
        population=population,
        chain_length=_chosen("chain_length", options["chain_length"], 20),
        max_evaluations=budget,
        check_runs=max(tuning.fewest_check_runs, dim) if tuning.check_runs and dim > 2 and not plain else 0,
        tuning=tuning,
        log_likelihood_noise=_noise(options["log_likelihood_noise"]),
    )


def _of_outputs(dim: int, noise: int, options: dict[str, Any], values: Settings, *, may_give_up: bool) -> Settings:
    """Where outputs are learned; ``values`` are the settings for log-likelihoods.

    A surrogate of outputs learns so fast that its last runs buy a lot, and a mode not yet seen shows only then: up to
    four parameters it is asked for a quarter of the tolerance; with more, where the last percent is dear, for a
    sixteenth of it for each, those of the noise too, and past sixteen for as much as the root of that, up to five
    quarters. Where noise is unknown, a misfit is taken for noise until some run fits: the first posteriors are wide,
    and the runs that they choose spread as those of a design do, which needs fewer then. Its stages cost no runs and
    are climbed with every new one, in larger steps and, up to fourteen parameters, shorter chains. It sees the whole
    prior from the start, so that no run goes to exploration. Where noise is unknown, the variance of the evidence is
    that over the whole population; where it is known, the tolerances were measured with that of the nodes, which is
    larger. Its first surrogates, which know neither the noise nor all that the outputs do, are too sure of themselves,
    and soon do not count. Matérn processes on smooth outputs are not too sure of themselves, and double sums over their
    nodes cost more. Measured in docs/benchmarks/outputs.md, noise.md and scale.md.
    """
    share = (dim + noise) / 16.0
    fraction = min(max(share, 0.25), float(np.sqrt(share)), 1.25)
    steps = round(values.tuning.chain_steps * dim) if dim >= values.tuning.common_from else 10
    tuning = replace(values.tuning, nodes=128, candidates=300)
    if tuning.explore_every:
        tuning = replace(tuning, explore_every=0)
    if tuning.inflate:
        tuning = replace(tuning, inflation_start=1.05)
        if noise:
            tuning = replace(tuning, inflation_clip=9.0, inflation_lately=3)
    n_initial = values.n_initial
    if options["n_initial"] is None:  # slopes that all outputs share are learned from fewer runs than parameters
        n_initial = min(max(6 if noise else 10, dim + 3), tuning.most_design)
    return replace(
        values,
        surrogate="outputs",
        tolerance=(fraction * values.tolerance[0], min(fraction * values.tolerance[1], 0.99)),
        strictness=fraction,
        temper_cov=2.0 * values.temper_cov,
        n_initial=min(n_initial, values.max_evaluations),
        chain_length=steps if options["chain_length"] is None else values.chain_length,
        check_runs=0,  # made only where something speaks against the outputs
        thinned=noise > 0,
        tuning=tuning,
        otherwise=values if may_give_up else None,
    )


def _learned(surrogate: Any, outputs: bool) -> SurrogateChoice:
    """What is to be learned: log-likelihoods where there are no outputs."""
    one_of("surrogate", surrogate, get_args(SurrogateChoice))
    if surrogate == "outputs" and not outputs:
        raise ArgumentError("surrogate 'outputs' needs data and a simulator: a tbq.GaussianLikelihood; got none")
    return cast(SurrogateChoice, surrogate) if outputs else "log_likelihood"


def one_of(name: str, value: Any, allowed: Sequence[str], otherwise: str = "") -> None:
    """Refuse a word that is none of those allowed; ``otherwise`` says what else may be given."""
    if value not in allowed:
        names = ", ".join(repr(n) for n in allowed)
        raise ArgumentError(f"{name} must be one of {names}{otherwise}; got {value!r}")


def _chosen(name: str, value: int | None, default: int, least: int = 1) -> int:
    return default if value is None else whole(name, value, least)


def _noise(sd: float | None) -> float | None:
    if sd is not None and not 0.0 <= real(sd) < np.inf:
        raise ArgumentError(f"log_likelihood_noise must be a standard deviation in nats, 0 for none; got {sd!r}")
    return None if sd is None else real(sd)


def _tolerance(tolerance: float | Sequence[float]) -> tuple[float, float]:
    values = [real(t) for t in np.array(tolerance, dtype=object).ravel()]
    if len(values) not in (1, 2) or not all(0.0 < v < 1.0 for v in values):
        raise ArgumentError(
            f"tolerance must be a number between 0 and 1, or a pair (intermediate, final); got {tolerance!r}"
        )
    return (values[0], values[1]) if len(values) == 2 else (np.inf, values[0])
