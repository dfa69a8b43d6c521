"""Runs at posterior draws: what the model predicts, and what follows from the parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tbq.common.arguments import floats, generator, whole
from tbq.common.errors import ArgumentError, TbqError
from tbq.common.types import Array, ArrayLike
from tbq.common.words import described
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Seed
from tbq.result.result import Result
from tbq.simulate.pool import ExecutorLike, answers
from tbq.simulate.worker import Answer

Model = Callable[[Array], Any]
Noise = ArrayLike | Literal["auto"] | None


@dataclass(frozen=True)
class Prediction:
    """Posterior predictive draws, a row each."""

    names: tuple[str, ...]
    theta: Array  # (n, d), noise parameters too
    outputs: Array  # (n, m): what the model returned
    draws: Array  # (n, m): with discrepancy and noise, what would be measured
    noise: str  # whose it is, in words
    failures: tuple[str, ...] = ()  # messages of the runs that gave nothing; their draws are left out
    units: tuple[str, ...] = ()  # of the outputs, where they are known

    @property
    def labels(self) -> tuple[str, ...]:
        """Names with their units."""
        return labelled(self.names, self.units)

    @property
    def mean(self) -> Array:
        return np.asarray(self.draws.mean(axis=0))

    @property
    def sd(self) -> Array:
        return np.asarray(self.draws.std(axis=0))

    def quantile(self, q: float | Sequence[float]) -> Array:
        """Quantiles of each output, shape (m,) or (len(q), m)."""
        return np.asarray(np.quantile(self.draws, q, axis=0))

    def __getitem__(self, name: str) -> Array:
        """The draws of one output."""
        if name not in self.names:
            raise ArgumentError(f"Prediction: there is no output {name!r}; there are {', '.join(self.names)}")
        return self.draws[:, self.names.index(name)]

    def summary(self) -> str:
        """A table of the outputs, and what is in it."""
        width = max(6, *(len(name) for name in self.labels))
        lines = [f"{'output':<{width}}  {'mean':>11} {'sd':>11} {'5 %':>11} {'median':>11} {'95 %':>11}"]
        for name, *numbers in zip(self.labels, self.mean, self.sd, *self.quantile([0.05, 0.5, 0.95]), strict=True):
            lines.append(f"{name:<{width}}  " + " ".join(f"{v:>11.4g}" for v in numbers))
        lines += ["", f"{len(self.draws)} posterior draws, {self.noise}"]
        if self.failures:
            lines.append(f"{len(self.failures)} more failed and are left out; the last said: {self.failures[-1]}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"<Prediction: {len(self.draws)} draws of {len(self.names)} outputs, {self.noise}{failed}>"


def predict(
    result: Result,
    model: Model | None = None,
    n: int = 100,
    *,
    noise: Noise = "auto",
    discrepancy: bool = True,
    executor: ExecutorLike | None = None,
    vectorized: bool = False,
    seed: Seed = None,
) -> Prediction:
    """Run ``model`` at ``n`` posterior draws. See :meth:`tbq.Result.predict`."""
    model = result.likelihood if model is None else model
    if model is None:
        raise ArgumentError("predict: model is needed where the likelihood is no tbq.GaussianLikelihood; got None")
    if not callable(model):
        raise ArgumentError(f"predict: model must be a function of theta; got {type(model).__name__}")
    n = whole("predict: n", n)
    rng = generator("predict", seed)
    theta = result.sample(n, rng)
    simulated = theta[:, : result.prior.simulated.dim]
    given = [simulated] if vectorized else list(simulated)
    names, rows, failures = _outputs(answers(model, given, executor), len(theta))
    kept = np.array([row is not None for row in rows])
    if not kept.any():
        raise TbqError(f"predict: none of the {n} runs of the model gave numbers; the last said: {failures[-1]}")
    theta, outputs = theta[kept], np.array([row for row in rows if row is not None])
    if names is not None and noise == "auto":
        noise = None
    added, whose = _noise(result.likelihood, theta, outputs, noise, discrepancy, rng)
    units: tuple[str, ...] = ()
    if names is None and model is result.likelihood:
        names, units = result.likelihood.names, result.likelihood.units
    names = names or tuple(f"y{i + 1}" for i in range(outputs.shape[1]))
    return Prediction(names, theta, outputs, outputs + added, whose, tuple(failures), units)


def joint(parts: Sequence[Prediction]) -> Prediction:
    """Draws of several models together. Their parameters differ: ``theta`` is empty."""
    names = parts[0].names
    if any(part.names != names for part in parts):
        raise ArgumentError(f"predictions must have the same outputs; got {' and '.join(str(p.names) for p in parts)}")
    whose = ", ".join(dict.fromkeys(part.noise for part in parts))
    outputs, draws = np.vstack([p.outputs for p in parts]), np.vstack([p.draws for p in parts])
    failures = sum((p.failures for p in parts), ())
    return Prediction(names, np.empty((len(draws), 0)), outputs, draws, whose, failures, parts[0].units)


def labelled(names: Sequence[str], units: Sequence[str]) -> tuple[str, ...]:
    """Names with their units, where they have any."""
    if not units:
        return tuple(names)
    return tuple(f"{name} [{unit}]" if unit else name for name, unit in zip(names, units, strict=True))


def _outputs(found: list[Answer], n: int) -> tuple[tuple[str, ...] | None, list[Array | None], list[str]]:
    """Names where the model gives them, a row of numbers per draw or None, and what was wrong with the others."""
    names: tuple[str, ...] | None = None
    width: int | None = None
    rows: list[Array | None] = []
    messages: list[str] = []
    for answer in found:
        count = n // len(found)  # all, where the model takes all at once
        try:
            named, block = _block(answer, count)
        except Exception as error:  # of an object whose own conversion fails, too
            rows += [None] * count
            messages += [str(error) if isinstance(error, ValueError) else described(error)] * count
            continue
        if width is None:
            names, width = named, block.shape[1]
        for row in block:
            wrong = _wrong(row, width, named, names)
            rows.append(None if wrong else row)
            messages += [wrong] if wrong else []
    return names, rows, messages


def _block(answer: Answer, n: int) -> tuple[tuple[str, ...] | None, Array]:
    """The rows that one answer holds, and their names."""
    if answer.error is not None:
        raise ValueError(answer.error)
    value, names = answer.value if answer.outputs is None else answer.outputs, None
    if isinstance(value, Mapping):
        names, value = tuple(map(str, value)), np.array([floats(v) for v in value.values()]).T
    block = floats(value)
    if block.ndim < 2 and block.size % n == 0:
        block = block.reshape(n, -1)
    if block.ndim != 2 or len(block) != n:
        raise ValueError(f"the model returned numbers of shape {np.shape(value)} for {n} points")
    return names, block


def _wrong(row: Array, width: int, named: tuple[str, ...] | None, names: tuple[str, ...] | None) -> str:
    if len(row) != width or named != names:
        return f"the model returned {named or len(row)}, and {names or width} before"
    return "" if np.all(np.isfinite(row)) else "the model returned nan or an infinity"


def _noise(
    likelihood: GaussianLikelihood | None,
    theta: Array,
    outputs: Array,
    noise: Noise,
    discrepancy: bool,
    rng: np.random.Generator,
) -> tuple[Array, str]:
    """What is added to the model's outputs at each draw, and what that is: the discrepancy, and the noise."""
    m = outputs.shape[1]
    known = None if likelihood is None or len(likelihood.observed) != m else likelihood.noise_model
    lacking, whose = np.zeros((len(theta), m)), ""
    if known is not None and known.has_discrepancy and likelihood is not None:
        whose = ", without the discrepancy"
        if discrepancy:
            lacking, whose = (
                known.discrepancy(likelihood.noise_parameters(theta), outputs, rng),
                ", with the discrepancy",
            )
    added, of_noise = _noise_alone(likelihood, theta, outputs, noise, rng)
    return lacking + added, of_noise + whose


def _noise_alone(
    likelihood: GaussianLikelihood | None, theta: Array, outputs: Array, noise: Noise, rng: np.random.Generator
) -> tuple[Array, str]:
    m = outputs.shape[1]
    if noise is None:
        return np.zeros((len(theta), m)), "without noise"
    if not isinstance(noise, str):
        given = GaussianLikelihood(lambda theta: theta, np.zeros(m), noise)
        return given.noise(theta, rng), "with the noise that was given"
    if noise != "auto":
        raise ArgumentError(f"predict: noise must be 'auto', None, standard deviations or a covariance; got {noise!r}")
    if likelihood is None:
        return np.zeros((len(theta), m)), "without noise: none is known"
    if len(likelihood.observed) != m:
        return np.zeros((len(theta), m)), f"without noise: the likelihood's is of {len(likelihood.observed)} outputs"
    return likelihood.noise(theta, rng, outputs), "with the likelihood's noise"
