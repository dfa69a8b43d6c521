"""Looking problems up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tbq.errors import ArgumentError
from tbq.prior import Prior
from tbq.types import Array, BoolArray


@dataclass(frozen=True)
class Mode:
    """A part of the posterior and its mass."""

    name: str
    mass: float
    contains: Callable[[Array], BoolArray]


@dataclass(frozen=True)
class Reference:
    """The exact answer."""

    log_evidence: float
    modes: tuple[Mode, ...] = ()

    @property
    def evidence(self) -> float:
        return float(np.exp(self.log_evidence))


@dataclass(frozen=True)
class Problem:
    """A prior, a log-likelihood (of one θ, or of the rows of an array) and what should come out."""

    name: str
    title: str
    prior: Prior
    log_likelihood: Callable[[Array], Array]
    reference: Reference


def names() -> list[str]:
    """Names of all problems."""
    return sorted(_builders())


def get(name: str) -> Problem:
    """The problem of that name."""
    builders = _builders()
    if name not in builders:
        raise ArgumentError(f"problems.get: there is no problem {name!r}; there are {', '.join(sorted(builders))}")
    return builders[name]()


def _builders() -> dict[str, Callable[[], Problem]]:
    from tbq.problems import battery, decay, frames, heldout, plane, tenfold

    paper = [plane.u1, plane.u2, plane.u3, plane.u4, tenfold.ten, frames.dof3, frames.dof2, battery.battery]
    return {build.__name__: build for build in (*paper, decay.decay, *heldout.ALL)}
