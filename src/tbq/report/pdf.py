"""A page on paper, printed by a browser that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tbq.common.errors import MissingDependencyError, TbqError

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "msedge",
)
_APPLICATIONS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
_SECONDS = 120.0  # after which a browser that prints has hung


def browser() -> str:
    """A browser that can print without a window, or a sentence that there is none."""
    found = [path for path in map(shutil.which, BROWSERS) if path]
    found += [path for path in _APPLICATIONS if Path(path).exists()]
    if not found:
        raise MissingDependencyError(
            "a report as PDF needs Chromium, Chrome or Edge; install one, or write report.html and print that"
        )
    return found[0]


def printed(page: str) -> bytes:
    """The page as a PDF file, on A4."""
    program = browser()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        source, target = Path(folder, "page.html"), Path(folder, "page.pdf")
        source.write_text(page, encoding="utf-8")
        command = [
            program,
            "--headless",
            "--disable-gpu",
            "--no-pdf-header-footer",
            f"--user-data-dir={folder}/profile",
        ]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--no-sandbox")  # which it cannot have as root
        command += ["--virtual-time-budget=3000", f"--print-to-pdf={target}", source.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TbqError(f"report: {program} did not print the page: {error}") from error
        if not target.exists():
            raise TbqError(f"report: {program} did not print the page: {done.stderr.strip()[-300:]}")
        return target.read_bytes()
