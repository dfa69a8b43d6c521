"""Where the likelihood is deep, whatever a model of its values says so far from all runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tbq.common.types import Array, BoolArray
from tbq.gp.regression import GP
from tbq.surrogate.warp import Warp


@dataclass(frozen=True)
class Guard:
    """A process of the log-depths of all runs.

    A model that is good near the best runs knows nothing of the corners of a wide prior, where it believes in peaks
    that one run after the other has to falsify. Log-depths vary little over the same distance: where they let expect
    a deep value, that is believed. They are believed no more than they have earned: had they called most of the runs
    deep, left out, that are not, a point is deep only if it would be with as large an error. Of fewer such runs than
    there are parameters, and one more, nothing is concluded: the first run that gets near a peak surprises all depths.
    """

    gp: GP
    warp: Warp  # without a tilt or a bowl
    floor: float  # log-likelihood below which a value is deep
    margin: float = 0.0  # standard deviations by which log-depths left out were wrong

    def expected(self, z: Array) -> tuple[Array, BoolArray]:
        """The log-likelihood that the log-depths let expect, and whether it is deep; shapes (n,)."""
        if not self.margin:
            value = self._value(self.gp.mean(z), z)
            return value, value < self.floor
        mean, variance = self.gp.predict(z)
        return self._value(mean, z), self._value(mean + self.margin * np.sqrt(variance), z) < self.floor

    def log_upper(self, z: Array, deviations: float) -> Array:
        """log L some standard deviations of the log-depth above what is expected, shape (n,)."""
        mean, variance = self.gp.predict(z)
        return self._value(mean + deviations * np.sqrt(variance), z)

    def earned(self, y: Array) -> Guard:
        """With the margin that the runs' log-likelihoods ``y`` ask for."""
        shallow = y >= self.floor
        if shallow.sum() <= self.gp.x.shape[1]:
            return self
        mean, variance = (part[shallow] for part in self.gp.leave_one_out())
        limit = self.warp.forward(np.array([self.floor]), self.gp.x[:1])
        return replace(self, margin=max(float(np.median((limit - mean) / np.sqrt(variance))), 0.0))

    def _value(self, log_depth: Array, z: Array) -> Array:
        return self.warp.inverse(log_depth, z)[0]
