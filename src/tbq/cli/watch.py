"""A live page of runs on this machine: read-only, bound to 127.0.0.1, behind a token in the address.

The page of a run has how it stands, its last runs and failures, which follow the run by server-sent events, and below
them its report, made anew when there is news. Nothing can be changed from it.
"""

from __future__ import annotations

import hmac
import html
import json
import secrets
import threading
import time
from collections.abc import Iterator
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from urllib.parse import quote, unquote

from tbq.cli import status
from tbq.cli.live import Report
from tbq.common import markup
from tbq.common.errors import TbqError
from tbq.common.words import duration
from tbq.report.parts import document, with_code
from tbq.run import journal
from tbq.run.progress import as_html

_LOOK = 1.0  # seconds between two looks at a journal
_ANYWAY = 15.0  # seconds after which a page hears from us though there is no news: a closed one is noticed so
_REPORT = 10.0  # seconds between two reports of a run that goes on
_LAST = 12  # runs that are listed
_DEPTH = 3  # folders below the one given in which runs are looked for
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "frame-src 'self'"
)


def find(folders: list[Path]) -> dict[str, Path]:
    """Folders of runs by name: those given, and those in folders that are none themselves."""
    found: list[Path] = []
    for folder in folders:
        if (folder / journal.FILE).exists():
            found.append(folder)
        else:
            patterns = ["/".join(["*"] * depth) for depth in range(1, _DEPTH + 1)]
            found += sorted(f for pattern in patterns for f in folder.glob(pattern) if (f / journal.FILE).is_file())
    names = [folder.resolve().name for folder in found]
    return {name if names.count(name) == 1 else str(folder): folder for name, folder in zip(names, found, strict=True)}


class Site:
    """What is served: runs by name, and their reports as they were last made."""

    def __init__(self, folders: list[Path]) -> None:
        self.folders, self.token = folders, secrets.token_urlsafe(16)
        self._reports: dict[Path, tuple[Report, int, bytes]] = {}
        self._making = threading.Lock()  # one report at a time: pictures are not made by two threads at once

    def runs(self) -> dict[str, Path]:
        return find(self.folders)

    def report(self, folder: Path) -> bytes:
        """The report of a run, as of its last record."""
        with self._making:
            contents = journal.read(folder)
            report, told, text = self._reports.get(folder, (None, -1, b""))
            if report is None or told != len(contents.records):
                report = report or Report(folder)
                told, text = len(contents.records), _bytes(document(report.title, report.body(contents)))
                self._reports[folder] = report, told, text
            return text

    def list_of_runs(self) -> str:
        """A row for each run, with a link to its page."""
        rows = []
        for name, folder in self.runs().items():
            try:
                look = status.look(folder)
            except TbqError as error:
                rows.append((name, ["cannot be read", html.escape(str(error)), "", ""]))
                continue
            now, standing = time.time(), look.standing
            runs = f"{standing.done} of {standing.budget}" + (f", {standing.failed} failed" if standing.failed else "")
            cells = [standing.state(now), runs, standing.evidence(), duration(standing.elapsed(now))]
            rows.append((name, [html.escape(cell) for cell in cells]))
        heads = "".join(f"<th>{head}</th>" for head in ("run", "state", "runs", "log evidence", "time"))
        body = "".join(
            f'<tr><td><a href="run/{html.escape(quote(name, errors="surrogateescape"))}/">{html.escape(name)}</a></td>'
            + "".join(f"<td>{cell}</td>" for cell in cells)
            + "</tr>"
            for name, cells in rows
        )
        nothing = "" if rows else "<p>There are no runs here yet; they appear when they begin.</p>"
        return f'<table class="runs"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{nothing}'

    def run(self, name: str, look: status.Look) -> str:
        """How a run stands, its failures and its last runs."""
        names = look.contents.header["prior"]["names"]
        last = look.contents.evaluations[-_LAST:][::-1]
        rows = [
            [
                f"{e.id}",
                str(e.status),
                "" if e.status.is_failure else f"{e.log_likelihood:.5g}",
                duration(e.seconds),
                *(f"{v:.5g}" for v in e.theta),
            ]
            for e in last
        ]
        heads = ["run", "outcome", "log-likelihood", "time", *names]
        runs = markup.table(heads, rows) if rows else ""
        sentence = f"<p>{with_code(f'{look.folder} {look.verdict()}')}</p>"
        title = f"<h2>Last runs</h2><div class='scroll'>{runs}</div>" if runs else ""
        return sentence + as_html(look.standing, time.time(), name, look.more()) + title


def events(site: Site) -> Iterator[str]:
    """News of the list of runs."""
    told, when = "", 0.0
    while True:
        content, now = site.list_of_runs(), time.monotonic()
        if content != told or now - when >= _ANYWAY:
            told, when = content, now
            yield json.dumps({"html": content})
        time.sleep(_LOOK)


def events_of(site: Site, name: str, folder: Path) -> Iterator[str]:
    """News of a run until it ends: the content of its page, and a number that changes when its report should too."""
    told, when, version, made = "", 0.0, -1, 0.0
    while True:
        look, now = status.look(folder), time.monotonic()
        records, ended = len(look.contents.records), not look.alive or look.contents.stop is not None
        if records != version and (ended or now - made >= _REPORT):
            version, made, told = records, now, ""
        content = site.run(name, look)
        if content != told or now - when >= _ANYWAY:
            told, when = content, now
            yield json.dumps({"html": content, "version": version, "ended": ended})
        if ended:
            return
        time.sleep(_LOOK)


class Server(ThreadingHTTPServer):
    """Serves a site on this machine alone."""

    daemon_threads = True

    def __init__(self, site: Site, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.site = site

    @cached_property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{self.site.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        try:
            self._answer()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except TbqError as error:
            self._send(_bytes(f"<p>{html.escape(str(error))}</p>"), code=500)

    def _answer(self) -> None:
        host = self.headers.get("Host", "")
        own = {f"{name}:{self.server.server_address[1]}" for name in ("127.0.0.1", "localhost")}
        path = self.path.partition("?")[0]
        _, token, *parts = unquote(path, errors="surrogateescape").split("/") if "/" in path else ("", "")
        if host not in own or not hmac.compare_digest(_bytes(token), self.server.site.token.encode()):
            self._send(b"<p>Not found. The address has a token, which `tbq watch` prints.</p>", code=404)
            return
        site = self.server.site
        match parts:
            case [""]:
                self._send(_page("Runs", site.list_of_runs()))
            case ["events"]:
                self._stream(events(site))
            case ["run", *name, what] if (folder := site.runs().get("/".join(name))) is not None:
                title = "/".join(name)
                if what == "":
                    self._send(_page(title, site.run(title, status.look(folder)), report=True))
                elif what == "events":
                    self._stream(events_of(site, title, folder))
                elif what == "report":
                    self._send(site.report(folder), policy=False)
                else:
                    self._send(b"<p>Not found.</p>", code=404)
            case _:
                self._send(b"<p>Not found.</p>", code=404)

    def _send(self, content: bytes, code: int = 200, policy: bool = True) -> None:
        self.send_response(code)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if policy:  # a report has its own
            self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, news: Iterator[str]) -> None:
        self.send_response(200)
        for name, value in {**_HEADERS, "Content-Type": "text/event-stream", "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        for content in news:
            self.wfile.write(f"data: {content}\n\n".encode())
            self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Requests are not told on the terminal, nor is the token in them."""


def _page(title: str, content: str, report: bool = False) -> bytes:
    text = resources.files("tbq.cli").joinpath("watch.html").read_text(encoding="utf-8")
    frame = (
        '<p id="making">The report is being made …</p><iframe id="report" title="report"></iframe>' if report else ""
    )
    up = "../" * (title.count("/") + 2)  # a name may be a path
    back = f'<p><a href="{up}">all runs</a></p>' if report else ""
    parts = {"TITLE": html.escape(title), "CONTENT": content, "FRAME": frame, "BACK": back}
    for name, part in parts.items():
        text = text.replace(f"<!--{name}-->", part)
    return _bytes(text)


def _bytes(text: str) -> bytes:
    """Names of folders may have bytes that are no text."""
    return text.encode(errors="backslashreplace")
