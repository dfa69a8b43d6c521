"""Axes for a picture that is asked for without any, and figures that a notebook shows once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from tbq.common.markup import in_notebook
from tbq.report import style
from tbq.result.result import Result

P = ParamSpec("P")
_SIZE = (6.0, 4.2)  # inches


def own_axes(draw: Callable[Concatenate[Result, Any, P], Any]) -> Callable[..., Any]:
    """Let a picture make its own axes where it is given none."""

    @wraps(draw)
    def drawn(result: Result, axes: Any = None, *args: P.args, **kwargs: P.kwargs) -> Any:
        if axes is None:
            _, axes = style.subplots(1, 1, *_SIZE)
        return draw(result, axes, *args, **kwargs)

    return drawn


def shown_once(figure: Any) -> Any:
    """The figure; in a notebook no longer one of pyplot's, which is shown again at the end of the cell."""
    if in_notebook():
        style.pyplot().close(figure)
    return figure
