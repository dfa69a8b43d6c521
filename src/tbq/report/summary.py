"""A result in words and tables, for terminals and reports."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

import numpy as np
from scipy import optimize

from tbq.common.types import Array
from tbq.common.words import duration, nats, printable
from tbq.evidence.moments import mean_and_sd
from tbq.problem.evaluation import Status
from tbq.report import diagnostics
from tbq.report.diagnostics import Finding
from tbq.result.result import Result

_PRIOR_DRAWS = 2**12
_STEP = 1e-4  # of differences, in working coordinates
_REFUSED = 1e25  # outside the prior
_COLUMN = 10  # characters
_NO_DIGITS = 1e15  # a logarithm that has none after the point: only the power of ten is known


@dataclass(frozen=True)
class Marginal:
    """One parameter's posterior in numbers."""

    label: str
    mean: float
    sd: float
    low: float  # the 90 % interval
    median: float
    high: float
    mode: float  # of all parameters together
    narrowed: (
        float  # fraction of the prior's 90 % interval that the data have taken away; negative where they widened it
    )


def marginals(result: Result) -> list[Marginal]:
    """A row for each parameter; none where nothing was learned."""
    if len(result.samples) == 0:
        return []
    before = _interval(result.prior.sample(_PRIOR_DRAWS, 0, "sobol"))
    after = _interval(result.samples)
    moments = zip(*mean_and_sd(result.samples), np.median(result.samples, axis=0), strict=True)
    columns = zip(result.prior.labels, moments, after.T, mode(result), before.T, strict=True)
    return [
        Marginal(
            label,
            mean=float(mean),
            sd=float(sd),
            low=float(low),
            median=float(median),
            high=float(high),
            mode=_rounded(float(best), float(sd)),
            narrowed=float(1.0 - (high - low) / (prior_high - prior_low)),
        )
        for label, (mean, sd, median), (low, high), best, (prior_low, prior_high) in columns
    ]


def mode(result: Result) -> Array:
    """Where the posterior density is highest: the best of the draws, climbed from."""
    surrogate, prior = result.surrogate, result.prior
    assert surrogate is not None

    def log_density(z: Array) -> Array:
        value = prior.log_density(prior.from_working(z))
        inside = np.isfinite(value)
        value[inside] += surrogate.log_mean(surrogate.at(z[inside]), 1.0)
        return np.where(inside, value, -_REFUSED)

    def descent(z: Array) -> tuple[float, Array]:
        steps = _STEP * np.eye(len(z))
        values = -log_density(np.vstack([z, z + steps, z - steps]))
        ahead, behind = values[1 : len(z) + 1], values[len(z) + 1 :]
        slope = (ahead - behind) / (2.0 * _STEP)
        return values[0], np.where(np.maximum(ahead, behind) < 0.5 * _REFUSED, slope, 0.0)

    z = prior.to_working(result.samples)
    start = z[int(np.argmax(log_density(z)))]
    limits = list(zip(*prior.working_bounds, strict=True))
    climbed = optimize.minimize(descent, start, jac=True, method="L-BFGS-B", bounds=limits).x
    best = max(start, climbed, key=lambda point: log_density(point[None, :])[0])
    return prior.from_working(best[None, :])[0]


def _rounded(value: float, sd: float) -> float:
    """To a thousandth of its standard deviation: a climb finds no more."""
    return round(value, 3 - math.floor(math.log10(sd))) if sd > 0 else value


def _interval(draws: Array) -> Array:
    return np.quantile(draws, [0.05, 0.95], axis=0)


def error_parts(result: Result) -> dict[str, float]:
    """The evidence's error by cause: squares add up to the total's. The surrogate's is the larger of two estimates."""
    e = result.errors
    parts = {"surrogate": e.surrogate} if e.surrogate >= e.check else {"surrogate, by check runs": e.check}
    parts |= {"hyperparameters": e.hyperparameters, "Monte Carlo": e.monte_carlo}
    return parts | ({"failures": e.failures} if e.failures else {})


def outcomes(result: Result) -> str:
    """``61 ok, 2 failed``."""
    counts = Counter(e.status for e in result.evaluations)
    return ", ".join(f"{counts[s]} {s}" for s in Status if counts[s]) or "none"


def times(result: Result) -> str:
    """Where the time went."""
    simulator = sum(e.seconds for e in result.evaluations)
    return f"{duration(simulator)} in the log-likelihood" + (
        f", {duration(result.seconds)} in tbq" * (result.seconds > 0)
    )


def opening(result: Result) -> str:
    """How the run ended."""
    word = "Converged" if result.converged else "Not converged"
    return f"{word} after {result.n_evaluations} evaluations. {result.stop.value}"


def stage_rows(result: Result) -> list[list[str]]:
    """Number, γ, runs, log-ratio of evidences and its sd, effective points, moves accepted, points that moved."""
    return [
        [
            f"{i}",
            f"{s.gamma:.4g}",
            f"{s.evaluations}",
            f"{s.log_ratio:.4g}",
            f"{s.log_ratio_sd:.2g}",
            f"{s.effective_sample_size:.0f}",
            f"{100 * s.acceptance:.0f} %",
            f"{100 * s.unique:.0f} %",
        ]
        for i, s in enumerate(result.stages, 1)
    ]


def evidence(result: Result) -> str:
    """The evidence, also where it is too small or too large for a float, and its coefficient of variation."""
    if 0.0 < result.evidence < np.inf:
        number = f"{result.evidence:.4e}"
    elif abs(result.log_evidence) > _NO_DIGITS:
        number = f"10^({result.log_evidence / math.log(10.0):.4g})"
    else:
        number = f"{Context(8, Emin=MIN_EMIN, Emax=MAX_EMAX).exp(Decimal(result.log_evidence)):.4e}"
    cov = result.evidence_cov
    return f"{number}, coefficient of variation " + (f"{100 * cov:.1f} %" if cov < 10.0 else "above 1000 %")


# --- plain text ---------------------------------------------------------------------------------------------


def text(result: Result) -> str:
    """The whole account for a terminal."""
    found = diagnostics.findings(result)
    lines = [opening(result), diagnostics.verdict(found), ""]
    if result.surrogate is not None:
        lines += [*_evidence(result), "", *_marginals(result), "", *_stages(result), ""]
    return "\n".join([*lines, *_runs(result), *_against(found), "", diagnostics.unseen(result)])


def _evidence(result: Result) -> list[str]:
    assert result.surrogate is not None
    return [
        f"log evidence   {nats(result.log_evidence)} ± {nats(result.log_evidence_sd)}",
        f"evidence       {evidence(result)}",
        "error parts    " + ", ".join(f"{name} {nats(sd)}" for name, sd in error_parts(result).items()),
        f"surrogate      {result.surrogate.description}",
    ]


def _marginals(result: Result) -> list[str]:
    rows = marginals(result)
    width = max(9, *(len(row.label) for row in rows))
    heads = ("mean", "sd", "5 %", "median", "95 %", "mode", "narrowed")
    lines = [f"{'parameter':<{width}} " + " ".join(f"{h:>{_COLUMN}}" for h in heads)]
    for row in rows:
        numbers = (row.mean, row.sd, row.low, row.median, row.high, row.mode)
        cells = [f"{v:>{_COLUMN}.4g}" for v in numbers] + [f"{f'{100 * row.narrowed:.0f} %':>{_COLUMN}}"]
        lines.append(f"{row.label:<{width}} " + " ".join(cells))
    return lines


def _stages(result: Result) -> list[str]:
    heads = ("γ", "runs", "log ratio", "sd", "effective", "accepted", "moved")
    lines = ["stage     " + " ".join(f"{h:>{_COLUMN}}" for h in heads)]
    for number, *cells in stage_rows(result):
        lines.append(f"{number:<9} " + " ".join(f"{c:>{_COLUMN}}" for c in cells))
    return lines


def _runs(result: Result) -> list[str]:
    messages = [e.message for e in result.evaluations if e.message]
    last = [f"last message   {printable(messages[-1])}"] if messages else []
    paused = [f"paused for     {printable(result.outage)}"] if result.outage else []
    return [f"evaluations    {outcomes(result)}; {times(result)}", *last, *paused]


def _against(found: tuple[Finding, ...]) -> list[str]:
    lines = [f"{f.name}: {f.sentence}\n    {f.advice}" for f in found if not f.ok]
    return ["", *lines] if lines else []
