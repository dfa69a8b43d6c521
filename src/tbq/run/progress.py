"""Showing how a run stands while it runs: a panel on a terminal, lines in a log, a live display in a notebook.

A run may take hours, and learning minutes: a thread shows the time that goes by. Programs listen to the logger ``tbq``.
"""

from __future__ import annotations

import html
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tbq.common.markup import in_notebook
from tbq.run.standing import Standing

if TYPE_CHECKING:
    from rich.console import RenderableType

Progress = Literal["auto", "rich", "plain", "notebook", False]
CHOICES = ("auto", "rich", "plain", "notebook", False)

_EVERY = 180.0  # seconds after which a log has another line though nothing has happened
_TICK = {"rich": 0.5, "plain": 5.0, "notebook": 2.0}  # seconds between two looks at the clock
_WIDE = 100  # columns that a panel has at most: longer lines are hard to read

_logger = logging.getLogger("tbq")
_showing = threading.RLock()  # held while something is shown, and by a fork: no child inherits a stream that is locked
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_showing.acquire, after_in_parent=_showing.release, after_in_child=_showing.release)


class Display(Protocol):
    """Somewhere to show a run."""

    def show(self, standing: Standing, now: float) -> None: ...

    def replay(self, done: int, total: int) -> None: ...

    def close(self) -> None: ...


class Reporter:
    """Is told of every change, shows it, and logs a line at every stage and every few minutes."""

    def __init__(self, display: Display | None, tick: float) -> None:
        self.display, self.lines = display, Lines()
        self.latest: Standing | None = None
        self._over = threading.Event()
        self._ticker: threading.Thread | None = None
        if display is not None or _logger.isEnabledFor(logging.INFO):
            self._ticker = threading.Thread(target=self._tick, args=(tick,), daemon=True, name="tbq-progress")
            self._ticker.start()

    def __call__(self, standing: Standing) -> None:
        with _showing:
            self.latest = standing
            self._show()

    def replaying(self, done: int, total: int) -> None:
        """A journal is being taken in again."""
        if total == 0:
            return
        with _showing:
            if done in (0, total):
                _logger.info("%d of %d runs of the journal are taken in again; none of them is made again", done, total)
            if self.display is not None:
                self.display.replay(done, total)

    def close(self) -> None:
        self._over.set()
        if self._ticker is not None:
            self._ticker.join()
        if self.display is not None:
            with _showing:
                self.display.close()

    def _tick(self, seconds: float) -> None:
        while not self._over.wait(seconds):
            with _showing:
                if self.latest is not None:
                    self._show()

    def _show(self) -> None:
        assert self.latest is not None
        now = time.time()
        if (line := self.lines.due(self.latest, now)) is not None:
            _logger.info(line)
        if self.display is not None:
            self.display.show(self.latest, now)


class Lines:
    """What a log should have: a line at the start, at every new stage, at the end, and every few minutes."""

    def __init__(self) -> None:
        self.told: tuple[int, bool] | None = None
        self.at = 0.0

    def due(self, standing: Standing, now: float) -> str | None:
        stage = 0 if standing.belief is None else standing.belief.stage
        ended = standing.stop is not None and (standing.found is not None or standing.belief is None)
        if standing.stop is not None and not ended:  # what was found is told in a moment
            return None
        reached = max(stage, self.told[0] if self.told else 0), ended
        if reached == self.told and now - self.at < _EVERY:
            return None
        if self.told is not None and self.told[1]:  # its end has been told
            return None
        self.told, self.at = reached, now
        return standing.line(now)


@contextmanager
def reporter(progress: Progress, title: str = "tbq") -> Iterator[Reporter]:
    """What is to be told of every change. 'auto' shows on a terminal and in a notebook, and keeps still elsewhere."""
    kind = _automatic() if progress == "auto" else progress
    display: Display | None = None
    if kind == "rich":
        display = _Panel(title)
    elif kind == "plain":
        display = _Plain()
    elif kind == "notebook":
        display = _Notebook(title)
    told = Reporter(display, _TICK.get(str(kind), _TICK["plain"]))
    try:
        yield told
    finally:
        told.close()


def _automatic() -> Literal["rich", "notebook", False]:
    if in_notebook():
        return "notebook"
    return "rich" if sys.stderr.isatty() else False


# --- terminals ----------------------------------------------------------------------------------------------


def panel(standing: Standing, now: float, title: str = "tbq", width: int = 80) -> RenderableType:
    """How a run stands, as rich draws it in so many columns."""
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    width = min(width, _WIDE)
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(ratio=1)
    done, total = standing.bar()
    grid.add_row("", ProgressBar(total, done))
    for head, text in standing.rows(now):
        grid.add_row(head, Text(text))
    if standing.outage:
        grid.add_row("outage", Text(standing.outage_words(now), style="yellow"))
    elif standing.failures:
        grid.add_row("last failure", Text(standing.failure_words(), style="yellow"))
    subtitle = {"converged": "green", "running": "cyan"}.get(state := standing.state(now), "yellow")
    return Panel(grid, title=Text(title), subtitle=Text(state, style=subtitle), width=width, border_style="dim")


class _Panel:
    """One panel, drawn again in its place."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self.title, self.console = title, Console(stderr=True)
        self.live = Live(console=self.console, auto_refresh=False, transient=False)
        self.live.start()

    def show(self, standing: Standing, now: float) -> None:
        with suppress(OSError, ValueError):  # closed by the simulator, say: no reason to end a run
            self.live.update(panel(standing, now, self.title, self.console.width), refresh=True)

    def replay(self, done: int, total: int) -> None:
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        grid = Table.grid(padding=(0, 2), expand=True)
        grid.add_column(ratio=1)
        grid.add_row(replay_words(done, total))
        grid.add_row(ProgressBar(total, done))
        with suppress(OSError, ValueError):
            width = min(self.console.width, _WIDE)
            self.live.update(Panel(grid, title=self.title, width=width, border_style="dim"), refresh=True)

    def close(self) -> None:
        with suppress(OSError, ValueError):
            self.live.stop()


def replay_words(done: int, total: int) -> str:
    return f"Going on: {done} of {total} finished runs are taken in again. None of them is made again."


class _Plain:
    """Lines on stderr."""

    def __init__(self) -> None:
        self.lines, self.replayed = Lines(), False

    def show(self, standing: Standing, now: float) -> None:
        if (line := self.lines.due(standing, now)) is not None:
            self._print(line)

    def replay(self, done: int, total: int) -> None:
        if not self.replayed or done == total:
            self.replayed = True
            self._print(replay_words(done, total))

    def close(self) -> None:
        """Nothing stays open."""

    def _print(self, line: str) -> None:
        with suppress(OSError, ValueError):  # closed by the simulator, say: no reason to end a run
            print(line, file=sys.stderr, flush=True)


# --- notebooks ----------------------------------------------------------------------------------------------

_STYLE = "font-family:system-ui,sans-serif;font-size:13px;max-width:60em;line-height:1.5"


def as_html(standing: Standing, now: float, title: str = "tbq", more: Sequence[tuple[str, str]] = ()) -> str:
    """How a run stands, and more to say of it, for a notebook; it needs no style sheet and no script."""
    rows = standing.rows(now)
    if standing.outage:
        rows.append(("outage", standing.outage_words(now)))
    elif standing.failures and not more:
        rows.append(("last failure", standing.failure_words()))
    return _box(f"{title}: {standing.state(now)}", _bar(*standing.bar()) + _lines([*rows, *more]))


def _box(title: str, content: str) -> str:
    return f'<div style="{_STYLE}"><b>{html.escape(title)}</b>{content}</div>'


def _bar(done: int, total: int) -> str:
    return f'<progress style="display:block;width:100%;margin:4px 0" max="{max(total, 1)}" value="{done}"></progress>'


def _lines(rows: list[tuple[str, str]]) -> str:
    left = "text-align:left;vertical-align:top;padding:0 1em 0 0;background:none"
    lines = "".join(
        f'<tr style="background:none"><th style="{left};white-space:nowrap">{html.escape(head)}</th>'
        f'<td style="{left}">{html.escape(text)}</td></tr>'
        for head, text in rows
    )
    return f'<table style="border:none;margin:0">{lines}</table>'


class _Notebook:
    """One output of a cell, which changes."""

    def __init__(self, title: str) -> None:
        self.title, self.shown = title, ""
        self.handle: Any = None

    def show(self, standing: Standing, now: float) -> None:
        self._put(as_html(standing, now, self.title))

    def replay(self, done: int, total: int) -> None:
        self._put(_box(self.title, f"<div>{replay_words(done, total)}</div>{_bar(done, total)}"))

    def close(self) -> None:
        """It stays as it is."""

    def _put(self, content: str) -> None:
        if content == self.shown:
            return
        from IPython.display import HTML, display  # type: ignore[import-not-found]

        self.shown = content
        if self.handle is None:
            self.handle = display(HTML(content), display_id=True)
        else:
            self.handle.update(HTML(content))
