"""What a case is and what one run of its model gives, in words: the look before a long run."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np

from tbq.cli.casefile import Case, DataTable, Simulator, Without
from tbq.common.arguments import floats
from tbq.common.errors import SimulatorError, TbqError
from tbq.common.types import Array
from tbq.common.words import described, duration
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.simulate.umbridge import UmBridgeModel

_SHOWN = 12  # outputs in full
_FAR = 1e3  # standard deviations of the noise: farther than this the data or their units may be wrong


def examine(case: Case) -> Iterator[str]:
    """Lines about the case, the model's run at the prior mean, and what it means. Raises when there is no number."""
    prior, settings = case.prior(), case.settings()
    simulator = case.simulator()
    log_likelihood = case.log_likelihood(simulator)
    yield from _parameters(prior)
    yield f"model        {_describe(case)}"
    if case.data is not None:
        yield f"data         {_count(case.data.observed, 'number')}, noise {_noise(case.data)}"
    yield (
        f"run          {case.run.algorithm} with {case.run.acquisition}; {settings.n_initial} initial runs, "
        f"at most {settings.max_evaluations}"
    )
    yield ""
    ready(simulator, prior.dim)
    theta = prior_mean(prior)
    yield "Running the model once at the prior mean ..."
    start = time.perf_counter()
    outputs = _run(simulator, theta)
    seconds = time.perf_counter() - start
    yield f"It returned {_count(outputs, 'number')} after {seconds:.3g} s."
    if isinstance(log_likelihood, GaussianLikelihood):
        yield from _compare(log_likelihood, theta, outputs)
    else:
        yield from _judge(outputs)
    if case.run.workers > 1:
        seconds /= case.run.workers
    yield (
        f"\nAt this pace the initial design takes {duration(seconds * settings.n_initial)} and the whole budget "
        f"{duration(seconds * settings.max_evaluations)}, besides our own work."
    )


def ready(simulator: Simulator, dim: int) -> None:
    """Ask a server for its model before anything else; other models were checked when they were made."""
    if isinstance(simulator, Without):
        ready(simulator.model, dim - 1)
    elif isinstance(simulator, UmBridgeModel):
        simulator.check(dim)


def prior_mean(prior: Prior) -> Array:
    """Means of the marginals; the median where there is no mean."""
    means = np.array([m.mean() for m in prior.marginals.values()])
    return np.where(np.isfinite(means), means, [m.median() for m in prior.marginals.values()])


def _run(simulator: Simulator, theta: Array) -> Array:
    try:
        outputs = simulator(theta)
    except TbqError:
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename}, line {frame.lineno}"
        raise SimulatorError(f"the model raised {described(error)} ({where})") from error
    try:
        return np.atleast_1d(floats(outputs))
    except Exception as error:
        raise SimulatorError(f"the model returned {type(outputs).__name__}, not numbers") from error


def _compare(likelihood: GaussianLikelihood, theta: Array, outputs: Array) -> Iterator[str]:
    observed = likelihood.observed
    if outputs.shape != observed.shape:
        numbers = f"returned {_count(outputs, 'number')}" if outputs.ndim == 1 else f"returned shape {outputs.shape}"
        raise SimulatorError(f"the model {numbers}, but data.observed has {len(observed)}")
    if not np.all(np.isfinite(outputs)):
        first = int(np.argmin(np.isfinite(outputs)))
        raise SimulatorError(f"the model's output {first + 1} of {len(outputs)} is {outputs[first]}")
    scales = np.exp(likelihood.log_scales(theta[None, :])[0, likelihood.experiment_of])
    off = likelihood.whiten(outputs[None, :])[0] / scales
    yield f"\n{'output':>14} {'observed':>14} {'off by':>10}"
    for got, wanted, by in list(zip(outputs, observed, off, strict=True))[:_SHOWN]:
        yield f"{got:>14.6g} {wanted:>14.6g} {by:>+10.3g}"
    if len(outputs) > _SHOWN:
        yield f"{'...':>14}"
    yield "(in standard deviations of the noise" + (")" if likelihood.sd is not None else ", decorrelated)")
    yield f"\nIts log-likelihood is {likelihood.from_outputs(theta, outputs):.6g}."
    if np.abs(off).max() > _FAR:
        yield "This is very far from the data. Are units and the order of outputs right, and is the noise too small?"


def _judge(outputs: Array) -> Iterator[str]:
    if outputs.size != 1:
        raise SimulatorError(
            f"the model returned {outputs.size} numbers, but model.returns = 'log_likelihood' means one; "
            "give [data] if they are outputs"
        )
    value = float(outputs.reshape(()))
    if value == -np.inf:
        yield "The log-likelihood is −inf: the prior mean has zero likelihood. That is allowed, and rarely intended."
    elif not np.isfinite(value):
        raise SimulatorError(f"the log-likelihood is {value}")
    else:
        yield f"The log-likelihood is {value:.6g}."


# --- words --------------------------------------------------------------------------------------------------


def _parameters(prior: Prior) -> Iterator[str]:
    width = max(12, *(len(name) for name in prior.names))
    yield f"{'parameter':<{width}} {'mean':>11} {'sd':>11} {'5 %':>11} {'95 %':>11}"
    for name, m in prior.marginals.items():
        numbers = [m.mean(), m.std(), *m.ppf([0.05, 0.95])]
        yield f"{name:<{width}} " + " ".join(f"{v:>11.4g}" for v in numbers)
    if prior.correlation is not None:
        yield "correlated"
    yield ""


def _describe(case: Case) -> str:
    model: Any = case.model
    if hasattr(model, "python"):
        return f"{model.python} from {model.path}"
    if hasattr(model, "command"):
        return f"{' '.join(model.command)} → {model.output}"
    return f"{model.name!r} at {model.url}"


def _noise(data: DataTable) -> str:
    words = ("standard deviation", "standard deviations", "covariance")[np.ndim(data.noise)]
    kind = f"{words} {data.noise:g}" if np.ndim(data.noise) == 0 else f"{words} given"
    return kind if data.scale is None else f"{kind}, times {data.scale}"


def _count(values: Any, what: str) -> str:
    n = np.size(values)
    return f"{n} {what}{'' if n == 1 else 's'}"
