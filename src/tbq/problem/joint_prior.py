"""The prior of all parameters: the simulator's, and after them those of the noise, which it does not see."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

from tbq.common.arguments import generator, whole
from tbq.common.errors import ArgumentError
from tbq.common.types import Array, ArrayLike
from tbq.problem.prior import Method, Prior, Seed, as_rows


class JointPrior(Prior):
    """A prior of the simulator's parameters times one of the noise parameters."""

    def __init__(self, simulated: Prior, noise: Prior) -> None:
        for name in noise.names:
            if name in simulated.names:
                raise ArgumentError(
                    f"Prior: {name!r} is the name of a noise parameter of the likelihood too; give one of them another"
                )
        self.marginals = {**simulated.marginals, **noise.marginals}
        self.units = {**simulated.units, **noise.units}
        self.axes = (*simulated.axes, *noise.axes)
        self.constraint = _on_first(simulated.constraint, simulated.dim)
        self.correlation = _with_ones(simulated.correlation, noise.dim)
        self.copula = _with_ones(simulated.copula, noise.dim)
        self.mixing = _with_ones(simulated.mixing, noise.dim)
        self.is_computed = simulated.is_computed
        self._simulated, self._noise = simulated, noise

    @property
    def simulated(self) -> Prior:
        return self._simulated

    @property
    def noise(self) -> Prior:
        """That of the noise parameters."""
        return self._noise

    @property
    def constraint_mass(self) -> float:
        return self._simulated.constraint_mass

    @property
    def constraint_mass_error(self) -> float:
        return self._simulated.constraint_mass_error

    @property
    def unmixed(self) -> Prior:
        return self if self.mixing is None else JointPrior(self._simulated.unmixed, self._noise)

    def sample(self, n: int, seed: Seed = None, method: Method = "random", *, rng: Seed = None) -> Array:
        """As of any prior; a design is one of all parameters together where the simulator's have no constraint."""
        n, rng = whole("Prior.sample: n", n, 0), generator("Prior.sample", seed, rng)
        if type(self._simulated) is Prior and self.constraint is None:
            return super().sample(n, rng, method)
        theta, phi = self._simulated.sample(n, rng, method), self._noise.sample(n, rng, method)
        return np.hstack([theta, phi[rng.permutation(n)]])  # two designs in the same order depend on each other

    def log_density(self, theta: ArrayLike) -> Array:
        points, single = as_rows(theta, self.dim, "Prior.log_density")
        d = self._simulated.dim
        value = self._simulated.log_density(points[:, :d]) + self._noise.log_density(points[:, d:])
        return value[0] if single else value


def _on_first(constraint: Callable[[Array], bool] | None, d: int) -> Callable[[Array], bool] | None:
    return None if constraint is None else lambda theta: constraint(theta[:d])


def _with_ones(matrix: Array | None, k: int) -> Array | None:
    return None if matrix is None else linalg.block_diag(matrix, np.eye(k))


def joint(prior: Prior, noise: Prior | None) -> Prior:
    """The prior of all parameters, of which ``prior`` may have those of the noise already: yesterday's posterior has.

    Where there are none in the likelihood, it is that of the simulator's parameters.
    """
    if noise is None:
        return prior.simulated
    if set(noise.names) <= set(prior.names) and prior.simulated is not prior:
        return prior
    return JointPrior(prior.simulated, noise)
