"""The table of the README, from the runs of `tbq bench calibration` and the paper's own tables.

Run: python benchmarks/overview.py, which writes it between the marks of README.md and docs/reproduction.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tbq import problems
from tbq.bench import calibration, paper, studies

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs/reproduction.md")
SHOWN = ("u1", "u2", "u3", "u4", "dof2", "dof3", "mixture4", "banana6", "correlated8", "ten", "normal12")
OTHERS = ("dof2", "ten")  # of which the paper's evidence is another problem's
HEAD = (
    "| problem | parameters | calls | mean error | largest | 90 % interval covers | runs | paper's most accurate row |",
    "|---|---|---|---|---|---|---|---|",
)


def table() -> str:
    """A line for each problem."""
    path = ROOT / "docs/benchmarks/calibration_runs.csv"
    runs = studies.read_rows(calibration.Run, path)
    return "\n".join([*HEAD, *(line(name, [r for r in runs if r.problem == name]) for name in SHOWN)])


def line(name: str, runs: list[calibration.Run]) -> str:
    errors = np.abs([r.relative_error for r in runs])
    covers = np.mean([abs(r.z) < calibration.NORMAL_90 for r in runs])
    cells = [
        f"`{name}`",
        f"{problems.get(name).prior.dim}",
        f"{np.mean([r.calls for r in runs]):.0f}",
        f"{100 * errors.mean():.1f} %",
        f"{100 * errors.max():.1f} %",
        f"{100 * covers:.0f} %",
        f"{len(runs)}",
        of_paper(name),
    ]
    return f"| {' | '.join(cells)} |"


def of_paper(name: str) -> str:
    """Calls and error of its most accurate TBQ row: its mean error or, where it prints none, that of its mean."""
    rows = [r for r in paper.paper_rows() if r.problem == name and r.method.startswith("TBQ")]
    if not rows or name in OTHERS:
        return "another problem" if rows else ""
    exact = problems.get(name).reference.evidence
    off = [abs(r.evidence_mean / exact - 1.0) if np.isnan(r.relative_error) else r.relative_error for r in rows]
    error, calls = min(zip(off, [r.n_call for r in rows], strict=True))
    return f"{calls:.0f} calls, {100 * error:.1f} %"


def fill(text: str) -> str:
    return re.sub(r"(?s)(<!-- table -->\n).*?(\n<!-- end -->)", rf"\g<1>{table()}\g<2>", text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(fill(page.read_text()))
