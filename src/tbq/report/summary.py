"""A result in words and tables, for terminals and reports."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from dataclasses import asdict, dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

import numpy as np

from tbq.common.types import Array
from tbq.common.words import duration, nats, printable, value_and_sd
from tbq.evidence.moments import mean_and_sd
from tbq.problem.evaluation import Status
from tbq.report import diagnostics
from tbq.report.finding import Finding
from tbq.result.modes import maximum
from tbq.result.result import Result

_PRIOR_DRAWS = 2**12
_COLUMN = 9  # characters
_WIDTH = 80  # characters of a line: what every terminal has
_HEAD = 15  # characters of a heading
_LISTED = 8  # outputs whose coarse model is described one by one
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
    columns = zip(result.prior.labels, moments, after.T, maximum(result), before.T, strict=True)
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
    parts |= {"failures": e.failures} if e.failures else {}
    return parts | ({"not yet found": e.unsettled} if e.unsettled else {})


def log_evidence(result: Result) -> str:
    """With its error: four digits after the point, fewer where the error is of some nats."""
    value, sd = result.log_evidence, result.log_evidence_sd
    return value_and_sd(value, sd) if sd >= 1.0 else f"{nats(value)} ± {nats(sd)}"


def outcomes(result: Result) -> str:
    """``61 ok, 2 failed``."""
    counts = Counter(e.status for e in result.evaluations)
    return ", ".join(f"{counts[s]} {s}" for s in Status if counts[s]) or "none"


def times(result: Result) -> str:
    """Where the time went."""
    simulator = sum(e.seconds for e in (*result.evaluations, *result.coarse))
    return f"{duration(simulator)} in the log-likelihood" + (
        f", {duration(result.seconds)} in tbq" * (result.seconds > 0)
    )


def levels(result: Result) -> str:
    """What each level cost, and what the coarse model was worth; nothing where there is none."""
    if not result.coarse:
        return ""
    failed = sum(e.status.is_failure for e in result.coarse)
    wrong = f" ({failed} of which failed)" if failed else ""
    used = [f"{name} ρ = {u[0]:.3g} ± {u[1]:.2g}" for name, u in result.coarse_use.items() if not isinstance(u, str)]
    listed = ", ".join(used[:_LISTED]) + (f" and {len(used) - _LISTED} more" if len(used) > _LISTED else "")
    worth = f"used for {len(used)} of {len(result.coarse_use)}: {listed}" if used else "of no use: it was not used"
    return (
        f"{result.n_evaluations} fine runs and {result.n_coarse} coarse ones{wrong}, which cost "
        f"{result.coarse_cost:.2g} each: {result.cost:.3g} fine runs in all. The coarse model was {worth}."
    )


def opening(result: Result) -> str:
    """How the run ended."""
    word = "Converged" if result.converged else "Not converged"
    return f"{word} after {result.n_evaluations} evaluations. {result.stop.value}"


def in_force(result: Result) -> str:
    """The settings that a user chooses, as they were at the end."""
    options = result.options
    asked, used = options["tolerance"][1], options["tolerance_in_use"][1]
    strict = "" if np.isclose(asked, used) else f" ({used:.3g} where outputs are learned)"
    return f"tolerance {asked:.3g}{strict}, at most {options['max_evaluations']} runs, seed {result.seed}"


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


def as_dict(result: Result) -> dict[str, Any]:
    """What was found, for programs: numbers, findings and what is in force."""
    found = diagnostics.findings(result)
    return {
        "converged": result.converged,
        "stop": result.stop.name.lower(),
        "sentence": opening(result),
        "verdict": diagnostics.verdict(found),
        "log_evidence": result.log_evidence,
        "log_evidence_sd": result.log_evidence_sd,
        "error_parts": error_parts(result),
        "n_evaluations": result.n_evaluations,
        "n_coarse": result.n_coarse,
        "cost": result.cost,
        "coarse_use": {k: u if isinstance(u, str) else list(u) for k, u in result.coarse_use.items()},
        "outcomes": dict(Counter(str(e.status) for e in result.evaluations)),
        "seed": result.seed,
        "options": dict(result.options),
        "outage": result.outage,
        "parameters": {
            name: {k: v for k, v in asdict(row).items() if k != "label"}
            for name, row in zip(result.prior.names, marginals(result), strict=False)
        },
        "findings": [asdict(f) for f in found],
        "notes": list(result.notes),
    }


# --- plain text ---------------------------------------------------------------------------------------------


def text(result: Result) -> str:
    """The whole account for a terminal, within 80 columns."""
    found = diagnostics.findings(result)
    lines = [*_wrapped(opening(result)), *_wrapped(diagnostics.verdict(found)), ""]
    if result.surrogate is not None:
        lines += [*_evidence(result), "", *_marginals(result), *_modes(result), "", *_stages(result), ""]
    lines += [*_runs(result), *_against(found), "", *_wrapped(diagnostics.unseen(result))]
    return printable("\n".join(lines))  # messages and notes may be of a simulator, or of who knows what file


def _wrapped(sentence: str, first: str = "", then: str = "") -> list[str]:
    """A sentence in lines, what is before the first and what before the others; words longer than a line stay whole."""
    return textwrap.wrap(
        sentence,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _headed(head: str, sentence: str) -> list[str]:
    return _wrapped(sentence, f"{head:<{_HEAD}}", " " * _HEAD)


def _evidence(result: Result) -> list[str]:
    assert result.surrogate is not None
    parts = ", ".join(f"{name} {nats(sd)}" for name, sd in error_parts(result).items())
    return [
        f"log evidence   {log_evidence(result)}",
        f"evidence       {evidence(result)}",
        *_headed("error parts", parts),
        *_headed("surrogate", result.surrogate.description),
        *(line for finding in diagnostics.noisy_runs(result) for line in _headed("noise", finding.sentence)),
        *(_headed("in force", in_force(result)) if result.options else []),
    ]


def _marginals(result: Result) -> list[str]:
    heads = ("mean", "sd", "5 %", "median", "95 %", "mode", "narrowed")
    lines = ["parameter " + " ".join(f"{h:>{_COLUMN}}" for h in heads)]
    for row in marginals(result):
        numbers = (row.mean, row.sd, row.low, row.median, row.high, row.mode)
        cells = [_cell(v) for v in numbers] + [f"{f'{round(100 * row.narrowed)} %':>{_COLUMN}}"]
        if len(row.label) > _COLUMN:  # on a line of its own
            lines.append(row.label)
        lines.append(f"{row.label if len(row.label) <= _COLUMN else '':<{_COLUMN}} " + " ".join(cells))
    return lines


def _cell(value: float) -> str:
    """To four digits, or as many as there is room for."""
    short = next((s for digits in (4, 3, 2) if len(s := f"{value:.{digits}g}") <= _COLUMN), f"{value:.2g}")
    return f"{short:>{_COLUMN}}"


def _modes(result: Result) -> list[str]:
    """What the table above hides where the posterior is in pieces."""
    found = result.modes
    if len(found) < 2:
        return []
    lines = ["", *_headed("modes", f"{len(found)}, of mass " + ", ".join(f"{100 * m.mass:.0f} %" for m in found))]
    for number, mode in enumerate(found, 1):
        where = ", ".join(
            f"{name} {c:.4g} ± {w:.2g}" for name, c, w in zip(result.prior.names, mode.centre, mode.width, strict=True)
        )
        best = "no run near" if mode.best_run is None else f"best run {mode.best_run.id}"
        lines += _wrapped(f"{where}; {best}", f"  mode {number}: ", "    ")
    return lines


def _stages(result: Result) -> list[str]:
    heads = ("γ", "runs", "log ratio", "sd", "effective", "accepted", "moved")
    lines = ["stage     " + " ".join(f"{h:>{_COLUMN}}" for h in heads)]
    for number, *cells in stage_rows(result):
        lines.append(f"{number:<9} " + " ".join(f"{c:>{_COLUMN}}" for c in cells))
    return lines


def _runs(result: Result) -> list[str]:
    """What was run; the messages of others are shown as they came, but for what a terminal would obey."""
    messages = [e.message for e in result.evaluations if e.message]
    last = _said("last message", messages[-1]) if messages else []
    paused = _said("paused for", result.outage) if result.outage else []
    below = _headed("levels", levels(result)) if result.coarse else []
    return [*_headed("evaluations", f"{outcomes(result)}; {times(result)}"), *below, *last, *paused]


def _said(head: str, message: str) -> list[str]:
    """What others said, line by line; a line that is too long goes on in the next."""
    first, *others = message.splitlines() or [""]
    lines = _headed(head, first)
    for line in others:
        indent = line[: len(line) - len(line.lstrip())]
        lines += _wrapped(line.lstrip(), indent, f"{indent}  ") if len(line) > _WIDTH else [line]
    return lines


def _against(found: tuple[Finding, ...]) -> list[str]:
    lines = []
    for f in found:
        if not f.ok:
            lines += ["", *_wrapped(f"{f.name}: {f.sentence}"), *_wrapped(f.advice, "    ", "    ")]
    return lines
