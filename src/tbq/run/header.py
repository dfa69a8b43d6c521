"""The first record of a journal: what the run is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from tbq.problem.evaluation import Evaluation
from tbq.problem.prior import Prior
from tbq.problem.records import Plain, evaluation_of, evaluation_record, number, prior_record
from tbq.problem.settings import Settings
from tbq.problem.tuning import Tuning

FORMAT = 1
Record = Plain

_WORDS = ("inf", "-inf", "nan")


def header_of(
    prior: Prior,
    settings: Settings,
    seed: int,
    version: str,
    known: Iterable[Evaluation],
    noise: Prior | None = None,
) -> Record:
    """What the run is: enough to notice on resume that something else is wanted.

    ``known`` are runs it starts from, ``noise`` is the prior of the noise parameters, which no run has.
    """
    of_noise = {} if noise is None else {"noise": prior_record(noise)}
    return {
        "kind": "header",
        "format": FORMAT,
        "version": version,
        "seed": seed,
        "prior": prior_record(prior),
        **of_noise,
        "settings": plain(asdict(settings)),
        "known": [evaluation_record(e) for e in known],
        "time": time.time(),
    }


def settings_of(record: Record) -> Settings:
    """The settings that a header has. A function that was one of them is its name."""
    known = {f.name for f in fields(Settings)}
    settings: dict[str, Any] = {k: float(v) if v in _WORDS else v for k, v in record.items() if k in known}
    tuning: dict[str, Any] = {k: float(v) if v in _WORDS else v for k, v in record["tuning"].items()}
    settings["tuning"] = Tuning(**tuning)
    settings["otherwise"] = settings_of(record["otherwise"]) if record.get("otherwise") else None
    return Settings(**{**settings, "tolerance": tuple(float(v) for v in settings["tolerance"])})


def known_of(header: Record) -> list[Evaluation]:
    return [evaluation_of(r) for r in header["known"]]


def plain(value: Any) -> Any:
    """Settings as JSON has them; a function by its name."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return number(value)
    if value is None or isinstance(value, str | int):
        return value
    return getattr(value, "__name__", type(value).__name__)
