"""Distributions by name, with the keys an engineer would write: ``uniform`` has ``low`` and ``high``."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from scipy import stats

from tbq.common.arguments import real
from tbq.common.errors import ArgumentError
from tbq.common.types import Distribution
from tbq.problem.families import families, shapes


def marginal(description: Mapping[str, Any]) -> Distribution:
    """The frozen distribution that, say, ``{"distribution": "normal", "mean": 2, "sd": 0.1}`` describes.

    Any continuous ``scipy.stats`` name is understood too, with scipy's own arguments. A ``unit`` is for people.
    """
    if "distribution" not in description:
        meant = difflib.get_close_matches("distribution", list(description), n=1)
        raise ArgumentError(f"distribution is missing{f'; is {meant[0]!r} meant for it?' if meant else ''}")
    name = description["distribution"]
    if not isinstance(name, str) or name not in (known := [*_READABLE, *families()]):
        near = suggestion(name, known) if isinstance(name, str) else ""
        raise ArgumentError(f"distribution {name!r} is not known{near}")
    if not isinstance(unit := description.get("unit", ""), str):
        raise ArgumentError(f"unit must be text; got {unit!r}")
    numbers = {k: _number(k, v) for k, v in description.items() if k not in ("distribution", "unit")}
    for keys, build in _READABLE.get(name, []):
        if set(numbers) == set(keys):
            return build(*(numbers[k] for k in keys))
    if name in families() and numbers and _fits_scipy(name, numbers):
        return families()[name](**numbers)
    raise ArgumentError(_wrong_keys(name, list(numbers)))


def suggestion(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'high'?`` when something known is near, else nothing."""
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


# --- the readable families ----------------------------------------------------------------------------------


def _uniform(low: float, high: float) -> Distribution:
    _ordered(low, high)
    return stats.uniform(low, high - low)


def _loguniform(low: float, high: float) -> Distribution:
    _ordered(low, high)
    _positive("low", low)
    return stats.loguniform(low, high)


def _normal(mean: float, sd: float) -> Distribution:
    _positive("sd", sd)
    return stats.norm(mean, sd)


def _truncated_normal(mean: float, sd: float, low: float = -np.inf, high: float = np.inf) -> Distribution:
    """``mean`` and ``sd`` are those of the normal before it is cut off."""
    _positive("sd", sd)
    _ordered(low, high)
    return stats.truncnorm((low - mean) / sd, (high - mean) / sd, mean, sd)


def _lognormal(median: float, log_sd: float) -> Distribution:
    """``log_sd`` is the standard deviation of the natural logarithm."""
    _positive("median", median)
    _positive("log_sd", log_sd)
    return stats.lognorm(log_sd, scale=median)


def _lognormal_by_moments(mean: float, sd: float) -> Distribution:
    _positive("mean", mean)
    _positive("sd", sd)
    log_variance = np.log1p((sd / mean) ** 2)
    return _lognormal(mean * np.exp(-0.5 * log_variance), np.sqrt(log_variance))


_READABLE: dict[str, list[tuple[tuple[str, ...], Callable[..., Distribution]]]] = {
    "uniform": [(("low", "high"), _uniform)],
    "loguniform": [(("low", "high"), _loguniform)],
    "normal": [(("mean", "sd"), _normal)],
    "truncated_normal": [
        (("mean", "sd", "low", "high"), _truncated_normal),
        (("mean", "sd", "low"), _truncated_normal),
        (("mean", "sd", "high"), lambda mean, sd, high: _truncated_normal(mean, sd, high=high)),
    ],
    "lognormal": [(("median", "log_sd"), _lognormal), (("mean", "sd"), _lognormal_by_moments)],
}


# --- scipy's own --------------------------------------------------------------------------------------------


def _scipy_keys(name: str) -> tuple[list[str], list[str]]:
    """Shape parameters, which must be there, and those that may."""
    return shapes(families()[name]), ["loc", "scale"]


def _fits_scipy(name: str, numbers: Mapping[str, float]) -> bool:
    needed, free = _scipy_keys(name)
    return set(needed) <= set(numbers) <= {*needed, *free}


# --- what can be wrong --------------------------------------------------------------------------------------


def _wrong_keys(name: str, given: list[str]) -> str:
    choices = [", ".join(keys) for keys, _ in _READABLE.get(name, [])]
    known = {k for keys, _ in _READABLE.get(name, []) for k in keys}
    if name in families():
        needed, free = _scipy_keys(name)
        known |= {*needed, *free}
        choices.append(", ".join([*needed, *(f"{k} (optional)" for k in free)]))
    near = next((s for k in given if k not in known and (s := suggestion(k, known))), "")
    return f"{name} needs {' or '.join(choices)}; got {', '.join(given) or 'nothing'}{near}"


def _number(key: str, value: Any) -> float:
    if not np.isfinite(number := real(value)):
        raise ArgumentError(f"{key} must be a finite number; got {value!r}")
    return number


def _ordered(low: float, high: float) -> None:
    if not low < high:
        raise ArgumentError(f"low must be below high; got low = {low:g} and high = {high:g}")


def _positive(key: str, value: float) -> None:
    if not value > 0:
        raise ArgumentError(f"{key} must be positive; got {value:g}")
