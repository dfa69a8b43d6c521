"""A result as one HTML file that needs nothing else: numbers, findings, pictures, and every run to look at.

It makes no request to anywhere, and text that comes from the user is shown, never run.
"""

from __future__ import annotations

import base64
import html
import io
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from tbq.common.arguments import file_path
from tbq.common.errors import TbqError
from tbq.common.words import nats, printable
from tbq.problem.evaluation import Evaluation
from tbq.report import diagnostics, plots, summary
from tbq.result.result import Result

_DRAWS = 400  # in the explorer
_READABLE = 75  # pixels for an inch of a picture, below which it is scrolled rather than shrunk
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def write(result: Result, path: str | Path, *, title: str = "") -> None:
    """The page of a result, in a file. Needs matplotlib."""
    replace(file_path("report", path), page(title, body(result)))


def replace(path: Path, text: str) -> None:
    """Whole or not at all: somebody may be reading."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise TbqError(f"report: {path} cannot be written: {error.strerror}") from error


# --- the page -----------------------------------------------------------------------------------------------


def page(title: str, content: str, refresh: int | None = None) -> str:
    """A whole HTML document; ``content`` is HTML already."""
    from tbq.common.version import __version__ as version

    title = html.escape(printable(title) or "tbq report")
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    again = f'<meta http-equiv="refresh" content="{refresh}">' if refresh else ""
    state = "The run goes on; this page loads itself again." if refresh else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
{again}
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{_asset("report.css")}</style>
</head>
<body>
<h1>{title}</h1>
<p class="soft">As of {now}, by tbq {version}. {state}</p>
{content}
<script>{_asset("report.js")}</script>
</body>
</html>
"""


def body(result: Result) -> str:
    """All there is to say of a result."""
    found = diagnostics.findings(result)
    bad = "" if all(f.ok for f in found) else " bad"
    parts = [
        f"<p>{html.escape(summary.opening(result))}</p>",
        f'<p class="verdict{bad}">{html.escape(diagnostics.verdict(found))}</p>',
    ]
    if result.surrogate is not None:
        parts += [_evidence(result), _parameters(result)]
    parts.append(_trust(result, found))
    if result.surrogate is not None:
        parts += [_pictures(result), _stages(result)]
    draws = result.samples[:: max(len(result.samples) // _DRAWS, 1)]
    parts.append(explorer(result.prior.labels, result.evaluations, draws, _spent(result)))
    return "\n".join(parts)


def _evidence(result: Result) -> str:
    parts = summary.error_parts(result)
    numbers = f"{nats(result.log_evidence)} ± {nats(result.log_evidence_sd)}"
    return _section(
        "Evidence",
        f'<p class="big">log evidence {numbers}</p>',
        f"<p>evidence {summary.evidence(result)}</p>",
        _table(["part of the error", "sd"], [[name, f"{sd:.4f}"] for name, sd in parts.items()]),
    )


def _parameters(result: Result) -> str:
    heads = ["parameter", "mean", "sd", "5 %", "median", "95 %", "mode", "narrowed by"]
    rows = [
        [m.label, *(f"{v:.4g}" for v in (m.mean, m.sd, m.low, m.median, m.high, m.mode)), f"{100 * m.narrowed:.0f} %"]
        for m in summary.marginals(result)
    ]
    return _section("Parameters", _table(heads, rows))


def _trust(result: Result, found: Iterable[diagnostics.Finding]) -> str:
    items = [
        f'<li class="{"ok" if f.ok else "bad"}"><b>{html.escape(f.name)}</b>{html.escape(f.sentence)} '
        f'<span class="soft">({f.value:.3g}; the limit is {f.threshold:g})</span>'
        + ("" if f.ok else f'<span class="advice">{html.escape(f.advice)}</span>')
        + "</li>"
        for f in found
    ]
    unseen = f'<p class="soft">{html.escape(diagnostics.unseen(result))}</p>'
    return _section("Can it be trusted?", f'<ul class="findings">{"".join(items)}</ul>', unseen)


def _stages(result: Result) -> str:
    heads = ["stage", "γ", "runs", "log ratio", "sd", "effective points", "accepted", "moved"]
    return _section("Stages", _table(heads, summary.stage_rows(result)))


def _spent(result: Result) -> str:
    text = f"{summary.outcomes(result)}; {summary.times(result)}."
    text += f" Paused for: {result.outage}" if result.outage else ""
    return f"{text} Surrogate: {result.surrogate.description}." if result.surrogate else text


# --- pictures -----------------------------------------------------------------------------------------------


def _pictures(result: Result) -> str:
    figures = [_picture("Posterior of each parameter and pair, with the prior", plots.pairs(result), wide=True)]
    figures += [_drawn(caption, draw, result) for caption, draw in _small(result)]
    if result.prior.dim == 2:
        figures.append(_picture("Stages, as they are known now", plots.stages(result), wide=True))
    return _section("Pictures", f'<div class="pictures">{"".join(figures)}</div>')


def _small(result: Result) -> Iterator[tuple[str, Callable[[Result, Any], Any]]]:
    yield "Evidence against runs", plots.convergence
    if diagnostics.left_out(result) is not None:
        yield "Each run against what all others say of it, with two standard deviations", plots.predicted
    yield "Stages from the prior to the posterior", plots.gamma_schedule
    yield "Points that carry weight in each stage", plots.stage_weights
    if result.prior.dim == 2:
        yield "Posterior density and runs; squares are the first ones", plots.posterior_density
        yield "Where a further run would tell most", plots.acquisition


def _drawn(caption: str, draw: Callable[[Result, Any], Any], result: Result) -> str:
    figure, axes = plots.pyplot().subplots(figsize=(4.6, 3.4), layout="constrained")
    draw(result, axes)
    return _picture(caption, figure)


def _picture(caption: str, figure: Any, wide: bool = False) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130)
    plots.pyplot().close(figure)
    source = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    caption, width = html.escape(caption), round(_READABLE * figure.get_figwidth())
    image = f'<img alt="{caption}" src="{source}">'
    if wide:
        image = f'<div class="scroll"><img style="max-width:max(100%,{width}px)" alt="{caption}" src="{source}"></div>'
    attributes = ' class="wide"' if wide else ""
    return f"<figure{attributes}>{image}<figcaption>{caption}</figcaption></figure>"


# --- runs ---------------------------------------------------------------------------------------------------


def explorer(
    names: Sequence[str], evaluations: Sequence[Evaluation], draws: Iterable[Iterable[float]] = (), spent: str = ""
) -> str:
    """A scatter of all runs over quantities of the reader's choice; draws of the posterior behind it."""
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
        "runs": runs,
        "draws": [[_number(v) for v in d] for d in draws],
    }
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")  # nothing in it can end the script element
    return _section(
        "Runs",
        f"<p>{html.escape(spent)}</p>" if spent else "",
        '<div class="explorer"><label>across <select id="x"></select></label>'
        '<label>up <select id="y"></select></label>'
        '<svg id="explorer" role="group" aria-label="runs"></svg>'
        '<p class="told" id="told">Point at a run, or tap it. Grey: initial runs; blue: chosen ones; '
        "diamonds: infeasible (orange) or failed; light dots: posterior draws. Log-likelihoods far below the others "
        "are drawn at the edge.</p></div>",
        f'<script type="application/json" id="runs">{text}</script>',
    )


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


# --- parts --------------------------------------------------------------------------------------------------


def _section(title: str, *content: str) -> str:
    return f"<section><h2>{title}</h2>{''.join(content)}</section>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(h)}</th>" for h in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _asset(name: str) -> str:
    return resources.files("tbq.report").joinpath(name).read_text(encoding="utf-8")
