"""Which Gaussian process: the kernel and mean that the data prefer, re-chosen as they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tbq import gp as gps
from tbq.kernels import MATERN52, SE, Kernel
from tbq.lognormal import LogNormal
from tbq.settings import KernelChoice
from tbq.types import Array

Model = tuple[str, gps.Basis]  # kernel name and mean

_KERNELS: dict[str, Kernel] = {"se": SE, "matern52": MATERN52}
_RECONSIDER = 5  # new points after which all models compete again


@dataclass(frozen=True)
class Memory:
    """What one fit leaves to the next: the model in use, since when, and each model's hyperparameters."""

    model: Model | None = None
    chosen_at: int = 0
    warm: Mapping[Model, Array] = field(default_factory=dict)


def competitors(choice: KernelChoice) -> list[Model]:
    """A named kernel stands alone with a constant mean, as in the paper; 'auto' lets four models compete."""
    if choice != "auto":
        return [(choice, "constant")]
    return [(kernel, basis) for kernel in _KERNELS for basis in ("constant", "quadratic")]


def fit(x: Array, y: Array, noise: Array, choice: KernelChoice, memory: Memory) -> tuple[LogNormal, Memory]:
    """Fit the model in use, or, when it is due, all of them, and keep the best.

    The criterion is the marginal likelihood times the hyperparameters' prior, with the mean's coefficients
    marginalised, so that a quadratic mean pays for its coefficients.
    """
    models = competitors(choice)
    due = memory.model is None or len(y) - memory.chosen_at >= _RECONSIDER
    if len(models) > 1 and not due and memory.model is not None:
        models = [memory.model]
    fitted = {model: _fit_one(x, y, noise, model, memory) for model in models}
    best = max(fitted, key=lambda model: fitted[model].score)
    warm = {**memory.warm, **{model: gp.parameters for model, gp in fitted.items()}}
    chosen_at = len(y) if due else memory.chosen_at
    return LogNormal(fitted[best]), Memory(best, chosen_at, warm)


def _fit_one(x: Array, y: Array, noise: Array, model: Model, memory: Memory) -> gps.GP:
    cold = len(y) % _RECONSIDER == 0  # now and then look beyond the neighbourhood of the last optimum
    return gps.fit(x, y, noise, _KERNELS[model[0]], model[1], memory.warm.get(model), cold)
