"""What a problem is: a prior, a log-likelihood, and what should come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tbq.common.types import Array, BoolArray
from tbq.problem.prior import Prior


@dataclass(frozen=True)
class Mode:
    """A part of the posterior and its mass."""

    name: str
    mass: float
    contains: Callable[[Array], BoolArray]


@dataclass(frozen=True)
class Reference:
    """The answer: exact, or with its standard error where it was sampled."""

    log_evidence: float
    modes: tuple[Mode, ...] = ()
    log_evidence_sd: float = 0.0  # of ``log_evidence``; 0 where it is known to all the digits given

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

    def __repr__(self) -> str:
        known = f"log evidence {self.reference.log_evidence:.6g}"
        return f"<Problem {self.name}: {self.title}; {self.prior.dim} parameters, {known}>"
