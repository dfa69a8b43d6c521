"""Pieces of a page: sections, tables, pictures, and the document around them. Text of users is escaped here."""

from __future__ import annotations

import html
import io
import itertools
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from tbq.common.arguments import file_path
from tbq.common.errors import TbqError
from tbq.common.words import printable
from tbq.report import pdf, style
from tbq.report.style import BLUE, INK, LINE, SOFT, Figure

_READABLE = 85  # pixels for an inch of a picture, below which it is scrolled rather than shrunk
_COLUMNS = 11  # of a table that is printed in letters of the page's size; more make them smaller
_LARGE = 800  # pixels to which a small wide picture is enlarged
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_COLOURS = {INK: "ink", SOFT: "soft", LINE: "line", BLUE: "blue"}


def document(title: str, content: str, refresh: int | None = None) -> str:
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
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
{again}
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{_asset("report.css")}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p class="soft">As of {now}, by tbq {version}. {state}</p>
</header>
<main>
{_contents(content)}
{content}
</main>
<script>{_asset("report.js")}</script>
</body>
</html>
"""


def replace(path: Path, text: str | bytes) -> None:
    """Whole or not at all: somebody may be reading."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        part.replace(path)
    except OSError as error:
        raise TbqError(f"report: {path} cannot be written: {error.strerror}") from error


def target(path: Any) -> Path:
    """The file that a report is to be written to; refused at once where it is to be printed and nothing can print."""
    file = file_path("report", path)
    if file.suffix.lower() == ".pdf":
        pdf.browser()
    return file


def write(path: Path, page: str) -> None:
    """A page as it is, or printed where the name of the file ends in .pdf."""
    replace(path, pdf.printed(page) if path.suffix.lower() == ".pdf" else page)


def section(title: str, *content: str) -> str:
    """A part of the page that its contents lead to; empty where it has nothing to say."""
    said = "".join(content)
    return f'<section id="{_anchor(title)}"><h2>{html.escape(title)}</h2>{said}</section>' if said else ""


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z]+", "-", title.lower()).strip("-")


def _contents(content: str) -> str:
    """Links to the sections."""
    found = re.findall(r'<section id="([^"]*)"><h2>(.*?)</h2>', content)
    links = "".join(f'<a href="#{anchor}">{title}</a>' for anchor, title in found)
    return f'<nav aria-label="Contents">{links}</nav>' if len(found) > 1 else ""


def paragraph(text: str, kind: str = "") -> str:
    """Text of a ``kind`` that the style sheet knows; nothing where there is none."""
    mark = f' class="{kind}"' if kind else ""
    return f"<p{mark}>{html.escape(printable(text))}</p>" if text else ""


def with_code(text: str) -> str:
    """Text in which commands stand between backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(printable(text)))


def details(title: str, *content: str, on_paper: bool = True) -> str:
    """For those who open it. On paper it is open, or left out where it would fill pages that nobody reads."""
    kind = "" if on_paper else ' class="screen"'
    return f"<details{kind}><summary>{html.escape(title)}</summary>{''.join(content)}</details>"


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, sortable: bool = False, words: Sequence[int] = (0,)
) -> str:
    """A table whose numbers stand under each other; ``words`` are the columns that hold text."""
    classes = ["words" if i in words else "" for i in range(len(heads))]
    marks = [f' class="{c}"' if c else "" for c in classes]
    head = "".join(f'<th scope="col"{m}>{html.escape(h)}</th>' for h, m in zip(heads, marks, strict=True))
    lines = "".join(
        f"<tr>{''.join(f'<td{m}>{html.escape(printable(c))}</td>' for c, m in zip(row, marks, strict=True))}</tr>"
        for row in rows
    )
    kind = ' class="sortable"' if sortable else ""
    if len(heads) > _COLUMNS:
        kind += f' style="--fit:{_COLUMNS / len(heads):.2f}"'
    return f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


# --- pictures -----------------------------------------------------------------------------------------------


def pictures(figures: Iterable[str]) -> str:
    found = "".join(figures)
    return f'<div class="pictures">{found}</div>' if found else ""


class Pictures:
    """Makes the pictures of one page, each with letters and marks of its own."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = itertools.count(1)

    def of(self, caption: str, figure: Figure, wide: bool = False) -> str:
        """A figure with its caption. A wide one takes up the page, and is scrolled where that is narrow."""
        drawn = svg(figure, f"p{next(self._numbers)}-")
        width = round(max(_READABLE * figure.get_figwidth(), min(100 * figure.get_figwidth(), _LARGE)))
        caption = html.escape(caption)
        size = f"--size:{width}px" if wide else f"max-width:{round(110 * figure.get_figwidth())}px"
        drawn = drawn.replace("<svg ", f'<svg role="img" aria-label="{caption}" style="{size}" ', 1)
        frame = f'<div class="scroll" tabindex="0">{drawn}</div>' if wide else drawn
        mark = ' class="wide"' if wide else ""
        return f"<figure{mark}>{frame}<figcaption>{caption}</figcaption></figure>"


def svg(figure: Figure, prefix: str) -> str:
    """A figure as an element of a page, in the page's colours; it is closed. ``prefix`` sets its marks apart."""
    file = io.StringIO()
    with style.look():
        figure.savefig(file, format="svg", facecolor="none", dpi=110, metadata={"Date": None})
    style.pyplot().close(figure)
    text = file.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.S)
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)  # names of groups, which nothing refers to
    text = re.sub(r'( id="|href="#|url\(#)', lambda m: m[1] + prefix, text)
    text = _styled_once(text)
    text = re.sub(r'\b(d|x|y)="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]), text)
    for colour, name in _COLOURS.items():
        text = text.replace(colour, f"var(--{name}, {colour})")
    return re.sub(r"\n\s*", "\n", text)


def _styled_once(text: str) -> str:
    """Marks that are drawn many times in one style have it where they are defined."""
    styles: dict[str, set[str]] = {}
    use = re.compile(r'(<use xlink:href="#([^"]*)"[^>]*?) style="([^"]*)"')
    for _, mark, style_of in use.findall(text):
        styles.setdefault(mark, set()).add(style_of)
    once = {mark: found.pop() for mark, found in styles.items() if len(found) == 1}
    text = use.sub(lambda m: m[1] if m[2] in once else m[0], text)

    def defined(m: re.Match[str]) -> str:
        return f'<path id="{m[1]}" d="{m[2]}" style="{once[m[1]]}"' if m[1] in once else m[0]

    return re.sub(r'<path id="([^"]*)" d="([^"]*)"(?: style="[^"]*")?', defined, text)


def _asset(name: str) -> str:
    return resources.files("tbq.report").joinpath(name).read_text(encoding="utf-8")
