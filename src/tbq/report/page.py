"""A result as one HTML file that needs nothing else: numbers, findings, pictures, and every run to look at.

It makes no request to anywhere, and text that comes from the user is shown, never run.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tbq.report import diagnostics, fit, influence, pairs, parts, plots, style, summary
from tbq.report.finding import Finding
from tbq.report.history import account, calculation, explorer
from tbq.report.left_out import left_out
from tbq.report.parts import Pictures, paragraph, section, table
from tbq.result.result import Result

_DRAWS = 400  # in the explorer


def write(result: Result, path: str | Path, *, title: str = "", true_runs: fit.TrueRuns | None = None) -> None:
    """The page of a result, in a file. Needs matplotlib."""
    file = parts.target(path)
    parts.write(file, parts.document(title, body(result, true_runs)))


def body(result: Result, true_runs: fit.TrueRuns | None = None) -> str:
    """All there is to say of a result; ``true_runs`` are shown beside the surrogate's predictions."""
    found = diagnostics.findings(result)
    bad = "" if all(f.ok for f in found) else " bad"
    draw = Pictures()
    content = [paragraph(summary.opening(result)), paragraph(diagnostics.verdict(found), f"verdict{bad}")]
    learned = result.surrogate is not None
    if learned:
        content += [_evidence(result), _parameters(result, draw), fit.of_data(result, draw, true_runs)]
        content.append(influence.of_result(result, draw))
    content.append(_trust(result, found, draw))
    content.append(
        account(result, draw, "" if learned else explorer(result.prior.simulated.labels, result.evaluations))
    )
    content.append(calculation(result))
    return "\n".join(part for part in content if part)


def _evidence(result: Result) -> str:
    errors = summary.error_parts(result)
    return section(
        "Evidence",
        paragraph(f"log evidence {summary.log_evidence(result)}", "big"),
        paragraph(f"evidence {summary.evidence(result)}"),
        table(["part of the error", "sd"], [[name, f"{sd:.4f}"] for name, sd in errors.items()]),
    )


def _parameters(result: Result, draw: Pictures) -> str:
    heads = ["parameter", "mean", "sd", "5 %", "median", "95 %", "mode", "narrowed by"]
    rows = [
        [
            m.label,
            *(f"{v:.4g}" for v in (m.mean, m.sd, m.low, m.median, m.high, m.mode)),
            f"{round(100 * m.narrowed)} %",
        ]
        for m in summary.marginals(result)
    ]
    shown = pairs.most_narrowed(result)
    left = [n for n in result.prior.names if n not in shown]
    note = (
        f"The picture has the {len(shown)} parameters that the data narrowed most; left out: {', '.join(left)}. "
        "Any two can be chosen below, and tbq.plots.pairs(result, names) draws others. "
        if left
        else ""
    )
    if beyond := pairs.outside(result, shown):
        note += f"{beyond} of the {result.n_evaluations} runs lie outside of it, where the posterior is not."
    caption = (
        "Posterior of each parameter and pair: regions that hold 50 and 90 % of it, the prior, and the runs. The "
        "strips show which part of the prior each view comes from"
    )
    simulated = result.prior.simulated  # runs have no noise parameters
    narrowed = [simulated.names.index(name) for name in pairs.by_narrowing(result) if name in simulated.names]
    start = sorted(narrowed[:2])
    draws = result.samples[:: max(len(result.samples) // _DRAWS, 1), : simulated.dim]
    return section(
        "Parameters",
        table(heads, rows),
        _modes(result),
        draw.of(caption, plots.pairs(result, shown), wide=True),
        paragraph(note.strip()),
        explorer(simulated.labels, result.evaluations, draws, start),
    )


def _modes(result: Result) -> str:
    found = result.modes
    if len(found) < 2:
        return paragraph("The posterior has one mode, as far as it is known.")
    columns = []
    for m in found:
        values = [f"{c:.4g} ± {w:.2g}" for c, w in zip(m.centre, m.width, strict=True)]
        run = ["none near", ""] if m.best_run is None else [f"{m.best_run.id}", f"{m.best_run.log_likelihood:.4g}"]
        columns.append([f"{100 * m.mass:.1f} ± {100 * m.mass_sd:.1f} %", *values, *run])
    heads = ["", *(f"mode {number}" for number in range(1, len(found) + 1))]
    rows = zip(["mass", *result.prior.labels, "best run", "its log-likelihood"], *columns, strict=True)
    return paragraph(f"The posterior has {len(found)} separate modes; centres with their widths (sd):") + table(
        heads, [list(row) for row in rows]
    )


def _trust(result: Result, found: Iterable[Finding], draw: Pictures) -> str:
    items = [
        f'<li class="{"ok" if f.ok else "bad"}"><b>{html.escape(f.name)}</b>{html.escape(f.sentence)}'
        + ("" if f.ok else f'<span class="advice">{parts.with_code(f.advice)}</span>')
        + "</li>"
        for f in found
    ]
    figures = []
    if result.surrogate is not None:
        figures = [draw.of(caption, style.drawn(make, result)) for caption, make in _of_surrogate(result)]
    return section(
        "Can it be trusted?",
        f'<ul class="findings">{"".join(items)}</ul>',
        paragraph(diagnostics.unseen(result), "soft"),
        parts.pictures(figures),
    )


def _of_surrogate(result: Result) -> Iterator[tuple[str, Callable[[Result, Any], Any]]]:
    if left_out(result) is not None:
        yield "Each run against what all others say of it, with two standard deviations", plots.predicted
    if plots.of_two(result):
        yield "Posterior density and runs; squares are the first ones", plots.posterior_density
        yield "Where a further run would tell most", plots.acquisition
