"""Runs the pages of the documentation: what they show is what their code does.

`python docs/pages.py [PAGE ...]` runs pages (all by default) and rewrites their outputs and figures in place; the tests
run them and compare. The blocks of one page share a namespace and a fresh folder, in which:

* a `python` block is executed, an `sh` block is run by bash; what they print is the `text` block behind them, which
  only shell blocks may lack;
* a block whose first line is `# file: NAME` is written to that file instead;
* `<!-- run` … `-->` is Python that no reader sees: what a page builds on, and what its prose claims;
* `../figures/pages/x.png` is the `x.png` that the page left in its folder.

Lines of a shell block that begin with `make` or `pip` are not run: the tests look whether there is such a target or
extra.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FIGURES = DOCS / "figures/pages"
_BLOCK = re.compile(
    r"^```(?P<kind>\w+)\n(?P<body>.*?)^```\n|^<!-- (?P<hidden>run)\n(?P<code>.*?)^-->\n",
    re.M | re.S,
)
_FILE = re.compile(r"# file: (\S+)\n")
_NUMBER = re.compile(r"[-+−]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")
_DURATION = re.compile(r"0 (?:ms|s|min|h)\b(?: 0 (?:s|min)\b)?")


@dataclass(frozen=True)
class Block:
    """A piece of a page that means something to a machine."""

    kind: str  # python, sh, text, run or another language
    body: str
    start: int
    end: int
    line: int


@dataclass(frozen=True)
class Run:
    """What became of a page: its names, and for each block that ran what it printed."""

    scope: dict[str, Any]
    printed: tuple[tuple[Block, str], ...]


def pages() -> list[Path]:
    """Every page: the README, and all of the documentation."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """The blocks of a page, in order."""
    return [
        Block(
            m["hidden"] or m["kind"],
            m["code"] if m["hidden"] else m["body"],
            m.start(),
            m.end(),
            text.count("\n", 0, m.start()) + 1,
        )
        for m in _BLOCK.finditer(text)
    ]


def runs(text: str) -> bool:
    """Whether there is anything to run on a page."""
    return any(b.kind in ("python", "sh", "run") for b in blocks(text))


def run(page: Path, folder: Path) -> Run:
    """Run a page in a folder, with the examples and the environment beside it as in a checkout."""
    shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
    (folder / ".venv").symlink_to(sys.prefix)
    scope: dict[str, Any] = {"__name__": "__page__", "ROOT": ROOT}
    printed = []
    with _inside(folder):
        for block in blocks(page.read_text()):
            named = _FILE.match(block.body)
            if named:
                Path(named[1]).parent.mkdir(parents=True, exist_ok=True)
                Path(named[1]).write_text(block.body[named.end() :])
            elif block.kind in ("python", "run"):
                printed.append(
                    (block, _python(block, f"{page.name}, line {block.line}", scope))
                )
            elif block.kind == "sh":
                printed.append((block, _shell(block.body)))
    return Run(scope, tuple(printed))


def _python(block: Block, where: str, scope: dict[str, Any]) -> str:
    out = io.StringIO()
    source = "\n" * block.line + block.body  # so that a traceback names the line of the page
    with contextlib.redirect_stdout(out):
        exec(compile(source, where, "exec"), scope)
    return out.getvalue()


def _shell(body: str) -> str:
    lines = [line for line in body.splitlines() if not re.match(r"(\S+/)?(make|pip)\b", line)]
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "110",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        timeout=900,  # only so that nothing hangs for ever
    )
    if done.returncode:
        raise RuntimeError(
            f"exit code {done.returncode} of\n{body}\n{done.stdout}\n{done.stderr}"
        )
    return done.stdout


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """In the folder, with what lies there importable, also by the processes of a pool."""
    import matplotlib

    matplotlib.use("Agg")
    before, path = Path.cwd(), list(sys.path)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    modules = set(sys.modules)
    try:
        yield
    finally:
        from matplotlib import pyplot

        pyplot.close("all")
        os.chdir(before)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]


# --- what a page shows --------------------------------------------------------------------------------------


def shown(text: str) -> dict[int, Block]:
    """The text block that follows a block at once, by the line of the block."""
    found = blocks(text)
    return {
        a.line: b
        for a, b in pairwise(found)
        if a.kind in ("python", "sh") and b.kind == "text" and not text[a.end : b.start].strip()
    }


def figures(text: str) -> list[str]:
    """Names of the figures that the page makes itself."""
    return re.findall(r"\]\((?:\.\./|docs/)*figures/pages/([\w.-]+)\)", text)


def shape(output: str) -> list[str]:
    """An output with numbers as 0, and rows of a table that are then alike as one.

    Other processors round differently, and a run may take another path: other digits, one stage more.
    """
    lines = [
        " ".join(_DURATION.sub("0 s", _NUMBER.sub("0", line)).split())
        for line in output.strip().splitlines()
    ]
    return [line for i, line in enumerate(lines) if i == 0 or line != lines[i - 1]]


def refreshed(text: str, done: Run) -> str:
    """The page with the outputs of a run in it."""
    old = shown(text)
    for block, output in reversed(done.printed):
        if block.line not in old and (block.kind != "python" or not output.strip()):
            continue
        new = f"```text\n{output.strip(chr(10)).rstrip()}\n```\n"
        if block.line in old:
            text = text[: old[block.line].start] + new + text[old[block.line].end :]
        else:
            text = f"{text[: block.end]}\n{new}{text[block.end :]}"
    return text


def main(names: list[str]) -> None:
    """Rewrite outputs and figures of the pages named, or of all."""
    for page in [Path(name).resolve() for name in names] or pages():
        text = page.read_text()
        if not runs(text):
            continue
        with tempfile.TemporaryDirectory() as folder:
            print(page.relative_to(ROOT), flush=True)
            done = run(page, Path(folder))
            page.write_text(refreshed(text, done))
            for name in figures(text):
                FIGURES.mkdir(parents=True, exist_ok=True)
                shutil.copy(Path(folder) / name, FIGURES / name)


if __name__ == "__main__":
    main(sys.argv[1:])
