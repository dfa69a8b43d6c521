"""Simulators outside Python, as functions of theta: a command run per evaluation, and UM-Bridge models.

Both can be pickled, so that any executor can run them, and both raise a :class:`tbq.errors.SimulatorError` when a
run gives no usable output.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tbq.errors import (
    ArgumentError,
    OutputError,
    ProgramError,
    ServerError,
    ServerUnreachableError,
    SimulatorError,
    SimulatorTimeoutError,
)
from tbq.textfiles import fill, flatten, place, read_numbers
from tbq.types import Array

_TAIL_LINES = 10  # of stderr, in an error message
_QUESTION_TIMEOUT = 10.0  # seconds for the questions a server answers without running the model
_BUSY = (502, 503, 504)  # answers of gateways and load balancers that pass

_running: set[subprocess.Popen[bytes]] = set()


# --- a command ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CommandModel:
    """A program as a function of theta: input file from a template, run, output file read.

    Every run has its own directory, where ``stdout.txt`` and ``stderr.txt`` are kept too. After a success the
    directory is removed unless ``keep``; after a failure it stays, and the error names it.

    Parameters
    ----------
    names
        Parameter names in the order of theta. ``{k1}`` in the template or the command stands for the value of k1 with
        all its digits, ``{k1:12.5e}`` for a Python number format. Each must appear somewhere.
    command
        Program and arguments; no shell reads them.
    output
        File that the program leaves in its directory: numbers between blanks, commas or semicolons (``#`` starts a
        comment), or JSON when it is called ``.json``. ``"stdout.txt"`` is what it prints.
    pattern
        Regular expression with one group; every match in ``output`` is a number, in order.
    template
        File that is filled in and put into the directory under its own name.
    files
        Files and folders that are copied there as they are.
    folder
        Where the directories are made; the system's temporary folder when None.
    timeout
        Seconds after which the program, and whatever it started, is ended.
    keep
        Keep the directories of successful runs as well.
    """

    names: Sequence[str]
    command: Sequence[str]
    output: str
    pattern: str | None = None
    template: str | Path | None = None
    files: Sequence[str | Path] = ()
    folder: str | Path | None = None
    timeout: float | None = None
    keep: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.command, str) or not self.command:
            raise ArgumentError(
                f"command must be a list of program and arguments, such as ['frame', '{{k1}}']; got {self.command!r}"
            )
        if shutil.which(self.command[0]) is None:
            raise ArgumentError(f"command: there is no program {self.command[0]!r}; give its path, or check its rights")
        for key, path in [("template", self.template), *(("files", f) for f in self.files)]:
            if path is not None and not (Path(path).is_file() or (key == "files" and Path(path).is_dir())):
                raise ArgumentError(f"{key}: there is no file {str(path)!r}")
        if self.pattern is not None:
            _check_pattern(self.pattern)
        if os.path.isabs(self.output) or ".." in Path(self.output).parts:
            raise ArgumentError(f"output must be a file inside the run's directory; got {self.output!r}")
        _check_timeout(self.timeout)
        self._check_places()

    def __call__(self, theta: Array) -> Array:
        """Outputs at theta, in the order of the file."""
        if self.folder is not None:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(prefix="tbq-run-", dir=self.folder)).resolve()
        outputs = self.run(theta, directory)
        if not self.keep:
            shutil.rmtree(directory, ignore_errors=True)
        return outputs

    def run(self, theta: Array, directory: Path) -> Array:
        """Run in ``directory``, which stays."""
        values = dict(zip(self.names, (float(t) for t in theta), strict=True))
        for path in map(Path, self.files):
            (shutil.copytree if path.is_dir() else shutil.copy)(path, directory / path.name)
        if self.template is not None:
            (directory / Path(self.template).name).write_bytes(
                fill(self._template_text, values).encode(errors="surrogateescape")
            )
        program = self.command[0]
        if os.path.dirname(program):  # a path from here, not from the directory of the run
            program = os.path.abspath(program)
        command = [program, *(fill(argument, values) for argument in self.command[1:])]
        try:
            _execute(command, directory, self.timeout)
            return read_numbers(directory / self.output, self.pattern)
        except SimulatorError as error:
            raise type(error)(f"{error}{_tail(directory)}\nIts directory is kept: {directory}") from error

    @property
    def _template_text(self) -> str:
        return "" if self.template is None else Path(self.template).read_bytes().decode(errors="surrogateescape")

    def _check_places(self) -> None:
        """Every parameter must reach the program, and in a format that exists."""
        places = "\n".join([self._template_text, *self.command[1:]])
        for name in self.names:
            if not place([name]).search(places):
                where = "the command" if self.template is None else "the template or the command"
                raise ArgumentError(f"{name}: the parameter does not appear in {where}; write {{{name}}} for its value")
        fill(places, dict.fromkeys(self.names, 1.0))


def end_all() -> None:
    """End every program that runs now, in whatever thread: for those who stop before their time."""
    for process in list(_running):
        _end(process)


def _execute(command: Sequence[str], directory: Path, timeout: float | None) -> None:
    shown = " ".join(command)
    with (directory / "stdout.txt").open("wb") as out, (directory / "stderr.txt").open("wb") as err:
        try:
            # With a timeout it leads a group of its own, so that all it started can be ended with it. Without one it
            # stays in ours, and ends with us.
            process = subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=timeout is not None,
            )
        except OSError as error:
            raise ProgramError(f"the program could not be started: {error.strerror} ({shown})") from error
        _running.add(process)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise SimulatorTimeoutError(f"the program was ended after {timeout:g} s ({shown})") from error
        finally:
            _end(process)
            _running.discard(process)
    if code < 0:
        raise ProgramError(f"the program was ended by signal {-code}, {signal.strsignal(-code)} ({shown})")
    if code > 0:
        raise ProgramError(f"the program ended with exit code {code} ({shown})")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program that still runs and, where it leads a group, all it started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            leads = hasattr(os, "killpg") and os.getpgid(process.pid) == process.pid
            os.killpg(process.pid, signal.SIGKILL) if leads else process.kill()
        process.wait()


def _tail(directory: Path) -> str:
    """The last lines of stderr, or of stdout when stderr is empty."""
    for name in ("stderr.txt", "stdout.txt"):
        path = directory / name
        text = path.read_bytes()[-4000:].decode(errors="replace").strip() if path.exists() else ""
        if text:
            lines = "\n".join(f"  {line}" for line in text.splitlines()[-_TAIL_LINES:])
            return f"\nIts {path.stem} ends with:\n{lines}"
    return "\nIt printed nothing."


# --- checks


def _check_pattern(pattern: str) -> None:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ArgumentError(f"pattern is not a regular expression: {error}; got {pattern!r}") from error
    if groups != 1:
        raise ArgumentError(f"pattern must have one group (...) around the number; got {groups} in {pattern!r}")


def _check_timeout(timeout: float | None) -> None:
    if timeout is not None and not 0 < timeout < np.inf:
        raise ArgumentError(f"timeout must be a positive number of seconds; got {timeout!r}")


# --- UM-Bridge ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UmBridgeModel:
    """A model on a UM-Bridge server (protocol 1.0) as a function of theta.

    Theta is split into the model's input vectors; its output vectors are joined. Connections that fail, and gateways
    that are busy, are tried ``retries`` more times with growing pauses; what the model itself reports is not.
    ``timeout`` is in seconds per evaluation.
    """

    url: str
    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    timeout: float | None = None
    retries: int = 2
    pause: float = 0.5  # seconds before the first retry; doubles each time

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ArgumentError(f"url must start with http:// or https://; got {self.url!r}")
        if self.retries < 0:
            raise ArgumentError(f"retries must not be negative; got {self.retries!r}")
        _check_timeout(self.timeout)

    def __call__(self, theta: Array) -> Array:
        """Outputs at theta."""
        answer = self._ask("Evaluate", {"input": self._split(theta)}, self.timeout)
        try:
            vectors = answer["output"]
            if not isinstance(vectors, list) or not all(isinstance(v, list) for v in vectors):
                raise ValueError("output is not a list of vectors")
            numbers = flatten(vectors)
        except (KeyError, ValueError) as error:
            why = "there is no 'output'" if isinstance(error, KeyError) else str(error)
            raise OutputError(f"{self._who} answered nonsense: {why}; got {json.dumps(answer)[:200]}") from error
        if not numbers:
            raise OutputError(f"{self._who} returned no numbers")
        return np.array(numbers)

    @cached_property
    def input_sizes(self) -> list[int]:
        """Lengths of the model's input vectors; asks the server once."""
        answer = self._ask("InputSizes", {}, _QUESTION_TIMEOUT)
        sizes = answer.get("inputSizes")
        if not isinstance(sizes, list) or not all(isinstance(s, int) and s >= 0 for s in sizes):
            raise OutputError(f"{self._who} answered nonsense to InputSizes: {json.dumps(answer)[:200]}")
        return sizes

    def models(self) -> list[str]:
        """Names of the models on the server."""
        answer = self._with_retries(lambda: _request(f"{self._base}/Info", None, _QUESTION_TIMEOUT))
        return [str(m) for m in answer.get("models", [])]

    def check(self, n_parameters: int) -> None:
        """Ask the server for the model and its sizes: raises when it is not there, or takes another theta."""
        if self.name not in (models := self.models()):
            raise ServerError(f"{self.url} has no model {self.name!r}; it has {', '.join(models) or 'none'}")
        self._split(np.zeros(n_parameters))

    def _split(self, theta: Array) -> list[list[float]]:
        sizes = self.input_sizes
        if sum(sizes) != len(theta):
            raise ServerError(f"{self._who} takes {sum(sizes)} parameters, in vectors of {sizes}; got {len(theta)}")
        return [part.tolist() for part in np.split(np.asarray(theta, dtype=float), np.cumsum(sizes)[:-1])]

    def _ask(self, question: str, body: Mapping[str, Any], timeout: float | None) -> dict[str, Any]:
        content = json.dumps({"name": self.name, "config": dict(self.config), **body}).encode()
        return self._with_retries(lambda: _request(f"{self._base}/{question}", content, timeout))

    def _with_retries(self, request: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        for attempt in range(self.retries):
            try:
                return request()
            except ServerUnreachableError:
                time.sleep(self.pause * 2**attempt)
        try:
            return request()
        except ServerUnreachableError as error:
            raise ServerUnreachableError(f"{error}; tried {self.retries + 1} times. Is the server running?") from error

    @property
    def _base(self) -> str:
        return self.url.rstrip("/")

    @property
    def _who(self) -> str:
        return f"model {self.name!r} at {self.url}"


def _request(url: str, content: bytes | None, timeout: float | None) -> dict[str, Any]:
    """One exchange with the server, as JSON."""
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            text = _read(response, timeout).decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            raise _reported(url, error) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError) and reason.errno is None:  # ours, not the network's
            raise SimulatorTimeoutError(f"{url} gave no answer within {timeout:g} s") from error
        why = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise ServerUnreachableError(f"{url} could not be reached: {why}") from error
    try:
        answer = _from_json(text)
    except ValueError as error:
        raise OutputError(f"{url} answered what is not JSON: {text[:200]}") from error
    if not isinstance(answer, dict):
        raise OutputError(f"{url} answered nonsense: {text[:200]}")
    if "error" in answer:
        raise ServerError(f"{url} reported {_error_text(answer)}")
    return answer


def _from_json(text: str) -> Any:
    """JSON; where it is not, once more with nan and inf as the Python server writes them."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(re.sub(r"\binf\b", "Infinity", re.sub(r"\bnan\b", "NaN", text)))


def _read(response: http.client.HTTPResponse, timeout: float | None) -> bytes:
    """The whole answer; the socket's own timeout starts anew with every byte."""
    deadline = None if timeout is None else time.monotonic() + timeout
    content = b""
    while chunk := response.read1(65536):
        content += chunk
        if deadline is not None and time.monotonic() > deadline:
            raise TimeoutError
    if response.length:
        raise http.client.IncompleteRead(content, response.length)
    return content


def _reported(url: str, error: urllib.error.HTTPError) -> SimulatorError:
    text = error.read().decode(errors="replace")
    try:
        return ServerError(f"{url} reported {_error_text(json.loads(text))}")
    except (ValueError, TypeError, KeyError):
        what = f"{url} answered {error.code} {error.reason}: {' '.join(text.split())[:200]}"
        return ServerUnreachableError(what) if error.code in _BUSY else ServerError(what)


def _error_text(answer: Mapping[str, Any]) -> str:
    error = answer["error"]
    return f"{error['type']}: {error['message']}" if isinstance(error, dict) and "type" in error else str(error)
