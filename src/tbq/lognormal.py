"""The surrogate of the paper: a Gaussian process on the log-likelihood, so that L^γ is log-normal.

With g ~ GP(μ, c) the log-likelihood (eq:PostLikelihood, eq:PostMomentsLike_jStage):

    E[L^γ] = exp(γμ + γ²σ²/2),   ρ(z, z') = exp(γ² c(z, z')),   ρ⁺(z, z') = exp(a(z) a(z')),

where a(z) = γ c(z, z⁺)/s(z⁺) and s² is the predictive variance of the new run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tbq.gp import GP, NUGGET, Projection
from tbq.types import Array

# |a| is how many nats (1 sd) the new run is expected to move a node. Beyond this many the expectation of exp(a²)
# rests on events no one will see, and a few wild nodes would rule: the excess is compressed into one nat.
WILD = 4.0


@dataclass(frozen=True)
class LogNormal:
    """Moments of exp(γ g) for a Gaussian process g. See :class:`tbq.surrogate.Surrogate`.

    ``cap`` is the largest γσ that enters the mean: exp(γμ + ½ min(γσ, cap)²). Infinity is the exact log-normal
    mean, which explodes where the surrogate knows nothing; 0 is the biased exp(γμ), which loses the mass of
    whatever is unsure. ``inflation`` multiplies all standard deviations of the process but the mean's: a Gaussian
    process that chose its own hyperparameters is too sure of itself.
    """

    gp: GP
    cap: float = 1.0
    inflation: float = 1.0

    @property
    def description(self) -> str:
        return f"{self.gp.kernel.name}, {self.gp.basis} mean"

    def at(self, z: Array) -> Projection:
        return self.gp.project(z)

    def log_mean(self, points: Projection, gamma: float) -> Array:
        spread = np.minimum(gamma * np.sqrt(points.variance), self.cap)
        return gamma * points.mean + 0.5 * spread**2

    def log_ratio(self, a: Projection, b: Projection, gamma: float) -> Array:
        return (self.inflation * gamma) ** 2 * self.gp.covariance(a, b)

    def log_ratio_diagonal(self, points: Projection, gamma: float) -> Array:
        return (self.inflation * gamma) ** 2 * points.variance

    def revealed_log_ratio(self, new: Projection, nodes: Projection, gamma: float) -> Array:
        return self._shift(new, nodes, gamma) ** 2

    def revealed_variance(self, new: Projection, nodes: Projection, weights: Array, gamma: float) -> Array:
        """PEUR's double integral without pairing: Σ_kl w_k w_l (e^{a_k a_l} − 1) = Σ_n (Σ_k w_k a_kⁿ)²/n!."""
        a = self._shift(new, nodes, gamma)
        total = np.zeros(len(a))
        power = np.broadcast_to(weights, a.shape)
        factorial = 1.0
        for n in range(1, _terms(float(np.max(np.abs(a), initial=0.0))) + 1):
            power = power * a
            factorial *= n
            total += power.sum(axis=1) ** 2 / factorial
        return total

    def believe(self, z: Array) -> LogNormal:
        mean = float(self.gp.project(z[None, :]).mean[0])
        return replace(self, gp=self.gp.condition(z, mean, self._new_noise))

    @property
    def _new_noise(self) -> float:
        return float(np.min(self.gp.noise))

    def _shift(self, new: Projection, nodes: Projection, gamma: float) -> Array:
        """a: by how many nats (1 sd) a run at each new point moves each node, tempered; (n_new, n_nodes)."""
        # The noise keeps this smooth where the new point is a training point and c and σ both vanish.
        nugget = NUGGET * self.gp.kernel.diagonal(self.gp.parameters, new.x)
        predictive = np.sqrt(new.variance + self._new_noise + nugget)
        a = self.inflation * gamma * self.gp.covariance(new, nodes) / predictive[:, None]
        excess = np.maximum(np.abs(a) - WILD, 0.0)
        return np.sign(a) * (np.minimum(np.abs(a), WILD) + excess / (1.0 + excess))


def _terms(largest: float) -> int:
    """Terms after which the series Σ (a²)ⁿ/n! has converged to 1e-12 of its sum, for |a| ≤ largest."""
    x = largest**2
    return int(np.ceil(x + 6.0 * np.sqrt(x) + 12.0)) if x > 1e-12 else 1
