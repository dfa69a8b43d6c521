"""What a run is told: the user's choices checked, and the rest chosen from the number of parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np

from tbq.common.arguments import positive, real, whole
from tbq.common.errors import ArgumentError
from tbq.gp.kernels import KernelChoice

Algorithm = Literal["tbq", "bq"]
Search = Literal["pool", "continuous", "auto"]
SurrogateChoice = Literal["auto", "outputs", "log_likelihood"]
AcquisitionName = Literal["puq", "pvc", "abs_pvc", "plur", "peur", "interval", "ensemble"]

_CLIMB_UP_TO = 6  # parameters: above this, search="auto" ranks a pool only, since gradients by differences cost 2d


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run but the prior, the likelihood and the seed. Build it with :func:`resolve`."""

    acquisition: str | Callable[..., Any]
    climb: bool  # refine the best of the pool continuously
    kernel: KernelChoice
    tolerance: tuple[float, float]  # ε on the coefficient of variation, in intermediate stages and in the final one
    temper_cov: float  # ς on the weights' coefficient of variation; infinite for plain BQ, which has one stage
    n_initial: int
    population: int
    chain_length: int
    max_evaluations: int
    check_runs: int  # fresh runs that must agree with the surrogate before the end
    # Not on the user's list: the defaults hold for every problem, the benchmarks vary them to repeat the paper.
    bound_factor: float = 10.0  # the upper bound must come below this many ε before the exact value is looked at
    mean_cap: float = 1.0  # see LogNormal.cap
    inflation: float = 1.5  # see LogNormal.inflation
    caution: float = 1.0  # by how much a surrogate of outputs states its error wider than it is when it stops the run
    explore_every: int = 5  # one point in so many explores where the stages do not look; 0 for none
    explore_cov: float = 1.5  # how flat: coefficient of variation of its weights
    prior_share: float = 0.2  # of every population: fresh points of the prior, so that no region goes unseen
    design: Literal["lhs", "sobol"] = "sobol"  # of the population
    nodes: int = 300  # quadrature nodes of acquisition functions and variances
    candidates: int = 1000  # points ranked in each search
    noise_sd: float = 1e-3  # what the surrogate may miss a value by: nats, or standard deviations of an output's noise
    fallback: Settings | None = None  # how to go on without the outputs where they cannot be modelled
    free_stages: bool = False  # climb all stages anew with every surrogate instead of making runs for each

    def satisfied(self, cov: float, bound: float, tolerance: float) -> bool:
        """eq:StopCond: the cheap upper bound first, then the exact coefficient of variation; PEUR uses only that."""
        if self.acquisition != "peur" and bound > self.bound_factor * tolerance:
            return False
        return cov <= tolerance


def resolve(
    dim: int,
    *,
    algorithm: Algorithm = "tbq",
    acquisition: str | Callable[..., Any] = "peur",
    search: Search = "auto",
    kernel: KernelChoice = "auto",
    tolerance: float | Sequence[float] = 0.04,
    temper_cov: float = 0.75,
    n_initial: int | None = None,
    population: int | None = None,
    chain_length: int | None = None,
    max_evaluations: int | None = None,
    surrogate: SurrogateChoice = "log_likelihood",
    **advanced: Any,
) -> Settings:
    """Check the user's arguments and fill in what was left to us.

    ``surrogate`` other than 'log_likelihood' says that there are outputs to learn from.
    """
    _one_of("algorithm", algorithm, ["tbq", "bq"])
    known = list(get_args(AcquisitionName))
    if not callable(acquisition) and acquisition not in known:
        raise ArgumentError(f"acquisition must be one of {_listed(known)}, or a callable; got {acquisition!r}")
    _one_of("search", search, ["pool", "continuous", "auto"])
    _one_of("kernel", kernel, ["se", "matern52", "additive", "auto"])
    first = _chosen("n_initial", n_initial, max(12, 2 * dim))
    budget = _chosen("max_evaluations", max_evaluations, max(first, 100 + 50 * dim))
    steps = _chosen("chain_length", chain_length, 20)
    settings = Settings(
        acquisition=acquisition,
        climb=search == "continuous" or (search == "auto" and dim <= _CLIMB_UP_TO),
        kernel=kernel,
        tolerance=_tolerance(tolerance),
        temper_cov=np.inf if algorithm == "bq" else positive("temper_cov", temper_cov),
        n_initial=min(first, budget),
        population=_chosen("population", population, 2**13 if algorithm == "bq" else 2**11, least=64 + 16 * dim),
        chain_length=steps,
        check_runs=advanced.pop("check_runs", max(4, dim) if dim > 2 and algorithm == "tbq" else 0),
        max_evaluations=budget,
        **advanced,
    )
    if surrogate == "log_likelihood":
        return settings
    share = min(max(dim / 16.0, 0.25), 1.0)
    return replace(
        settings,
        n_initial=min(max(10, dim + 3) if n_initial is None else first, budget),
        tolerance=(share * settings.tolerance[0], share * settings.tolerance[1]),
        temper_cov=2.0 * settings.temper_cov,
        chain_length=10 if chain_length is None else steps,
        check_runs=0,
        fallback=settings if surrogate == "auto" else None,
        **{**_OF_OUTPUTS, **advanced},
    )


# A surrogate of outputs learns so fast that its last runs buy a lot, and a mode not yet seen shows only then: up to
# four parameters it is asked for a quarter of the tolerance; with more, where the last percent is dear, for a sixteenth
# of it for each. Its stages cost no runs and are climbed with every new one, in larger steps and shorter chains. It
# sees the whole prior from the start, so that no run goes to exploration. Matérn processes on smooth outputs are not
# too sure of themselves, but at a kink they are: the stated error is wider than the one that stops the run. Double sums
# over its nodes cost more. Measured in docs/benchmarks/outputs.md.
_OF_OUTPUTS: dict[str, Any] = {
    "free_stages": True,
    "explore_every": 0,
    "inflation": 1.05,
    "caution": 1.5,
    "nodes": 128,
    "candidates": 300,
}


def learnable(surrogate: str, outputs: bool) -> SurrogateChoice:
    """The surrogate to resolve settings for: that of the log-likelihood where there are no outputs."""
    _one_of("surrogate", surrogate, ["auto", "outputs", "log_likelihood"])
    if surrogate == "outputs" and not outputs:
        raise ArgumentError("surrogate 'outputs' needs data and a simulator: a tbq.GaussianLikelihood; got none")
    return cast(SurrogateChoice, surrogate) if outputs else "log_likelihood"


def _one_of(name: str, value: Any, allowed: list[str]) -> None:
    if value not in allowed:
        raise ArgumentError(f"{name} must be one of {_listed(allowed)}; got {value!r}")


def _listed(names: list[str]) -> str:
    return ", ".join(repr(n) for n in names)


def _chosen(name: str, value: int | None, default: int, least: int = 1) -> int:
    return default if value is None else whole(name, value, least)


def _tolerance(tolerance: float | Sequence[float]) -> tuple[float, float]:
    values = [real(t) for t in np.array(tolerance, dtype=object).ravel()]
    if len(values) not in (1, 2) or not all(0.0 < v < 1.0 for v in values):
        raise ArgumentError(
            f"tolerance must be a number between 0 and 1, or a pair (intermediate, final); got {tolerance!r}"
        )
    # Early stages only have to lead somewhere: spending runs on them buys nothing (docs/benchmarks/ablation.md).
    return (values[0], values[1]) if len(values) == 2 else (min(2.5 * values[0], 0.99), values[0])
