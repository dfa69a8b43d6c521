"""A model behind a UM-Bridge server as a function of theta. It can be pickled, so that any executor can run it."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
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
_BUSY = (502, 503, 504)  # answers of gateways and load balancers that pass


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
