"""A model behind a UM-Bridge server as a function of theta. It can be pickled, so that any executor can run it."""

from __future__ import annotations

import http.client
import io
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from tbq.common.arguments import check_timeout
from tbq.common.errors import (
    ArgumentError,
    OutputError,
    ServerError,
    ServerUnreachableError,
    SimulatorError,
    SimulatorTimeoutError,
)
from tbq.common.types import Array
from tbq.simulate.textfiles import flatten

_QUESTION_TIMEOUT = 10.0  # seconds for the questions a server answers without running the model
_BUSY = (408, 429, 502, 503, 504)  # answers of gateways and load balancers that pass
_ELSEWHERE = (301, 302, 303, 307, 308)  # redirects
_MOST = 256 * 2**20  # bytes of an answer
_MOST_PARTS = 10_000_000  # numbers, lists and objects in it, of up to a hundred bytes each in memory
_SEEN = 4096  # bytes of an error that are looked at


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
        check_timeout(self.timeout)

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
        if not isinstance(sizes, list) or not all(type(s) is int and s >= 0 for s in sizes):
            raise OutputError(f"{self._who} answered nonsense to InputSizes: {json.dumps(answer)[:200]}")
        return sizes

    def models(self) -> list[str]:
        """Names of the models on the server."""
        answer = self._with_retries(lambda: _request(f"{self._base}/Info", None, _QUESTION_TIMEOUT))
        models = answer.get("models")
        if not isinstance(models, list) or not all(isinstance(m, str) for m in models):
            got = json.dumps(answer)[:200]
            raise OutputError(f"{self.url} answered nonsense to Info; is it a UM-Bridge server? Got {got}")
        return models

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
        try:
            opener = urllib.request.build_opener(_Plain, _Secure, _NoRedirects)
            with opener.open(request, timeout=timeout) as response:
                text = _read(response, url).decode(errors="replace")
        except urllib.error.HTTPError as error:
            with error:
                raise _reported(url, error) from None
    except SimulatorError:
        raise
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError) and reason.errno is None:  # ours, not the network's
            raise SimulatorTimeoutError(f"{url} gave no answer within {timeout:g} s") from error
        why = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise ServerUnreachableError(f"{url} could not be reached: {why}") from error
    if sum(map(text.count, ",[{")) > _MOST_PARTS:
        raise OutputError(f"{url} answered more than {_MOST_PARTS} numbers and lists")
    try:
        answer = _from_json(text)
    except (ValueError, RecursionError) as error:
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


def _read(response: http.client.HTTPResponse, url: str) -> bytes:
    """The whole answer, unless it is endless."""
    content = bytearray()
    while chunk := response.read1(65536):
        content += chunk
        if len(content) > _MOST:
            raise OutputError(f"{url} answered more than {_MOST >> 20} MiB")
    if response.length:
        raise http.client.IncompleteRead(bytes(content), response.length)
    return bytes(content)


def _reported(url: str, error: urllib.error.HTTPError) -> SimulatorError:
    if error.code in _ELSEWHERE:
        where = error.headers.get("Location", "nowhere")[:200]
        return ServerError(f"{url} sends us on to {where}; that is not followed: give the address of the model itself")
    text = error.read(_SEEN).decode(errors="replace")
    try:
        return ServerError(f"{url} reported {_error_text(json.loads(text))}")
    except (ValueError, TypeError, KeyError, RecursionError):
        what = f"{url} answered {error.code} {error.reason}: {' '.join(text.split())[:200]}"
        return ServerUnreachableError(what) if error.code in _BUSY else ServerError(what)


def _error_text(answer: Mapping[str, Any]) -> str:
    error = answer["error"]
    return f"{error['type']}: {error.get('message', '')}" if isinstance(error, dict) and "type" in error else str(error)


# --- in time ------------------------------------------------------------------------------------------------


class _Timed(io.RawIOBase):
    """What a socket has to say until the deadline. Its own timeout starts anew with every byte."""

    def __init__(self, sock: Any, deadline: float) -> None:
        self._socket, self._file, self._deadline = sock, sock.makefile("rb", buffering=0), deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if (left := self._deadline - time.monotonic()) <= 0.0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """Head and body of an answer, both before the deadline."""

    def __init__(self, sock: Any, *arguments: Any, deadline: float, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_Timed(sock, deadline))


class _Connection(http.client.HTTPConnection):
    """One deadline for connecting, asking and the answer."""

    def connect(self) -> None:
        if not isinstance(self.timeout, int | float):  # none was given
            return super().connect()
        deadline = time.monotonic() + self.timeout
        self.response_class = partial(_Response, deadline=deadline)  # type: ignore[assignment]
        super().connect()
        self.sock.settimeout(max(deadline - time.monotonic(), 1e-3))
        return None


class _SecureConnection(_Connection, http.client.HTTPSConnection):
    """The same, encrypted."""


class _Plain(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, request)


class _Secure(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, request)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A question that is sent on would be asked again without its theta, or of somebody else."""

    def redirect_request(self, *_: Any) -> None:
        return None
