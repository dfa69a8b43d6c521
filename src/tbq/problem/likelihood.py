"""Simulator and data → log-likelihood, for Gaussian noise.

What the simulator returns is kept beside the log-likelihood: outputs are smooth functions of θ where the
log-likelihood is steep and folded, and the same runs serve other data and another noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MethodType
from typing import Any

import numpy as np

from tbq.common.errors import ArgumentError
from tbq.common.types import Array, ArrayLike, Distribution, IntArray
from tbq.common.words import described
from tbq.problem import marginal, noise_forms
from tbq.problem.data_arguments import checked_data, noise_factor
from tbq.problem.evaluation import Level
from tbq.problem.experiment import Experiment, Model
from tbq.problem.labels import Labels, checked_labels
from tbq.problem.noise import Discrepancy, Exponential, NoiseModel, SquaredExponential, joined, known
from tbq.problem.noise_arguments import Given, noise_model
from tbq.problem.prior import Prior

__all__ = ["Experiment", "GaussianLikelihood", "Labels", "Model"]

Amount = ArrayLike | Distribution  # known, or its prior
Correlation = Exponential | SquaredExponential


class GaussianLikelihood:
    """The log-likelihood of a simulator under Gaussian noise: ``log N(observed; model(theta), noise)``.

    A function of ``theta``; ``a + b`` is the likelihood of two independent experiments that share parameters, and runs
    where they share the model. It can be sent to other processes if the model can. What has a prior here is a
    parameter of the noise: the simulator does not see it, it costs no runs, and samples have it by name, such as
    ``noise.hare`` or ``discrepancy.length``. The likelihood of a run is integrated over all of them.

    Parameters
    ----------
    model
        Function of ``theta`` that returns as many numbers as were observed; nan where an output is missing, in which
        case the run has no likelihood but what it did return is still learned from.
    observed
        The data: one number, a 1-D array, or replicates (r, m); nan where nothing was measured.
    noise
        Standard deviation, one per datum, or the full covariance matrix; a ``scipy.stats`` prior where it is unknown;
        or one of these for each group, by name.
    scale
        Function of ``theta`` that multiplies all standard deviations, for noise that is itself unknown:
        ``scale=lambda theta: theta[2]``.
    normalized
        Whether the factor (2π)^(−m/2) |noise|^(−1/2) is part of the likelihood. Without it only ratios of evidences
        for the same data and noise mean anything.
    names, units
        What the outputs are called and measured in, for tables and pictures; one unit may stand for all.
    coordinates
        Where or when each output was measured, for curves; ``{"time [s]": t}`` says what they are.
    groups
        Name → the data that have a noise of their own: a slice, indices or a mask.
    relative
        Noise in proportion to the output, as a share of it: known, a prior, or one for each group. It adds to ``noise``
        in squares.
    correlation
        :class:`tbq.Exponential` or :class:`tbq.SquaredExponential`: of residuals of the same group and replicate along
        the coordinates; or one for each group.
    discrepancy
        :class:`tbq.Discrepancy`: what the model lacks, along the coordinates, the same in all replicates; or one for
        each group.
    freedom
        Degrees of freedom of Student errors, which allow for outliers: known, a prior, or one for each group.
    index
        Which of the model's outputs each datum measures, where these are not one after the other.
    coarse
        A cheaper model of the same outputs, such as one of a coarser mesh: it carries what it can of the learning.
    cost
        Of a run of it, in runs of ``model``; timed where it is not given.

    Examples
    --------
    >>> likelihood = tbq.GaussianLikelihood(lambda theta: theta[0] * np.arange(1, 4), [1.0, 2.1, 2.9], 0.1)
    >>> round(likelihood(np.array([1.0])), 3)
    3.151
    """

    experiments: tuple[Experiment, ...]

    def __init__(
        self,
        model: Model,
        observed: ArrayLike,
        noise: Amount | Mapping[str, Amount],
        *,
        scale: Callable[[Array], Any] | None = None,
        normalized: bool = True,
        names: Sequence[str] | None = None,
        units: str | Sequence[str] | None = None,
        coordinates: ArrayLike | Mapping[str, ArrayLike] | None = None,
        groups: Mapping[str, Any] | None = None,
        relative: Amount | Mapping[str, Amount] | None = None,
        correlation: Correlation | Mapping[str, Correlation] | None = None,
        discrepancy: Discrepancy | Mapping[str, Discrepancy] | None = None,
        freedom: Amount | Mapping[str, Amount] | None = None,
        index: ArrayLike | None = None,
        coarse: Model | None = None,
        cost: float | None = None,
    ) -> None:
        if not callable(model):
            raise ArgumentError(f"GaussianLikelihood: model must be a function of theta; got {type(model).__name__}")
        if scale is not None and not callable(scale):
            raise ArgumentError(f"GaussianLikelihood: scale must be a function of theta; got {type(scale).__name__}")
        if scale is not None and not normalized:
            raise ArgumentError(
                "GaussianLikelihood: normalized must be True where scale is given: without the factor an unknown noise "
                "would be as large as its prior allows"
            )
        data = checked_data(observed)
        labels = checked_labels(names, units, coordinates, data.shape[-1])
        given = Given(noise, groups, relative, freedom, correlation, discrepancy)
        if given.plain and index is None and data.ndim == 1 and np.all(np.isfinite(data)):
            one = Experiment(model, data, noise_factor(noise, len(data)), scale, bool(normalized), labels)
        else:
            if scale is not None or not normalized:
                raise ArgumentError(
                    "GaussianLikelihood: scale and normalized=False do not go with gaps, replicates, groups or noise "
                    "that has parameters; give an unknown noise as a prior"
                )
            one = _experiment(model, np.atleast_2d(data), labels, index, given)
        self.experiments = (one.with_coarse(coarse, cost),)

    @classmethod
    def of(cls, experiments: tuple[Experiment, ...]) -> GaussianLikelihood:
        """The likelihood of independent experiments."""
        likelihood = object.__new__(cls)
        likelihood.experiments = experiments
        return likelihood

    def __repr__(self) -> str:
        count, unknown = len(self.experiments), () if self.noise_model is None else self.noise_model.names
        more = f", {count} experiments" if count > 1 else ""
        return f"GaussianLikelihood({len(self.data)} data{more}{''.join(f', {name}' for name in unknown)})"

    def __add__(self, other: GaussianLikelihood) -> GaussianLikelihood:
        if not isinstance(other, GaussianLikelihood):
            return NotImplemented
        both = GaussianLikelihood.of(self.experiments + other.experiments)
        if len({e.coarse is None for e in both.experiments}) > 1:
            raise ArgumentError("GaussianLikelihood: coarse must be given for all experiments of a sum, or for none")
        _ = both.noise_model  # which refuses what does not go together
        return both

    def __call__(self, theta: ArrayLike) -> Any:
        """Log-likelihood of one θ, or of the rows of an array where the model takes such."""
        return self.evaluate(theta)[0]

    def evaluate(self, theta: ArrayLike, noise: ArrayLike | None = None) -> tuple[Any, Array]:
        """Run the model: the log-likelihood and the outputs it came from. Missing outputs make it nan.

        Experiments with the same model share its run. ``noise`` is as of ``from_outputs``.
        """
        theta = np.asarray(theta, dtype=float)
        answers: dict[Any, Any] = {}
        parts = []
        for e in self.experiments:
            which = _same(e.model)
            if which not in answers:
                answers[which] = e.model(theta)
            parts.append(e.taken(answers[which], theta))
        outputs = np.concatenate(parts, axis=-1)
        return self.from_outputs(theta, outputs, noise), outputs

    @property
    def has_coarse(self) -> bool:
        return self.experiments[0].coarse is not None

    def at(self, level: Level) -> GaussianLikelihood:
        """The same with the model of a level."""
        if level == "fine" or not self.has_coarse:
            return self
        return GaussianLikelihood.of(tuple(replace(e, model=e.coarse) for e in self.experiments))  # type: ignore[arg-type]

    @property
    def cost(self) -> float | None:
        """Of a coarse run, in fine ones; None where it has to be timed."""
        given = {(_same(e.model), _same(e.coarse)): e.cost for e in self.experiments}.values()
        known = [cost for cost in given if cost is not None]
        return float(np.mean(known)) if len(known) == len(given) else None

    def from_outputs(self, theta: ArrayLike, outputs: ArrayLike, noise: ArrayLike | None = None) -> Any:
        """The log-likelihood of runs already made; shapes (d,) and (m,), or with any leading dimensions.

        Where the noise has parameters, it is that of ``noise``, shape (k,) or with the same leading dimensions, in the
        order of ``noise_prior``; or the integral over all of them.
        """
        theta, outputs = np.asarray(theta, dtype=float), np.asarray(outputs, dtype=float)
        if outputs.shape[-1:] != self.observed.shape or outputs.shape[:-1] != theta.shape[:-1]:
            raise ArgumentError(
                f"GaussianLikelihood: outputs must have shape {(*theta.shape[:-1], len(self.observed))}; "
                f"got {outputs.shape}"
            )
        if self.noise_model is not None:
            return self._with_parameters(outputs, noise)
        rows = theta.reshape(-1, theta.shape[-1])
        white = self.whiten(outputs.reshape(-1, outputs.shape[-1]))
        log_scales = self.log_scales(rows)
        value = -0.5 * np.sum((white * np.exp(-log_scales[:, self.experiment_of])) ** 2, axis=1)
        value += self.log_constant(log_scales)
        return float(value[0]) if theta.ndim == 1 else value.reshape(theta.shape[:-1])

    def _with_parameters(self, outputs: Array, noise: ArrayLike | None) -> Any:
        assert self.noise_model is not None
        rows = outputs.reshape(-1, outputs.shape[-1])
        if noise is None:
            value = np.array([marginal.of_run(self.noise_model, row) for row in rows])
        else:
            phi = np.broadcast_to(np.asarray(noise, dtype=float), (*outputs.shape[:-1], self.noise_model.size))
            value = noise_forms.log_likelihood(self.noise_model, rows, phi.reshape(len(rows), -1))
        return float(value[0]) if outputs.ndim == 1 else value.reshape(outputs.shape[:-1])

    def noise(self, theta: Array, rng: np.random.Generator, outputs: Array | None = None) -> Array:
        """A draw of the noise of one more measurement at each row of ``theta``, whose last are the noise parameters.

        ``outputs`` (n, m) are needed where the noise is in proportion to them.
        """
        if self.noise_model is not None:
            return self.noise_model.noise(self.noise_parameters(theta), self._outputs(theta, outputs), rng)
        parts = np.hstack([e.noise(len(theta), rng) for e in self.experiments])
        return parts * np.exp(self.log_scales(theta)[:, self.experiment_of])

    def noise_scales(self, theta: Array, outputs: Array | None = None) -> Array:
        """Standard deviation of each output's noise at the rows of ``theta``, (n, m)."""
        if self.noise_model is not None:
            return self.noise_model.scales(self.noise_parameters(theta), self._outputs(theta, outputs))
        return np.asarray(self.noise_sd * np.exp(self.log_scales(theta)[:, self.experiment_of]))

    def _outputs(self, theta: Array, outputs: Array | None) -> Array:
        return np.tile(np.nan_to_num(self.observed), (len(theta), 1)) if outputs is None else outputs

    def noise_parameters(self, theta: Array) -> Array:
        """(n, k): the last of each row of all parameters; none where all noise is known."""
        k = 0 if self.noise_model is None else self.noise_model.size
        return theta[:, theta.shape[1] - k :]

    @property
    def noise_prior(self) -> Prior | None:
        """Of the noise parameters; None where there are none."""
        return None if self.noise_model is None else self.noise_model.prior

    @property
    def names(self) -> tuple[str, ...]:
        """Of all outputs: the user's, or y1, y2, …; those of two experiments with the same are told apart."""
        numbered = [f"y{i + 1}" for i in range(len(self.observed))]
        of = self.experiment_of
        given = [name for e in self.experiments for name in (e.labels.names or [""] * len(e.observed))]
        twice = {name for name, times in Counter(given).items() if times > 1}
        names = [f"{name} ({of[i] + 1})" if name in twice else name for i, name in enumerate(given)]
        return tuple(name if given[i] else numbered[i] for i, name in enumerate(names))

    @property
    def units(self) -> tuple[str, ...]:
        """Of all outputs, empty where nobody said."""
        return tuple(unit for e in self.experiments for unit in (e.labels.units or [""] * len(e.observed)))

    @property
    def normalized(self) -> bool:
        """Whether it is a density of the data."""
        return all(e.normalized for e in self.experiments)

    @property
    def missing_constant(self) -> float:
        """What must be added to its logarithm to make it one."""
        return sum(e.full_constant - e.log_constant for e in self.experiments)

    # --- what a surrogate of the outputs needs --------------------------------------------------------------

    @cached_property
    def noise_model(self) -> NoiseModel | None:
        """All of the noise, where there is more to it than known standard deviations or covariances."""
        if all(e.noise_model is None for e in self.experiments):
            return None
        if self.scaled:
            raise ArgumentError(
                "GaussianLikelihood: scale does not go with noise that has parameters; give its prior as noise"
            )
        parts = [(e.noise_model or known(e.observed, e.factor), len(e.observed)) for e in self.experiments]
        return joined(parts)

    @property
    def data(self) -> Array:
        """Every number that was measured, one experiment after the other."""
        return self.observed if self.noise_model is None else self.noise_model.data

    @property
    def observed(self) -> Array:
        """What was observed of each output, one experiment after the other: means of replicates, nan where nothing."""
        return np.concatenate([e.observed for e in self.experiments])

    @property
    def experiment_of(self) -> IntArray:
        """Which experiment each output belongs to."""
        return np.repeat(np.arange(len(self.experiments)), [len(e.observed) for e in self.experiments])

    @property
    def sd(self) -> Array | None:
        """Standard deviations of the noise before its scale; None where a covariance ties outputs together."""
        factors = [e.factor for e in self.experiments]
        return np.concatenate(factors) if all(f.ndim == 1 for f in factors) else None

    @property
    def noise_sd(self) -> Array:
        """Standard deviation of each output's noise before its scale, also where a covariance ties them together."""
        factors = [e.factor for e in self.experiments]
        return np.concatenate([f if f.ndim == 1 else np.sqrt(np.sum(f**2, axis=1)) for f in factors])

    @property
    def scaled(self) -> bool:
        """Whether some noise is unknown."""
        return any(e.scale is not None for e in self.experiments)

    def whiten(self, outputs: Array) -> Array:
        """Residuals of all outputs in units of the noise before its scale: independent, of unit variance; (n, m)."""
        parts = np.split(outputs, np.cumsum([len(e.observed) for e in self.experiments])[:-1], axis=1)
        return np.hstack([e.whiten(part) for e, part in zip(self.experiments, parts, strict=True)])

    def log_scales(self, theta: Array) -> Array:
        """log of each experiment's noise scale at the rows of ``theta``, shape (n, experiments)."""
        return np.column_stack([e.log_scale(theta) for e in self.experiments])

    def check_scales(self, theta: Array) -> None:
        """Refuse noise whose scale is not a positive number at each row of ``theta``."""
        for scale in (e.scale for e in self.experiments if e.scale is not None):
            for row in theta:
                try:
                    value = float(scale(row.copy()))
                except Exception as error:
                    failed = f"failed with {described(error)}"
                    raise ArgumentError(f"GaussianLikelihood: scale {failed} at theta = {row}") from error
                if not 0.0 < value < np.inf:
                    raise ArgumentError(
                        "GaussianLikelihood: scale must be a positive number everywhere in the prior; "
                        f"got {value} at theta = {row}"
                    )

    def log_constant(self, log_scales: Array) -> Array:
        """The log-likelihood of data that fit exactly, at these scales; shape (n,)."""
        counts = np.array([len(e.observed) for e in self.experiments], dtype=float)
        return np.asarray(sum(e.log_constant for e in self.experiments) - log_scales @ counts)


def noise_parameters(likelihood: Any) -> int:
    """How many parameters the noise has; none where the likelihood is any other function."""
    prior = likelihood.noise_prior if isinstance(likelihood, GaussianLikelihood) else None
    return 0 if prior is None else prior.dim


def _same(model: Any) -> Any:
    """By what two models are one: ``simulator.run`` is another object each time it is written."""
    return (id(model.__self__), model.__func__) if isinstance(model, MethodType) else id(model)


def _experiment(model: Model, data: Array, labels: Labels, index: ArrayLike | None, given: Given) -> Experiment:
    """Data (replicates, columns) whose noise has more to it."""
    out, used = np.arange(data.shape[1]), None
    if index is not None:
        which = np.asarray(index)
        if which.shape != out.shape or which.dtype.kind not in "iu" or which.min() < 0:
            raise ArgumentError(
                f"GaussianLikelihood: index must be {len(out)} whole numbers, the outputs that the data are of; "
                f"got {index!r}"
            )
        used, first, out = np.unique(which, return_index=True, return_inverse=True)
        noise = noise_model(data, out, labels.coordinates, given)
        labels = labels.taken(first)
    else:
        noise = noise_model(data, out, labels.coordinates, given)
    return Experiment.of_noise(model, noise, labels, used)
