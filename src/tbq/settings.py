"""What a run is told: the user's choices checked, and the rest chosen from the number of parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tbq.acquisition import ACQUISITIONS, ENSEMBLE, Acquisition
from tbq.errors import ArgumentError

Search = Literal["pool", "continuous", "auto"]
KernelChoice = Literal["se", "matern52", "auto"]

_CLIMB_UP_TO = 6  # parameters: above this, search="auto" ranks a pool only, since gradients by differences cost 2d


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run but the prior, the likelihood and the seed. Build it with :func:`resolve`."""

    acquisition: str | Acquisition
    climb: bool  # refine the best of the pool continuously
    kernel: KernelChoice
    tolerance: float  # ε on the evidence's coefficient of variation
    n_initial: int
    population: int  # quadrature points of the prior
    max_evaluations: int
    # Not on the user's list: the defaults hold for every problem, the benchmarks vary them to repeat the paper.
    bound_factor: float = 2.0  # the upper bound must come below this many ε before the exact value is looked at
    mean_cap: float = 1.0  # see LogNormal.cap
    design: Literal["lhs", "sobol"] = "sobol"  # of the population
    nodes: int = 300  # quadrature nodes of acquisition functions and variances
    candidates: int = 1000  # points ranked in each search
    noise_sd: float = 1e-3  # nats: what the surrogate may miss a value by

    def named_acquisitions(self, n: int) -> list[tuple[str, Acquisition]]:
        """The functions that choose the next ``n`` points."""
        if callable(self.acquisition):
            return [(getattr(self.acquisition, "__name__", "callable"), self.acquisition)] * n
        if self.acquisition == "ensemble":
            return [(name, ACQUISITIONS[name]) for name in (ENSEMBLE * n)[:n]]
        return [(self.acquisition, ACQUISITIONS[self.acquisition])] * n


def resolve(
    dim: int,
    *,
    acquisition: str | Callable[..., Any] = "peur",
    search: Search = "auto",
    kernel: KernelChoice = "auto",
    tolerance: float | Sequence[float] = 0.04,
    n_initial: int | None = None,
    population: int | None = None,
    max_evaluations: int | None = None,
    **advanced: Any,
) -> Settings:
    """Check the user's arguments and fill in what was left to us."""
    known = [*ACQUISITIONS, "ensemble"]
    if not callable(acquisition) and acquisition not in known:
        raise ArgumentError(f"acquisition must be one of {_listed(known)}, or a callable; got {acquisition!r}")
    _one_of("search", search, ["pool", "continuous", "auto"])
    _one_of("kernel", kernel, ["se", "matern52", "auto"])
    n_initial = _positive("n_initial", n_initial, max(12, 2 * dim))
    return Settings(
        acquisition=acquisition,
        climb=search == "continuous" or (search == "auto" and dim <= _CLIMB_UP_TO),
        kernel=kernel,
        tolerance=_tolerance(tolerance),
        n_initial=n_initial,
        population=_positive("population", population, 2**13),
        max_evaluations=_positive("max_evaluations", max_evaluations, max(n_initial, 100 + 50 * dim)),
        **advanced,
    )


def _one_of(name: str, value: Any, allowed: list[str]) -> None:
    if value not in allowed:
        raise ArgumentError(f"{name} must be one of {_listed(allowed)}; got {value!r}")


def _listed(names: list[str]) -> str:
    return ", ".join(repr(n) for n in names)


def _positive(name: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ArgumentError(f"{name} must be a whole number of at least 1; got {value!r}")
    return int(value)


def _tolerance(tolerance: float | Sequence[float]) -> float:
    """The tolerance of the final stage, which is the only one that plain BQ has."""
    values = [float(t) for t in tolerance] if isinstance(tolerance, Sequence) else [float(tolerance)]
    if len(values) not in (1, 2) or not all(0.0 < v < 1.0 for v in values):
        raise ArgumentError(
            f"tolerance must be a number between 0 and 1, or a pair (intermediate, final); got {tolerance!r}"
        )
    return values[-1]
