"""One program, run to its end in its directory: what it prints goes to files there, and how it ended is an error."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tbq.common.errors import ProgramError, ProgramUnavailableError, SimulatorTimeoutError
from tbq.simulate.processes import Program

SHELL = "bash"  # which has `module` where clusters have it
READY = "prelude.done"  # a file that says that the prelude has succeeded
_NOT_STARTED = (126, 127)  # exit codes of a shell that cannot start a program
_TAIL_LINES = 10  # of stderr, in an error message


def execute(
    command: Sequence[str],
    directory: Path,
    *,
    timeout: float | None = None,
    transient: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
    prelude: Sequence[str] = (),
) -> None:
    """Run a program; raises unless it ends with exit code 0."""
    shown = " ".join(command)
    ready = directory / READY
    if prelude:
        command = [SHELL, "-lc", _script(prelude), str(ready), *command]
    with (directory / "stdout.txt").open("wb") as out, (directory / "stderr.txt").open("wb") as err:
        try:
            process = Program(
                command, cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment or {}
            )
        except OSError as error:
            raise ProgramUnavailableError(f"the program could not be started: {error.strerror} ({shown})") from error
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise SimulatorTimeoutError(f"the program was ended after {timeout:g} s ({shown})") from error
        finally:
            process.end()
    if prelude and not ready.exists() and code >= 0:
        raise ProgramUnavailableError(f"the prelude failed before the program was started ({shown})")
    ready.unlink(missing_ok=True)
    if prelude and code in _NOT_STARTED:
        raise ProgramUnavailableError(f"the shell could not start the program: exit code {code} ({shown})")
    if code < 0:
        raise ProgramError(f"the program was ended by signal {-code}, {signal.strsignal(-code)} ({shown})")
    if code in transient:
        raise ProgramUnavailableError(f"the program ended with exit code {code}, which is transient ({shown})")
    if code > 0:
        raise ProgramError(f"the program ended with exit code {code} ({shown})")


def _script(prelude: Sequence[str]) -> str:
    """The prelude, whose commands must succeed and print to stderr; then the program takes the place of the shell."""
    checked = [f"{line}\n[ $? -eq 0 ] || exit 1" for line in prelude]
    return "\n".join(["exec 3>&1 1>&2", *checked, "exec 1>&3 3>&-", ': > "$0"', 'exec "$@"'])


def tail(directory: Path) -> str:
    """The last lines of stderr, or of stdout when stderr is empty."""
    for name in ("stderr.txt", "stdout.txt"):
        path = directory / name
        text = path.read_bytes()[-4000:].decode(errors="replace").strip() if path.exists() else ""
        if text:
            lines = "\n".join(f"  {line}" for line in text.splitlines()[-_TAIL_LINES:])
            return f"\nIts {path.stem} ends with:\n{lines}"
    return "\nIt printed nothing."
