"""One look for all pictures: fonts, sizes, colours that the colour-blind can tell apart, and text as it is meant.

Ink and lines are drawn in colours that the page replaces by its own, which are others in the dark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tbq.common.errors import MissingDependencyError
from tbq.common.words import one_line

Axes = Any  # matplotlib's types are not ours to promise
Figure = Any

BLUE, SKY, ORANGE, VERMILION, GREY = "#0072b2", "#56b4e9", "#e69f00", "#d55e00", "#999999"  # Okabe and Ito's
INK, SOFT, LINE = "#1d2430", "#5b6573", "#d9dee5"  # the page has each as a variable of the same name
_LONGEST = 28  # characters of a label

_LOOK = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "grid.color": LINE,
    "lines.linewidth": 1.5,
    "svg.fonttype": "path",
}


def pyplot() -> Any:
    """matplotlib.pyplot, or a sentence that says how to get it."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise MissingDependencyError("plots need matplotlib: pip install 'tbq[plot]'") from error
    return plt


def look() -> Any:
    """A context in which figures are made and saved in our style."""
    return pyplot().rc_context(_LOOK)


def subplots(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, Any]:
    """A figure of so many inches and its axes, in our style."""
    with look():
        return pyplot().subplots(rows, columns, figsize=(width, height), layout="constrained", **options)


def drawn(draw: Callable[..., Any], *arguments: Any, width: float = 4.6, height: float = 3.3) -> Figure:
    """A figure of one pair of axes, which a function of ours draws on."""
    with look():
        figure, axes = pyplot().subplots(figsize=(width, height), layout="constrained")
        draw(*arguments, axes)
    return figure


def readable(text: str, longest: int = _LONGEST) -> str:
    """A label on one line, not too long, and as it is where matplotlib would stumble over its formula."""
    from matplotlib.mathtext import MathTextParser

    text = one_line(text, longest) if "$" not in text else text
    try:
        MathTextParser("path").parse(text)
    except ValueError:
        return one_line(text, longest).replace("$", r"\$")
    return text
