"""Which Gaussian process: the model that the data prefer, re-chosen as they arrive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tbq.gp import regression as gps
from tbq.gp.kernels import KernelChoice
from tbq.surrogate.data import Data
from tbq.surrogate.guard import Guard
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.models import SMOOTH, Model, Start, competitors, fitted
from tbq.surrogate.warp import Frame

_GUARDS = (Model("matern52", "constant", warped=True), Model("se", "constant", warped=True))  # of all log-depths

Contest = dict[Model, tuple[LogNormal, float]]  # models fitted, and their scores


@dataclass(frozen=True)
class Memory:
    """What one fit leaves to the next: the model in use, when it was chosen and fitted, and where all fits ended."""

    model: Model | None = None
    contenders: tuple[Model, ...] = ()
    contest_at: int = 0
    asked_locally: bool = False  # whether local models competed then
    chosen_at: int = 0
    fitted_at: int = 0
    warm: Mapping[Model, Start] = field(default_factory=dict)
    gamma: float = 1.0  # tempering that it was fitted for
    frame: Frame | None = None  # coordinates of the population then
    last: gps.GP | None = None  # the process in use, to be extended by new points
    guard: Model | None = None  # of log-depths, whose guard it is under

    @property
    def noise(self) -> float:
        """Squared nats of noise that was learned."""
        return 0.0 if self.model is None else self.warm[self.model].level


def pace(n: int) -> int:
    """New points after which hyperparameters are fitted again: one more run in 200 hardly moves them."""
    return 1 if n < 60 else 2 if n < 120 else 4 if n < 200 else max(8, n // 50)


def fit(data: Data, choice: KernelChoice, memory: Memory) -> tuple[LogNormal, Memory]:
    """Condition the model in use on all data; when it is due refit it, and when that is due let all compete.

    The criterion is the marginal likelihood of the values times the hyperparameters' prior. The mean's coefficients
    are marginalised and the warp's Jacobian counts, so that flexibility is paid for.
    """
    n, model, tuning = len(data.y), memory.model, data.tuning
    model = None if model is not None and model.local and not data.asks_locally else model
    every = min(pace(n), tuning.far_pace) if data.far else pace(n)
    if model is not None and n - memory.fitted_at < every:
        same = replace(data, gamma=memory.gamma, frame=memory.frame)
        surrogate, _ = fitted(model, same, memory.warm[model], search=False, known=memory.last)
        return replace(surrogate, guard=_guard(same, memory, model)), replace(memory, last=surrogate.gp)
    everyone = model is None or n >= tuning.contest_growth * memory.contest_at
    everyone = everyone or (data.asks_locally and not memory.asked_locally)
    models = competitors(choice, data) if everyone else _allowed(memory.contenders, data)
    due = everyone or n - memory.chosen_at >= tuning.contest_every * every
    if model is not None and not due:
        models = [model]
    cold = due and n < 100  # look beyond the neighbourhood of the last optimum while that is cheap
    found = {m: fitted(m, data, memory.warm.get(m), search=True, cold=cold) for m in models}
    if everyone and data.may_be_noisy and choice == "auto":
        found |= _noisy(found, data, memory, cold)
    best = max(found, key=lambda m: found[m][1])
    if data.asks_locally and model in found and found[model][1] > found[best][1] - tuning.rival_scale:
        best = model  # what scores cannot tell apart would take turns, and runs are chosen for one of them
    near = tuple(m for m in found if found[m][1] > found[best][1] - tuning.contest_margin)
    memory = replace(
        memory,
        model=best,
        contest_at=n if everyone else memory.contest_at,
        asked_locally=data.asks_locally if everyone else memory.asked_locally,
        contenders=near if due else memory.contenders,
        chosen_at=n if due else memory.chosen_at,
        fitted_at=n,
        gamma=data.gamma,
        frame=data.frame,
        last=found[best][0].gp,
        guard=_best_guard(found, data) if everyone else memory.guard,
        warm={**memory.warm, **{m: _start(s) for m, (s, _) in found.items()}},
    )
    return replace(found[best][0], guard=_guard(data, memory, best)), memory


def _allowed(models: Iterable[Model], data: Data) -> list[Model]:
    """Local models need a guard, which there is where the posterior is far."""
    return [m for m in models if data.asks_locally or not m.local]


def _best_guard(found: Contest, data: Data) -> Model | None:
    """The model of log-depths that makes those of all runs most probable; none where no values are expected deep."""
    if not data.tuning.ceiling:
        return None
    return max((m for m in _GUARDS if m in found), key=lambda m: found[m][0].gp.score, default=None)


def _guard(data: Data, memory: Memory, model: Model) -> Guard | None:
    """What the log-depths of all runs tell. A bowl is of all runs itself, and knows where its slopes lead."""
    if memory.guard is None or model.bowl:
        return None
    depths, _ = fitted(memory.guard, data, memory.warm[memory.guard], search=False)
    assert depths.warp is not None
    return Guard(depths.gp, depths.warp, float(np.max(data.y)) - data.tuning.guard_depth).earned(data.y)


def _noisy(found: Contest, data: Data, memory: Memory, cold: bool) -> Contest:
    """Models with noise of unknown level. Where the best one and a smooth one do not gain by it, no other is asked."""
    best = max(found, key=lambda m: found[m][1])
    upright = [m for m in found if not m.tilted]  # noise would lift a top that touches all runs from above

    def with_noise(models: Iterable[Model]) -> Contest:
        starts = {m: memory.warm.get(m._replace(noisy=True)) or _start(found[m][0]) for m in models}
        return {
            m._replace(noisy=True): fitted(m._replace(noisy=True), data, start, search=True, cold=cold)
            for m, start in starts.items()
        }

    asked = with_noise(dict.fromkeys([max(upright, key=lambda m: found[m][1]), SMOOTH]))
    if max(score for _, score in asked.values()) <= found[best][1]:
        return {}
    return asked | with_noise(m for m in upright if m._replace(noisy=True) not in asked)


def _start(surrogate: LogNormal) -> Start:
    return Start(surrogate.gp.parameters, surrogate.warp, surrogate.level)


def rivals(data: Data, memory: Memory) -> list[tuple[LogNormal, float]]:
    """The other models that were not far behind, each with the nats that it is behind the one in use."""
    if memory.model is None:
        return []
    same = replace(data, frame=memory.frame)
    models = dict.fromkeys((memory.model, *_allowed(memory.contenders, data)))
    scored = {m: fitted(m, same, memory.warm[m], search=False) for m in models}
    best = scored.pop(memory.model)[1]
    return [(replace(s, guard=_guard(same, memory, m)), max(best - score, 0.0)) for m, (s, score) in scored.items()]
