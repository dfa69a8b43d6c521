"""Small pieces of HTML for notebooks, which need no style sheet; text is shown, never run."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable, Sequence


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook, which can show HTML and change it."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and hasattr(running, "kernel")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is words and whose others are numbers."""
    style = ["text-align:left", *["text-align:right"] * (len(heads) - 1)]
    head = "".join(f'<th style="{s}">{html.escape(h)}</th>' for h, s in zip(heads, style, strict=True))
    lines = ["".join(f'<td style="{s}">{html.escape(c)}</td>' for c, s in zip(row, style, strict=True)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraphs(*texts: str) -> str:
    """One paragraph for each text that is not empty."""
    return "".join(f'<p style="margin:0">{html.escape(text)}</p>' for text in texts if text)
