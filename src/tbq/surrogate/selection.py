"""Which Gaussian process: the kernel and mean that the data prefer, re-chosen as they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tbq.common.types import Array
from tbq.gp import fitting
from tbq.gp import regression as gps
from tbq.gp.kernels import BY_NAME, KernelChoice
from tbq.problem.tuning import Tuning
from tbq.surrogate.lognormal import LogNormal, Warp


class Model(NamedTuple):
    """A kernel, a mean, and what is done about values far below the maximum.

    ``warped`` compresses them before they are modelled, ``shaped`` gives them noise that grows with their depth.
    """

    kernel: str
    basis: gps.Basis
    warped: bool = False
    shaped: bool = False


@dataclass(frozen=True)
class Memory:
    """What one fit leaves to the next: the model in use, when it was chosen and fitted, and all hyperparameters."""

    model: Model | None = None
    contenders: tuple[Model, ...] = ()
    contest_at: int = 0
    chosen_at: int = 0
    fitted_at: int = 0
    warm: Mapping[Model, Array] = field(default_factory=dict)
    gamma: float = 1.0  # tempering that it was fitted for
    last: gps.GP | None = None  # the process in use, to be extended by new points


def competitors(choice: KernelChoice, dim: int) -> list[Model]:
    """A named kernel stands alone with a constant mean, as in the paper; 'auto' lets several models compete.

    From three parameters on there are two more: sums of functions of two parameters, and a quadratic, both told not
    to mind what lies far below the maximum.
    """
    if choice == "additive":
        return [Model("additive", "constant", shaped=True)]
    if choice != "auto":
        return [Model(choice, "constant")]
    shapes: tuple[tuple[gps.Basis, bool], ...] = (("constant", False), ("quadratic", False), ("constant", True))
    models = [Model(kernel, *shape) for kernel in ("se", "matern52") for shape in shapes]
    if dim >= 3:
        models += [Model("additive", "constant", shaped=True), Model("se", "quadratic", shaped=True)]
    return models


def pace(n: int) -> int:
    """New points after which hyperparameters are fitted again: one more run in 200 hardly moves them."""
    return 1 if n < 60 else 2 if n < 120 else 4 if n < 200 else max(8, n // 50)


def fit(
    x: Array, y: Array, noise: Array, choice: KernelChoice, gamma: float, memory: Memory, tuning: Tuning
) -> tuple[LogNormal, Memory]:
    """Condition the model in use on all data; when it is due refit it, and when that is due let all compete.

    The criterion is the marginal likelihood of the values times the hyperparameters' prior. The mean's coefficients
    are marginalised and the warp's Jacobian counts, so that flexibility is paid for. ``gamma`` is the tempering that
    the surrogate is for.
    """
    n, model = len(y), memory.model
    if model is not None and n - memory.fitted_at < pace(n):
        surrogate, _ = _surrogate(x, y, noise, model, memory.gamma, tuning, memory.warm[model], known=memory.last)
        return surrogate, replace(memory, last=surrogate.gp)
    everyone = n >= tuning.contest_growth * memory.contest_at
    models = competitors(choice, x.shape[1]) if everyone else list(memory.contenders)
    due = everyone or model is None or n - memory.chosen_at >= tuning.contest_every * pace(n)
    if model is not None and not due:
        models = [model]
    cold = due and n < 100  # look beyond the neighbourhood of the last optimum while that is cheap
    fitted = {m: _surrogate(x, y, noise, m, gamma, tuning, memory.warm.get(m), search=True, cold=cold) for m in models}
    best = max(fitted, key=lambda m: fitted[m][1])
    near = tuple(m for m in fitted if fitted[m][1] > fitted[best][1] - tuning.contest_margin)
    memory = replace(
        memory,
        model=best,
        contest_at=n if everyone else memory.contest_at,
        contenders=near if due else memory.contenders,
        chosen_at=n if due else memory.chosen_at,
        fitted_at=n,
        gamma=gamma,
        last=fitted[best][0].gp,
        warm={**memory.warm, **{m: s.gp.parameters for m, (s, _) in fitted.items()}},
    )
    return fitted[best][0], memory


def _surrogate(
    x: Array,
    y: Array,
    noise: Array,
    model: Model,
    gamma: float,
    tuning: Tuning,
    warm: Array | None,
    *,
    search: bool = False,
    cold: bool = False,
    known: gps.GP | None = None,
) -> tuple[LogNormal, float]:
    """One model at given hyperparameters, or at its best ones, and its score."""
    warp = Warp(float(np.max(y)), tuning.warp_depth) if model.warped else None
    values = y if warp is None else warp.forward(y)
    if warp is not None:
        noise = noise / warp.inverse(values)[1] ** 2
    if model.shaped:
        noise = noise + (tuning.deep_noise_slope * np.maximum(np.max(y) - y - tuning.deep_noise_from / gamma, 0.0)) ** 2
    kernel = BY_NAME[model.kernel]
    if search or warm is None:
        gp = fitting.fit(x, values, noise, kernel, model.basis, warm, cold)
    else:
        gp = gps.build(x, values, noise, kernel, model.basis, warm, known=known)
    return LogNormal(gp, warp=warp), gp.score + (warp.log_jacobian(y) if warp else 0.0)


def rivals(
    x: Array, y: Array, noise: Array, gamma: float, memory: Memory, tuning: Tuning
) -> list[tuple[LogNormal, float]]:
    """The other models that were not far behind, each with the nats that it is behind the one in use."""
    if memory.model is None:
        return []
    scored = {
        m: _surrogate(x, y, noise, m, gamma, tuning, memory.warm[m])
        for m in dict.fromkeys((memory.model, *memory.contenders))
    }
    best = scored.pop(memory.model)[1]
    return [(surrogate, max(best - score, 0.0)) for surrogate, score in scored.values()]
