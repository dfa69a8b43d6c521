"""Commands that look at runs, from any terminal: ``tbq status``, ``report`` and ``watch``."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from tbq.cli.speaking import Folder, Json, answer, spoken
from tbq.common.errors import ArgumentError, TbqError


def show_status(
    folder: Folder,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it until the run ends.")] = False,
    as_json: Json = False,
) -> None:
    """Show how a run is doing, from any terminal."""
    from tbq.cli import status
    from tbq.run.progress import panel

    with spoken(folder):
        if not watch:
            look = status.look(folder)
            width = Console().width if sys.stdout.isatty() else None
            answer(look.as_dict()) if as_json else typer.echo("\n".join(look.lines(width)))
        elif as_json or not sys.stdout.isatty():
            for look in status.follow(folder):
                answer(look.as_dict()) if as_json else typer.echo("\n".join(look.lines()) + "\n")
        else:
            console = Console()
            with Live(console=console, auto_refresh=False) as live:
                for look in status.follow(folder):
                    live.update(panel(look.standing, time.time(), str(folder), console.width), refresh=True)
            typer.echo("\n".join(status.look(folder).lines(console.width)))


def make_report(
    folder: Folder,
    out: Annotated[
        Path | None, typer.Option(help="The file; report.html in the folder when not given.", show_default=False)
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on writing it until the run ends.")] = False,
    as_json: Json = False,
) -> None:
    """Write what a run found, or knows so far, to one HTML file."""
    from tbq.cli import live
    from tbq.report.parts import replace

    path = out or folder / live.FILE
    with spoken(folder):
        for page, goes_on in live.of_folder(folder):
            replace(path, page)
            if as_json:
                answer({"report": str(path), "goes_on": goes_on})
            else:
                typer.echo(f"{path}{' so far; the run goes on' if goes_on else ''}")
            if not watch:
                break


def watch(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of runs, or with runs in them; runs/ when not given.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 is any that is free.")] = 0,
) -> None:
    """Serve a live page of runs, running and finished, on this machine. Read-only; Ctrl-C ends it."""
    from tbq.cli.watch import Server, Site

    wanted = folders or [Path("runs")]
    with spoken("watch"):
        for folder in wanted:
            if not folder.is_dir():
                raise ArgumentError(f"there is no folder {str(folder)!r}")
        try:
            server = Server(Site(wanted), port)
        except OSError as error:
            raise TbqError(f"port {port} cannot be used ({error.strerror}); leave --port out") from error
    with server:
        typer.echo(f"{server.address}\nOpen this address in a browser on this machine; Ctrl-C ends it.")
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("status")(show_status)
    app.command("report")(make_report)
    app.command("watch")(watch)
