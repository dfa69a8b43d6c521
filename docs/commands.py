"""The reference of the command line, from its argument parser: `python docs/commands.py` writes docs/commands.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from tbq.cli.app import app
from tbq.cli.speaking import Exit

PAGE = Path(__file__).with_name("commands.md")
_CODES = {
    Exit.CONVERGED: "converged; of commands that make no run: done",
    Exit.UNEXPECTED: "an error that is ours: please report it",
    Exit.REFUSED: "what was given cannot be used; nothing was run",
    Exit.NOT_CONVERGED: "the budget was used up first; `tbq resume DIR --max-evaluations N` goes on",
    Exit.NOTHING_LEARNED: "too few runs succeeded to learn from",
    Exit.PAUSED: "an outage; to be tried again later (`EX_TEMPFAIL`): `tbq resume DIR`",
    Exit.INTERRUPTED: "Ctrl-C, SIGTERM or a closed terminal; `tbq resume DIR` goes on",
}


def reference() -> str:
    """The whole page."""
    group: Any = typer.main.get_command(app)
    lines = [
        "# Commands",
        "",
        "Made from the argument parser by `python docs/commands.py`. Every command has `--help`; those that report",
        "something have `--json`, which prints one JSON object in place of words. What is refused is said on stderr,",
        "also then; the exit code says which kind of refusal it is.",
        "",
        "## Exit codes",
        "",
        "| code | meaning |",
        "|---|---|",
        *(f"| {int(code)} | {_CODES[code]} |" for code in Exit),
        "",
    ]
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            for part, inner in command.commands.items():
                lines += _command(f"{name} {part}", inner)
        else:
            lines += _command(name, command)
    return "\n".join(lines).rstrip() + "\n"


def _command(name: str, command: Any) -> list[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    usage = " ".join(
        ["tbq", name, *(_metavar(a) for a in arguments), *(["[OPTIONS]"] if options else [])]
    )
    lines = [f"## `tbq {name}`", "", command.help.splitlines()[0], "", f"`{usage}`", ""]
    if arguments or options:
        lines += ["| | |", "|---|---|"]
        lines += [f"| `{_metavar(a)}` | {a.help or ''} |" for a in arguments]
        lines += [f"| {_flags(o)} | {_help(o)} |" for o in options]
        lines.append("")
    return lines


def _metavar(argument: Any) -> str:
    word = argument.name.upper().replace("FOLDERS", "FOLDER").replace("CASE_FILE", "CASE")
    if argument.nargs == -1:
        word += "…"
    return word if argument.required else f"[{word}]"


def _flags(option: Any) -> str:
    value = "" if option.is_flag else f" {option.name.rpartition('_')[2].upper()}"
    return ", ".join(f"`{flag}{value}`" for flag in option.opts)


def _help(option: Any) -> str:
    told = not option.is_flag and option.default is not None and option.show_default
    return f"{option.help or ''}{f' Default: `{option.default}`.' if told else ''}"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
