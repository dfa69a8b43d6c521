"""Which Gaussian process: the kernel and mean that the data prefer, re-chosen as they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tbq import gp as gps
from tbq.kernels import MATERN52, SE, Kernel
from tbq.lognormal import LogNormal
from tbq.settings import KernelChoice
from tbq.types import Array

Model = tuple[str, gps.Basis]  # kernel name and mean

_KERNELS: dict[str, Kernel] = {"se": SE, "matern52": MATERN52}
_RECONSIDER = 5  # fits after which all models compete again


@dataclass(frozen=True)
class Memory:
    """What one fit leaves to the next: the model in use, when it was chosen and fitted, and all hyperparameters."""

    model: Model | None = None
    chosen_at: int = 0
    fitted_at: int = 0
    warm: Mapping[Model, Array] = field(default_factory=dict)


def competitors(choice: KernelChoice) -> list[Model]:
    """A named kernel stands alone with a constant mean, as in the paper; 'auto' lets four models compete."""
    if choice != "auto":
        return [(choice, "constant")]
    return [(kernel, basis) for kernel in _KERNELS for basis in ("constant", "quadratic")]


def pace(n: int) -> int:
    """New points after which hyperparameters are fitted again: one more run in 200 hardly moves them."""
    return 1 if n < 60 else 2 if n < 120 else 4 if n < 200 else 8


def fit(x: Array, y: Array, noise: Array, choice: KernelChoice, memory: Memory) -> tuple[LogNormal, Memory]:
    """Condition the model in use on all data; when it is due refit it, and when that is due let all compete.

    The criterion is the marginal likelihood times the hyperparameters' prior, with the mean's coefficients
    marginalised, so that a quadratic mean pays for its coefficients.
    """
    n, model = len(y), memory.model
    if model is not None and n - memory.fitted_at < pace(n):
        gp = gps.build(x, y, noise, _KERNELS[model[0]], model[1], memory.warm[model])
        return LogNormal(gp), memory
    models = competitors(choice)
    due = model is None or n - memory.chosen_at >= _RECONSIDER * pace(n)
    if model is not None and not due:
        models = [model]
    cold = due and n < 100  # look beyond the neighbourhood of the last optimum while that is cheap
    fitted = {m: gps.fit(x, y, noise, _KERNELS[m[0]], m[1], memory.warm.get(m), cold) for m in models}
    best = max(fitted, key=lambda m: fitted[m].score)
    memory = replace(
        memory,
        model=best,
        chosen_at=n if due else memory.chosen_at,
        fitted_at=n,
        warm={**memory.warm, **{m: gp.parameters for m, gp in fitted.items()}},
    )
    return LogNormal(fitted[best]), memory
