"""Hyperparameters of a Gaussian process: the best ones, and draws of others that the data make plausible."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import linalg, optimize

from tbq.common.types import Array
from tbq.gp.kernels import Kernel
from tbq.gp.regression import GP, Basis, Problem, build, units_of

ENOUGH = 1e-5  # relative gain of the score below which the search for hyperparameters ends
ASKEW = 2.0  # nats by which a draw of hyperparameters may be worse than its normal approximation says
DIFFERENCE = 0.02  # step of the finite differences of the score's gradient
MOST_FITTED = 1000  # points that a search for hyperparameters sees
_FIRST_FITTED = 250  # points with which it starts where nothing is known yet
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
    runs = [
        optimize.minimize(
            objective,
            np.clip(start, prior.low, prior.high),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(prior.low, prior.high, strict=True)),
            options={"maxiter": 100, "ftol": ENOUGH},
        )
        for start in starts
    ]
    best = min(runs, key=lambda r: float(r.fun))
    if best.fun >= _REFUSED and not cold:  # what was fitted to fewer points leads nowhere
        return fit(x, y, noise, kernel, basis, warm)
    return build(x, y, noise, kernel, basis, best.x)


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
