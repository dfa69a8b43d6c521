"""Hyperparameters of a Gaussian process: the best ones, and draws of others that the data make plausible."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy import linalg, optimize

from tbq.common.types import Array
from tbq.gp.kernels import Kernel
from tbq.gp.regression import GP, Basis, Problem, basis_functions, build, units_of

ENOUGH = 1e-5  # relative gain of the score below which the search for hyperparameters ends
ASKEW = 2.0  # nats by which a draw of hyperparameters may be worse than its normal approximation says
DIFFERENCE = 0.02  # step of the finite differences of the score's gradient
MOST_FITTED = 1000  # points that a search for hyperparameters sees
_FIRST_FITTED = 250  # points with which it starts where nothing is known yet
NOISE_SD = (0.3, 1.5, 0.02, 20.0)  # of a noise that is learned: median, width of its logarithm, range searched
_REFUSED = 1e25  # objective where the covariance cannot be factorised


def fit(
    x: Array,
    y: Array,
    noise: Array | float,
    kernel: Kernel,
    basis: Basis = "constant",
    warm: Array | None = None,
    cold: bool = True,
) -> GP:
    """The process whose hyperparameters maximise marginal likelihood times prior.

    The search starts at the prior's centre (``cold``), at ``warm``, or at both. Of more than ``MOST_FITTED`` points it
    sees a part, evenly taken; where there is nothing to start from, that is first done with a smaller part.
    """
    noise = np.broadcast_to(np.asarray(noise, dtype=float), y.shape)
    if warm is None and len(y) > 2 * _FIRST_FITTED:
        some = slice(None, None, len(y) // _FIRST_FITTED)
        warm, cold = fit(x[some], y[some], noise[some], kernel, basis).parameters, False
    problem = _part(MOST_FITTED, x, y, noise, kernel, basis, units_of(y, noise))
    prior = problem.hyperprior

    def objective(parameters: Array) -> tuple[float, Array]:
        value, gradient = problem.log_posterior(parameters)
        return (-value, -gradient) if np.isfinite(value) else (_REFUSED, np.zeros_like(gradient))

    starts = ([prior.mean] if cold or warm is None else []) + ([] if warm is None else [warm])
    best, least = _lowest(objective, starts, prior.low, prior.high)
    if least >= _REFUSED and not cold:  # what was fitted to fewer points leads nowhere
        return fit(x, y, noise, kernel, basis, warm)
    return build(x, y, noise, kernel, basis, best)


def fit_noisy(
    x: Array, y: Array, noise: Array, each: Array, kernel: Kernel, basis: Basis, warm: Array, level: float, cold: bool
) -> tuple[GP, float]:
    """The process and the variance of further noise, of which each point has ``each`` times as much, that fit best.

    The search starts at ``warm`` and the variance ``level``, and (``cold``) at a smooth process with all scatter in the
    noise: one whose length-scales have followed the noise leads nowhere. The logarithm of the noise's standard
    deviation has the normal prior of ``NOISE_SD``.
    """
    some = slice(None, None, -(-len(y) // MOST_FITTED))
    problem = _part(MOST_FITTED, x, y, noise, kernel, basis, units_of(y, noise))
    prior, (centre, width, lowest, highest) = problem.hyperprior, NOISE_SD

    def objective(numbers: Array) -> tuple[float, Array]:
        parameters, more = numbers[:-1], np.exp(2.0 * numbers[-1]) * each[some]
        value, gradient, of_noise = problem.with_noise_gradient(parameters, more)
        if not np.isfinite(value):
            return _REFUSED, np.zeros_like(numbers)
        off = (numbers[-1] - np.log(centre)) / width
        return 0.5 * off**2 - value, np.append(-gradient, off / width - 2.0 * (of_noise @ more))

    low, high = np.append(prior.low, np.log(lowest)), np.append(prior.high, np.log(highest))
    starts = [np.append(warm, 0.5 * np.log(level))]
    if cold:
        starts.append(np.append(prior.mean, np.log(_scatter(problem, each[some]))))
    best, _ = _lowest(objective, starts, low, high)
    level = float(np.exp(2.0 * best[-1]))
    return build(x, y, noise + level * each, kernel, basis, best[:-1], (problem.offset, problem.scale)), level


def _scatter(problem: Problem, each: Array) -> float:
    """Standard deviation of values about a quadratic, in units of ``each``; of as little as there can be no less."""
    scale = np.sqrt(problem.noise + each)
    functions = basis_functions("quadratic", problem.x) / scale[:, None]
    left = problem.centred / scale - functions @ np.linalg.lstsq(functions, problem.centred / scale, rcond=None)[0]
    return float(np.median(np.abs(left)) / 0.6745) + NOISE_SD[2]


def _lowest(
    objective: Callable[[Array], tuple[float, Array]], starts: list[Array], low: Array, high: Array
) -> tuple[Array, float]:
    """Where an objective that has a gradient is lowest within bounds, of the climbs from all starts, and its value."""
    runs = [
        optimize.minimize(
            objective,
            np.clip(start, low, high),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={"maxiter": 100, "ftol": ENOUGH},
        )
        for start in starts
    ]
    best = min(runs, key=lambda r: float(r.fun))
    return np.asarray(best.x), float(best.fun)


def log_posterior(
    x: Array, y: Array, noise: Array, kernel: Kernel, basis: Basis, parameters: Array, units: tuple[float, float]
) -> tuple[float, Array]:
    """Log marginal likelihood plus log prior of hyperparameters, and its gradient; −inf where there is no factor."""
    return Problem.of(x, y, noise, kernel, basis, units).log_posterior(parameters)


def hyperparameter_draws(gp: GP, n: int, rng: np.random.Generator) -> Iterator[GP]:
    """The process at ``n`` draws from a normal approximation of its hyperparameters' posterior (Laplace)."""
    units = (gp.offset, gp.scale)
    problem = _part(MOST_FITTED, gp.x, gp.y, gp.noise, gp.kernel, gp.basis, units)
    prior = problem.hyperprior
    here, slope = problem.log_posterior(gp.parameters)  # not gp.score, which is of the data that it was fitted to
    hessian = np.array(
        [
            (slope - problem.log_posterior(gp.parameters + e)[1]) / DIFFERENCE
            for e in DIFFERENCE * np.eye(len(gp.parameters))
        ]
    )
    values, vectors = linalg.eigh(0.5 * (hessian + hessian.T))
    widths = 1.0 / np.sqrt(np.maximum(values, 1.0 / np.max(prior.sd) ** 2))  # never wider than the prior
    for draw in rng.standard_normal((n, len(values))):
        step = vectors @ (widths * draw)
        for fraction in (
            1.0,
            0.5,
            0.25,
        ):  # the posterior is no normal: less of a step that is worse than one would have
            parameters = np.clip(gp.parameters + fraction * step, prior.low, prior.high)
            factors = problem.factorise(parameters)
            allowed = 0.5 * fraction**2 * (draw @ draw) + ASKEW
            if factors is not None and here - problem.score(factors, parameters) < allowed:
                yield build(gp.x, gp.y, gp.noise, gp.kernel, gp.basis, parameters, units)
                break


def _part(
    most: int, x: Array, y: Array, noise: Array, kernel: Kernel, basis: Basis, units: tuple[float, float]
) -> Problem:
    """The problem with at most so many of the points, evenly taken."""
    some = slice(None, None, -(-len(y) // most))
    return Problem.of(x[some], y[some], noise[some], kernel, basis, units)
