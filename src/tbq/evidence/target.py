"""What a run should improve: an integral under a surrogate, with the nodes that it is taken over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tbq.common.types import Array
from tbq.surrogate.protocol import Surrogate


@dataclass(frozen=True)
class Target:
    """The integral that a run should improve: Z = ∫ L^γ p, through its surrogate and quadrature nodes."""

    surrogate: Surrogate[Any]
    gamma: float
    log_evidence: float  # log E[Z]
    nodes: Any  # surrogate.at(z_k)
    node_z: Array  # (k, d), noise parameters too
    weights: Array  # (k,) normalised posterior weights of the nodes
    log_prior: Callable[[Array], Array]  # log-density of runs' parameters in working coordinates
    log_weight: Callable[[Array], Array] | None = None  # log of what acquisition values are weighted by

    def conditioned(self, z: Array) -> Target:
        """The target as it will be once a run at z has returned what is expected: for batches and pending runs."""
        surrogate = self.surrogate.condition_on_mean(z)
        return replace(self, surrogate=surrogate, nodes=surrogate.at(self.node_z))
