"""Models of the log-likelihood: each a Gaussian process of its values or of their log-depth."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tbq.common.types import Array
from tbq.gp import fitting
from tbq.gp import regression as gps
from tbq.gp.kernels import BY_NAME, KernelChoice
from tbq.surrogate import bowl
from tbq.surrogate.data import Data, few
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.warp import Warp

_SAFE = 1.5  # times as many runs as a model has numbers: with as many, any model fits
_ONE_BOWL = 30.0  # nats by which it must be more probable that all of the prior is one bowl: it denies other modes
_NOISY = 2.0  # nats by which it must be more probable that runs are noisy: most simulators are deterministic
_TILTS = 2  # rounds of fitting a tilt between those of the hyperparameters


class Model(NamedTuple):
    """A kernel, a mean, and how values far below the maximum and coordinates are looked at."""

    kernel: str
    basis: gps.Basis
    warped: bool = False  # log-depths are modelled
    tilted: bool = False  # below a top that rises with the parameters
    shaped: bool = False  # with noise that grows with depth, down to where a run is just deep
    rotated: bool = False  # in whitened coordinates of the population
    bowl: bool = False  # relative to a quadratic depth
    noisy: bool = False  # with noise of unknown level, beyond what is known of it
    local: bool = False  # of the runs that matter alone


SMOOTH = Model("se", "quadratic")  # with noise, what most noisy log-likelihoods are


class Start(NamedTuple):
    """Where a fit begins: what the last one found."""

    parameters: Array
    warp: Warp | None
    level: float = 0.0  # squared nats of noise that was learned


class Values(NamedTuple):
    """What a process is made of."""

    x: Array  # (n, d)
    values: Array  # (n,)
    noise: Array  # (n,)
    each: Array  # (n,): what a squared nat of noise in a log-likelihood adds to its noise


def competitors(choice: KernelChoice, data: Data) -> list[Model]:
    """A named kernel stands alone with a constant mean, as in the paper; 'auto' lets several models compete.

    A tilt is not fitted to a few runs, nor a bowl to not many more than its numbers, nor either to noisy runs, whose
    noise lifts the top. Where the posterior is far, models of the runs that matter compete too: one length-scale does
    not suit a prior that is a thousand times as wide as the posterior.
    """
    dim, runs = data.z.shape[1], len(data.y)
    if choice == "additive":
        return [Model("additive", "constant", shaped=True)]
    if choice != "auto":
        return [Model(choice, "constant")]
    models = [
        model
        for kernel in ("se", "matern52")
        for model in (
            Model(kernel, "constant"),
            Model(kernel, "quadratic"),
            Model(kernel, "constant", warped=True),
        )
    ]
    models += [Model("se", "quadratic", warped=True), Model("se", "quadratic", shaped=True)]
    if dim >= 3:
        models.append(Model("additive", "constant", shaped=True))
    if dim >= 2:
        models += [
            Model("se", "constant", warped=True, rotated=True),
            Model("matern52", "constant", warped=True, rotated=True),
            Model("se", "quadratic", warped=True, rotated=True),
        ]
    if data.asks_locally and dim >= 2:
        models += [
            Model("se", "constant", warped=True, rotated=True, local=True),
            Model("matern52", "constant", warped=True, rotated=True, local=True),
        ]
    if data.expected_noise:
        return models
    if dim >= 2 and runs > few(dim):
        models += [
            Model("se", "linear", warped=True, tilted=True, rotated=True),
            Model("matern52", "linear", warped=True, tilted=True, rotated=True),
            Model("matern52", "linear", warped=True, tilted=True),
        ]
    if dim >= 2 and runs >= _SAFE * (few(dim) + dim + 1):  # numbers of a bowl, a tilt, a depth and a line
        models += [
            Model("se", "linear", warped=True, tilted=True, bowl=True),
            Model("matern52", "linear", warped=True, tilted=True, bowl=True),
        ]
    return models


def fitted(
    model: Model, data: Data, start: Start | None, *, search: bool, cold: bool = False, known: gps.GP | None = None
) -> tuple[LogNormal, float]:
    """The model at the hyperparameters of ``start``, or (``search``) at the best ones, and its score.

    ``cold`` lets the search begin at the hyperparameters' prior too; ``known`` is a process of the first of these runs.
    """
    search = search or start is None
    data = data.best if model.local else data
    level = _level(model, start)
    base, data = data, data if level == 0.0 else replace(data, noise=data.noise + level)
    warp = _warp(model, data, start)
    if model.bowl and search and warp is not None:
        warp = bowl.around(data, warp, cold)
    parameters = None if start is None else start.parameters

    def process(v: Values, parameters: Array | None, search: bool, cold: bool) -> gps.GP:
        if search or parameters is None:
            return fitting.fit(*v[:3], BY_NAME[model.kernel], model.basis, parameters, cold)
        return gps.build(*v[:3], BY_NAME[model.kernel], model.basis, parameters, known=known)

    v = _values(model, data, warp)
    gp = process(v, parameters, search, cold)
    for _ in range(_TILTS if model.tilted and search else 0):
        assert warp is not None
        warp = bowl.likelier(gp, data, warp)
        v = _values(model, data, warp)
        gp = process(v, gp.parameters, True, False)
    if model.noisy and search:
        known_noise = v.noise - level * v.each
        gp, level = fitting.fit_noisy(*v[:2], known_noise, v.each, gp.kernel, gp.basis, gp.parameters, level, cold)
        data = replace(base, noise=base.noise + level)
        v = v._replace(noise=gp.noise)
    frame = data.frame if model.rotated else None
    ceiling = float(np.max(data.y)) + data.scale if data.tuning.ceiling else np.inf
    surrogate = LogNormal(gp, warp=warp, frame=frame, ceiling=ceiling, noise=data.expected_noise, level=level)
    surrogate = replace(surrogate, local=model.local)
    return surrogate, _score(gp, v, data, warp) - (_NOISY if model.noisy else 0.0)


def _level(model: Model, start: Start | None) -> float:
    """Squared nats of noise from which a search for its level goes on."""
    if not model.noisy:
        return 0.0
    return start.level if start is not None and start.level else fitting.NOISE_SD[0] ** 2


def _warp(model: Model, data: Data, start: Start | None) -> Warp | None:
    """Log-depths below the best run or, tilted, below a top that touches the runs from above."""
    if not model.warped:
        return None
    if not model.tilted:
        return Warp(float(np.max(data.y)), data.compressed_from(data.scale))
    if start is None or start.warp is None or start.warp.tilt is None:
        depth = data.tuning.warp_depth if model.bowl else data.scale
        return Warp(float(np.max(data.y)), data.compressed_from(depth), np.zeros(data.z.shape[1]))
    return replace(start.warp, top=float(np.max(data.y - data.z @ start.warp.tilt)))


def _values(model: Model, data: Data, warp: Warp | None) -> Values:
    """Of the values, their log-depths, or themselves with noise that grows with their depth."""
    values, noise, each = data.y if model.tilted else data.raised, data.noise, np.ones(len(data.y))
    if warp is not None:
        values = warp.forward(values, data.z)
        squared_slope = warp.inverse(values, data.z)[1] ** 2
        noise, each = noise / squared_slope, 1.0 / squared_slope
    if model.shaped:
        tuning, top = data.tuning, np.max(values)
        values = np.maximum(values, top - tuning.deepest / data.gamma)
        vague = tuning.deep_noise_slope * np.maximum(top - values - tuning.deep_noise_from / data.gamma, 0.0)
        noise = noise + vague**2
    x = data.frame(data.z) if model.rotated and data.frame is not None else data.z
    return Values(x, values, noise, each)


def _score(gp: gps.GP, v: Values, data: Data, warp: Warp | None) -> float:
    """Log marginal likelihood of the runs that matter given the others, with the hyperparameters' prior.

    How well a model knows what is deep does not count, so that models of some of the runs and of all compare. Each
    number of a fitted tilt or bowl costs half a logarithm of the number of runs (BIC).
    """
    score = gp.score
    if warp is not None:
        score += warp.log_jacobian(data.y[data.near], data.z[data.near])
        score -= 0.5 * bowl.number_of_numbers(warp) * np.log(len(data.y))
        score -= 0.0 if warp.bowl is None else _ONE_BOWL
    if np.any(deep := ~data.near):
        units = (gp.offset, gp.scale)
        others = gps.build(v.x[deep], v.values[deep], v.noise[deep], gp.kernel, gp.basis, gp.parameters, units)
        score -= others.score - gp.kernel.hyperprior(v.x.shape[1], gp.scale).log_density(gp.parameters)
    return float(score)
