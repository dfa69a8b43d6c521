"""Which model? Evidences side by side, with the numerical error of everything that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from tbq.common import markup
from tbq.common.arguments import generator, whole
from tbq.common.errors import ArgumentError
from tbq.common.types import Array, ArrayLike
from tbq.common.words import nats
from tbq.problem.prior import Seed
from tbq.result import predict
from tbq.result.result import Result
from tbq.simulate.pool import ExecutorLike

# Kass and Raftery (1995): 2 log B from 0, 2, 6 and 10 on
GRADES = ("not worth more than a bare mention", "positive", "strong", "very strong")
_BORDERS = (1.0, 3.0, 5.0)
_SURE = 2.0  # standard deviations of log B within which a verdict must hold
_DRAWS = 20_000  # of the evidences, for the errors of the models' probabilities
_UNKNOWN = (
    "tbq cannot tell whether these likelihoods are normalised: a factor that one has and another lacks would decide."
)


@dataclass(frozen=True)
class Comparison:
    """Models in the order of their evidence, best first. See :func:`compare`."""

    results: Mapping[str, Result]
    prior_probabilities: Array  # (models,)
    note: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.results)

    @property
    def log_evidence(self) -> Array:
        return np.array([r.log_evidence for r in self.results.values()])

    @property
    def log_evidence_sd(self) -> Array:
        return np.array([r.log_evidence_sd for r in self.results.values()])

    @property
    def probabilities(self) -> Array:
        """Posterior probabilities of the models, given that one of them is true."""
        return np.asarray(special.softmax(self.log_evidence + np.log(self.prior_probabilities)))

    def probability_interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """What numerical error leaves of the probabilities: their quantiles for independent normal log-evidences."""
        if not 0.0 < level < 1.0:
            raise ArgumentError(f"probability_interval: level must lie between 0 and 1; got {level!r}")
        noise = np.random.default_rng(0).standard_normal((_DRAWS, len(self.names)))
        log_evidence = self.log_evidence + self.log_evidence_sd * noise
        draws = special.softmax(log_evidence + np.log(self.prior_probabilities), axis=1)
        low, high = np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        return low, high

    def log_bayes_factor(self, model: str, other: str) -> tuple[float, float]:
        """Natural logarithm of the Bayes factor of ``model`` over ``other``, and its standard deviation."""
        a, b = self._result(model), self._result(other)
        return a.log_evidence - b.log_evidence, float(np.hypot(a.log_evidence_sd, b.log_evidence_sd))

    def verdict(self, model: str, other: str) -> str:
        """The evidence for ``model`` against ``other`` on the scale of Kass and Raftery, where it can be told."""
        return judge(model, other, *self.log_bayes_factor(model, other))

    def predict(
        self,
        models: Mapping[str, Callable[[Array], Any]] | None = None,
        n: int = 100,
        *,
        noise: predict.Noise = "auto",
        discrepancy: bool = True,
        executor: ExecutorLike | None = None,
        vectorized: bool = False,
        seed: Seed = None,
        rng: Seed = None,
    ) -> predict.Prediction:
        """Model-averaged prediction: ``n`` runs, shared among the models by their probabilities.

        ``models`` are functions of each model's own ``theta`` with the same outputs, by default those behind their
        Gaussian likelihoods. Their draws come one model after the other.
        """
        n = whole("Comparison.predict: n", n)
        if models is not None and set(models) != set(self.names):
            wanted, got = ", ".join(self.names), ", ".join(models)
            raise ArgumentError(f"Comparison.predict: models must be functions for {wanted}; got {got}")
        draws = generator("Comparison.predict", seed, rng)
        parts = []
        for (name, result), count in zip(self.results.items(), _counts(self.probabilities, n), strict=True):
            if count:
                model = None if models is None else models[name]
                part = predict.predict(
                    result,
                    model,
                    count,
                    noise=noise,
                    discrepancy=discrepancy,
                    executor=executor,
                    vectorized=vectorized,
                    seed=draws,
                )
                parts.append(part)
        return predict.joint(parts)

    def summary(self) -> str:
        """A table, what it means, and what it rests on."""
        width = max(5, *(len(name) for name in self.names))
        low, high = self.probability_interval()
        lines = [f"{'model':<{width}}  {'log evidence':>22}  {'log B of best':>20}  probability (90 %)"]
        for i, name in enumerate(self.names):
            r = self.results[name]
            evidence = f"{nats(r.log_evidence, 3)} ± {nats(r.log_evidence_sd, 3)}"
            factor = "{:.3f} ± {:.3f}".format(*self.log_bayes_factor(self.names[0], name)) if i else ""
            chance = f"{_chance(self.probabilities[i])} ({_chance(low[i])} to {_chance(high[i])})"
            lines.append(f"{name:<{width}}  {evidence:>22}  {factor:>20}  {chance}")
        lines += ["", *(self.verdict(self.names[0], other) for other in self.names[1:])]
        rough = [name for name, r in self.results.items() if not r.converged]
        if rough:
            lines.append(f"Not converged: {', '.join(rough)}. Their errors may be larger than they say.")
        return "\n".join([*lines, self.note] if self.note else lines)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        chances = zip(self.names, self.probabilities, strict=True)
        return f"<Comparison: {', '.join(f'{name} {_chance(chance)}' for name, chance in chances)}>"

    def _repr_html_(self) -> str:
        """For notebooks: a row for each model, the best first, and the verdicts."""
        low, high = self.probability_interval()
        rows = [
            [
                name,
                f"{nats(r.log_evidence, 3)} ± {nats(r.log_evidence_sd, 3)}",
                f"{_chance(self.probabilities[i])} ({_chance(low[i])} to {_chance(high[i])})",
            ]
            for i, (name, r) in enumerate(self.results.items())
        ]
        verdicts = [self.verdict(self.names[0], other) for other in self.names[1:]]
        heads = ["model", "log evidence", "probability (90 %)"]
        return markup.table(heads, rows) + markup.paragraphs(*verdicts, self.note)

    def plot(self, axes: Any = None) -> Any:
        """Log-evidences with two standard deviations and, on a second pair of axes, probabilities (90 % intervals)."""
        from tbq.report import plots

        if axes is None:
            _, axes = plots.pyplot().subplots(1, 2, figsize=(9, 1.2 + 0.5 * len(self.names)), layout="constrained")
        rows = np.arange(len(self.names))[::-1]
        frame = {"yticks": rows, "yticklabels": self.names, "ylim": (-0.6, len(rows) - 0.4)}
        low, high = self.probability_interval()
        middle = np.clip(self.probabilities, low, high)
        style = {"fmt": "o", "color": "#0072b2", "capsize": 4}
        axes[0].errorbar(self.log_evidence, rows, xerr=2.0 * self.log_evidence_sd, **style)
        axes[0].set(xlabel="log evidence ± 2 sd", **frame)
        axes[1].barh(rows, self.probabilities, height=0.5, color="#56b4e9")
        axes[1].errorbar(middle, rows, xerr=[middle - low, high - middle], fmt="none", color="#1d2430", capsize=4)
        axes[1].set(xlabel="probability, 90 % interval", xlim=(0.0, 1.0), **frame)
        return axes

    def report(self, path: str | Path, *, title: str = "") -> None:
        """Write it all, with pictures, to one HTML file that needs nothing else; or a PDF, by a browser."""
        from tbq.report.comparison import write

        write(self, path, title=title)

    def _result(self, name: str) -> Result:
        if name not in self.results:
            raise ArgumentError(f"Comparison: there is no model {name!r}; there are {', '.join(self.names)}")
        return self.results[name]


def compare(
    results: Mapping[str, Result],
    *,
    prior_probabilities: Mapping[str, float] | None = None,
    assume_normalized: bool = False,
) -> Comparison:
    """Bayes factors and probabilities of models of the same data, with their numerical errors.

    Evidences can be compared only where the likelihoods lack the same constant factor. What a
    :class:`tbq.GaussianLikelihood` lacks is known: an un-normalised one is compared with others that lack as much, and
    refused beside normalised ones. Of other functions nothing is known: they are compared with each other, which the
    summary says, and refused beside Gaussian likelihoods unless ``assume_normalized``.

    Parameters
    ----------
    results
        Name → :class:`tbq.Result`, two or more.
    prior_probabilities
        Name → probability of the model before the data; equal where they are not given. They need not sum to one.
    assume_normalized
        Says that likelihoods that tbq cannot judge are densities of the data, all factors included.

    Returns
    -------
    Comparison
        ``print`` it; ``probabilities``, ``log_bayes_factor`` and ``verdict`` have the numbers.

    Raises
    ------
    TbqError
        Where evidences cannot be compared: other data, other missing factors, a run that found none.

    Examples
    --------
    >>> prior = tbq.Prior({"k": stats.uniform(0.0, 2.0)})
    >>> fit = lambda sd: tbq.infer(tbq.GaussianLikelihood(lambda theta: theta, [1.2], sd), prior, seed=0)
    >>> tbq.compare({"precise": fit(0.1), "rough": fit(1.0)}).names
    ('precise', 'rough')
    """
    results = dict(results) if isinstance(results, Mapping) else {}
    if len(results) < 2:
        raise ArgumentError("compare: results must be a mapping of two or more names to tbq.Result")
    for name, result in results.items():
        if not isinstance(result, Result):
            raise ArgumentError(f"compare: {name!r} must be a tbq.Result; got {type(result).__name__}")
        if not np.isfinite(result.log_evidence):
            raise ArgumentError(f"compare: {name!r} has no evidence. {result.stop.value}")
    _check_data(results)
    known = _check_constants(results, assume_normalized)
    names = sorted(results, key=lambda name: -results[name].log_evidence)
    chances = _probabilities(prior_probabilities, names)
    return Comparison({name: results[name] for name in names}, chances, "" if known else _UNKNOWN)


def judge(model: str, other: str, log_factor: float, sd: float) -> str:
    """A verdict on Kass and Raftery's scale, or why there can be none: it must hold within two standard deviations."""
    if log_factor < 0.0:
        model, other, log_factor = other, model, -log_factor
    low, high = log_factor - _SURE * sd, log_factor + _SURE * sd
    least, most = _grade(low), _grade(high)
    factor = f"log Bayes factor {log_factor:.2f} ± {sd:.2f}"
    if least == most:
        return f"The evidence for {model} over {other} is {GRADES[most]} ({factor})."
    if least < 0:
        return f"Undecided: the numerical error is too large to say which of {model} and {other} is better ({factor})."
    return (
        f"The evidence for {model} over {other} lies between '{GRADES[least]}' and '{GRADES[most]}': "
        f"the numerical error is too large to decide ({factor})."
    )


def _chance(probability: float) -> str:
    return f"{probability:.3f}" if probability > 5e-4 else f"{probability:.1e}"


def _grade(log_factor: float) -> int:
    """0 to 3 for the scale's grades, negative where the other model is favoured."""
    return int(np.sign(log_factor)) * int(np.searchsorted(_BORDERS, abs(log_factor), side="right"))


def _check_data(results: Mapping[str, Result]) -> None:
    data = {name: np.sort(r.likelihood.data) for name, r in results.items() if r.likelihood is not None}
    first = next(iter(data), "")
    for name, observed in data.items():
        if not np.array_equal(observed, data[first]):
            raise ArgumentError(
                f"compare: {first!r} and {name!r} have other data: their evidences mean nothing together"
            )


def _check_constants(results: Mapping[str, Result], assume_normalized: bool) -> bool:
    """Refuse evidences that lack different factors; whether the factors are known."""
    unknown = 0.0 if assume_normalized else None
    missing = {n: unknown if r.likelihood is None else r.likelihood.missing_constant for n, r in results.items()}
    values = [*missing.values()]
    if all(v is None for v in values):
        return False
    if any(v is None for v in values):
        strangers = ", ".join(repr(n) for n, v in missing.items() if v is None)
        raise ArgumentError(
            f"compare: whether the likelihood of {strangers} is normalised is not known, unlike the others'. Use "
            "tbq.GaussianLikelihood for it too, or say so with assume_normalized=True if it is"
        )
    if np.ptp(np.array(values, dtype=float)) > 1e-9:
        lacking = ", ".join(f"{v:.4g} in {n!r}" for n, v in missing.items())
        raise ArgumentError(
            f"compare: the likelihoods are not normalised alike: their logarithms lack {lacking}. "
            "Use normalized=True in all of them"
        )
    return True


def _probabilities(given: Mapping[str, float] | None, names: list[str]) -> Array:
    if given is None:
        return np.full(len(names), 1.0 / len(names))
    if set(given) != set(names):
        raise ArgumentError(f"compare: prior_probabilities must name {', '.join(names)}; got {', '.join(given)}")
    values = np.array([float(given[name]) for name in names])
    if not (np.all(values > 0.0) and np.all(np.isfinite(values))):
        raise ArgumentError(f"compare: prior_probabilities must be positive; got {dict(given)}")
    return values / values.sum()


def _counts(probabilities: ArrayLike, n: int) -> list[int]:
    """``n`` dealt out in proportion; what rounding leaves goes to the largest remainders."""
    exact = n * np.asarray(probabilities, dtype=float)
    counts = np.floor(exact).astype(int)
    for i in np.argsort(counts - exact, kind="stable")[: n - counts.sum()]:
        counts[i] += 1
    return [int(c) for c in counts]
