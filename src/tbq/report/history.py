"""How it went: convergence, every run in a picture and a table, stages, and what the calculation was made of."""

from __future__ import annotations

import json
import math
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy

from tbq.common.words import brief
from tbq.problem.evaluation import Evaluation
from tbq.problem.families import in_words
from tbq.problem.prior import Prior
from tbq.report import parts, plots, style, summary
from tbq.report.parts import Pictures, details, paragraph, section, table
from tbq.result.posterior_prior import PosteriorPrior
from tbq.result.result import Result

_MOST_MESSAGES = 4  # of failed runs, outside of the table
_MOST_ROWS = 2000  # of the table of runs: more make a page that nobody reads and few browsers like


def account(result: Result, draw: Pictures, explored: str = "") -> str:
    """Convergence, runs, and the stages for those who open them; ``explored`` is the explorer, if it is to be here."""
    reached = result.surrogate is not None and any(r.gamma == 1.0 for r in result.history)
    figures = [draw.of(_CONVERGENCE, style.drawn(plots.convergence, result))] if reached else []
    if result.evaluations:
        figures.append(
            draw.of(
                "Every run in its order, to scale near the best; crosses are runs that failed",
                style.drawn(plots.timeline, result),
            )
        )
    return section(
        "How it went",
        paragraph(_spent(result)),
        paragraph("" if reached else "The stages have not reached the posterior (γ = 1): nothing has converged yet."),
        _failures(result),
        parts.pictures(figures),
        explored,
        _stages(result, draw) if result.stages else "",
        details(f"All {result.n_evaluations} runs in a table", *_runs(result)) if result.evaluations else "",
    )


_CONVERGENCE = (
    "Evidence against runs, as the stages had it: the inner band is what the surrogate did not know then, the outer "
    "one what would have been stated had the run ended there, with what it might still have found; it may be wider "
    "than the picture. The last bar is the evidence that is stated, with two standard deviations of all parts of its "
    "error"
)


def _spent(result: Result) -> str:
    text = f"{summary.outcomes(result)}; {summary.times(result)}. {summary.levels(result)}".rstrip()
    text += f" Paused for: {result.outage}" if result.outage else ""
    return f"{text} Surrogate: {result.surrogate.description}." if result.surrogate else text


def _failures(result: Result) -> str:
    """What failed runs said, the most frequent first."""
    said = Counter(brief(e.message) for e in result.evaluations if e.status.is_failure)
    rows = [[message, f"{times}"] for message, times in said.most_common(_MOST_MESSAGES)]
    if rest := len(said) - len(rows):
        rows.append(
            [f"{rest} other messages, in the table of runs", f"{sum(said.values()) - sum(int(r[1]) for r in rows)}"]
        )
    return table(["failed runs said", "times"], rows) if rows else ""


def _stages(result: Result, draw: Pictures) -> str:
    heads = ["stage", "γ", "runs", "log ratio", "sd", "effective points", "accepted", "moved"]
    figures = [
        draw.of("Stages from the prior to the posterior", style.drawn(plots.gamma_schedule, result)),
        draw.of("Points that carry weight in each stage", style.drawn(plots.stage_weights, result)),
    ]
    if plots.of_two(result):
        figures.append(draw.of("Stages, as they are known now", plots.stages(result), wide=True))
    return details("Stages", table(heads, summary.stage_rows(result)), parts.pictures(figures))


def _runs(result: Result) -> list[str]:
    heads = [
        "run",
        "outcome",
        "chosen by",
        "stage",
        *result.prior.simulated.labels,
        "log-likelihood",
        "seconds",
        "message",
    ]
    shown = result.evaluations[-_MOST_ROWS:]
    rows = [
        [
            f"{e.id}",
            str(e.status),
            e.origin,
            f"{e.stage}",
            *(f"{v:.5g}" for v in e.theta),
            f"{e.log_likelihood:.6g}" if math.isfinite(e.log_likelihood) else "",
            f"{e.seconds:.3g}",
            e.message,
        ]
        for e in shown
    ]
    note = "" if len(shown) == result.n_evaluations else f"The last {len(shown)}; result.evaluations has all of them."
    return [paragraph(note), table(heads, rows, sortable=True, words=(1, 2, len(heads) - 1))]


# --- any two quantities -------------------------------------------------------------------------------------


def explorer(
    names: Sequence[str],
    evaluations: Sequence[Evaluation],
    draws: Iterable[Iterable[float]] = (),
    start: Sequence[int] = (0, 1),
) -> str:
    """A scatter of all runs over quantities of the reader's choice; draws of the posterior behind it.

    ``start`` are the parameters that it begins with.
    """
    runs = [
        {
            "id": e.id,
            "status": str(e.status),
            "origin": e.origin,
            "message": e.message,
            "values": [_number(v) for v in (e.id, *e.theta, e.log_likelihood, e.seconds)],
        }
        for e in evaluations
    ]
    columns = ["run", *names, "log-likelihood", "seconds"]
    data = {
        "columns": columns,
        "parameters": len(names),
        "start": [1 + i for i in (*start, len(names))[:2]],  # of one parameter: over the log-likelihood
        "runs": runs,
        "draws": [[_number(v) for v in d] for d in draws],
    }
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")  # nothing in it can end the script element
    return (
        '<div class="explorer"><h3>Any two quantities</h3>'
        '<label>across <select id="x"></select></label><label>up <select id="y"></select></label>'
        '<svg id="explorer" role="group" aria-label="runs"></svg>'
        '<p class="told" id="told" aria-live="polite">Point at a run, tap it, or go through them with the arrow keys. '
        "Grey: initial runs; blue: chosen ones; diamonds: infeasible (orange) or failed; light dots: posterior draws. "
        "Log-likelihoods far below the others, and of runs that failed, are drawn at the edge.</p></div>"
        f'<script type="application/json" id="runs">{text}</script>'
    )


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


# --- the calculation ----------------------------------------------------------------------------------------


def calculation(result: Result) -> str:
    """What the result was made of, so that the page documents it."""
    from tbq.common.version import __version__ as version

    prior = result.prior
    marginals = [
        [label, in_words(m), *(f"{v:.4g}" for v in m.ppf([0.05, 0.95]))]
        for label, m in zip(prior.labels, prior.marginals.values(), strict=True)
    ]
    seed = "not given" if result.seed is None else f"{result.seed}"
    facts = [
        ["seed", seed],
        [
            "versions",
            f"tbq {version}, NumPy {np.__version__}, SciPy {scipy.__version__}, Python {platform.python_version()}",
        ],
    ]
    return section(
        "The calculation",
        table(["parameter", "prior", "5 %", "95 %"], marginals, words=(0, 1)),
        paragraph(_dependence(prior)),
        table(["setting", "value"], [*_options(result.options), *facts], words=(0, 1)),
    )


def _options(options: Mapping[str, Any]) -> list[list[str]]:
    """The options in force, by their names; a pair is of tolerances."""
    return [[name, _words(value)] for name, value in options.items()]


def _words(value: Any) -> str:
    if isinstance(value, list) and value and math.isinf(value[0]):
        return f"{_words(value[-1])}, in the final stage alone"
    if isinstance(value, list) and value:
        return f"{_words(value[-1])} in the final stage, {_words(value[0])} before"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _dependence(prior: Prior) -> str:
    """What the marginals do not say."""
    if isinstance(prior, PosteriorPrior):
        runs = prior.result.n_evaluations
        return (
            f"The prior is the posterior of an earlier update with {runs} runs; these were the marginals before that."
        )
    said = ["The parameters are correlated a priori."] if prior.correlation is not None else []
    if prior.constraint is not None:
        said.append(f"A constraint leaves {100 * prior.constraint_mass:.3g} % of the prior.")
    return " ".join(said)
