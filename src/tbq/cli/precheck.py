"""What a case is and what a few runs of its model give, in words: the look before a long run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tbq.cli.casefields import Simulator
from tbq.cli.casefile import Case, Without
from tbq.common.errors import SimulatorError
from tbq.common.types import Array
from tbq.common.words import one_line
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.result.predict import labelled
from tbq.run.check import attempt, coarse_doubts, doubts, forecast, others, prior_mean
from tbq.simulate.command import CommandModel, templates_of
from tbq.simulate.placeholders import tight_places
from tbq.simulate.umbridge import UmBridgeModel

_SHOWN = 12  # outputs in full
_DRAWS = 256  # of the prior, at which templates are filled in to see whether values fit


def examine(case: Case, warnings: list[str]) -> Iterator[str]:
    """Lines about the case, a few runs of its model, and what they mean. Raises when none of them gives numbers.

    What speaks against it is added to ``warnings`` too.
    """
    prior, settings = case.prior(), case.settings()
    simulator, coarse = case.simulator(), case.simulator(level="coarse") if case.has_coarse else None
    log_likelihood = case.log_likelihood(simulator, coarse)
    yield from _parameters(prior)
    yield f"model        {_describe(case.model, case)}"
    if case.model is not None and case.model.coarse is not None:
        yield f"coarse       {_describe(case.model.coarse, case)}"
    if case.data is not None:
        yield f"data         {_count(case.data.observed, 'number')}, noise {case.data.in_words}"
    yield (
        f"run          {case.run.algorithm} with {case.run.acquisition}; {settings.n_initial} initial runs, "
        f"at most {settings.max_evaluations}"
    )
    yield ""
    ready(simulator, prior.dim, coarse)
    short = _is_command(simulator)
    warnings += template_doubts(case, simulator, prior)  # told first: they may be why the first run fails
    yield from (f"! {warning}" for warning in warnings)
    yield "Running the model at the prior mean and at two draws of the prior ..."
    theta = prior_mean(prior)
    first = attempt(simulator, theta)
    gaussian = log_likelihood if isinstance(log_likelihood, GaussianLikelihood) else None
    if first.error:
        yield f"At the prior mean it failed: {one_line(first.error)}"
    else:
        yield f"At the prior mean it returned {_count(first.outputs, 'number')} after {first.seconds:.3g} s."
        yield from _judge(first.outputs) if gaussian is None else _compare(gaussian, theta, first.outputs)
    runs = list(others(simulator, prior, first, short=short))
    if all(run.error for run in runs):
        raise SimulatorError(f"all {len(runs)} runs failed; the first said: {first.error}")
    for number, run in enumerate(runs[1:3], 1):
        seen = one_line(run.error) if run.error else f"{_count(run.outputs, 'number')} after {run.seconds:.3g} s"
        yield f"At draw {number}: {seen}"
    found = [*doubts(runs, gaussian, short=short), *coarse_doubts(gaussian, theta)]
    warnings += found
    yield from ["", *(f"! {warning}" for warning in found)] if found else []
    seconds = sum(run.seconds for run in runs[:3]) / len(runs[:3])
    yield f"\n{forecast(seconds, settings, case.run.workers)}"


def template_doubts(case: Case, simulator: Simulator, prior: Prior) -> list[str]:
    """What can go wrong where values are put into the templates."""
    model = simulator.model if isinstance(simulator, Without) else simulator
    if not isinstance(model, CommandModel):
        return []
    found = []
    for path in templates_of(model.template):
        text = path.read_bytes().decode(errors="surrogateescape")
        found += [f"{path.name}, {doubt}" for doubt in tight_places(text, list(model.names))]
    given = [list(case.parameters).index(name) for name in model.names]
    for theta in prior.sample(_DRAWS, 0, "sobol"):
        try:
            model.inputs(theta[given])
        except SimulatorError as error:
            return [*found, f"a run within the prior would fail: {error}"]
    return found


def _is_command(simulator: Simulator) -> bool:
    model = simulator.model if isinstance(simulator, Without) else simulator
    return isinstance(model, CommandModel)


def ready(simulator: Simulator, dim: int, coarse: Simulator | None = None) -> None:
    """Ask servers for their models before anything else; other models were checked when they were made."""
    if isinstance(simulator, Without):
        ready(simulator.model, dim - 1)
    elif isinstance(simulator, UmBridgeModel):
        simulator.check(dim)
    if coarse is not None:
        ready(coarse, dim)


def _compare(likelihood: GaussianLikelihood, theta: Array, outputs: Array) -> Iterator[str]:
    observed, used = likelihood.observed, likelihood.experiments[0].used
    if len(likelihood.experiments) == 1 and used is not None and outputs.ndim == 1 and len(outputs) > used.max():
        outputs = outputs[used]
    if outputs.shape != observed.shape:
        numbers = f"returned {_count(outputs, 'number')}" if outputs.ndim == 1 else f"returned shape {outputs.shape}"
        raise SimulatorError(f"the model {numbers}, but data.observed has {len(observed)}")
    known = np.isfinite(outputs) | np.isnan(observed)
    if not np.all(known):
        first = int(np.argmin(known))
        raise SimulatorError(f"the model's output {first + 1} of {len(outputs)} is {outputs[first]}")
    scales = np.exp(likelihood.log_scales(theta[None, :])[0, likelihood.experiment_of])
    off = likelihood.whiten(outputs[None, :])[0] / scales
    labels = labelled(likelihood.names, likelihood.units)
    width = max(map(len, labels[:_SHOWN]))
    yield f"\n{'':<{width}} {'output':>14} {'observed':>14} {'off by':>10}"
    for name, got, wanted, by in list(zip(labels, outputs, observed, off, strict=True))[:_SHOWN]:
        seen = f"{wanted:>14.6g} {by:>+10.3g}" if np.isfinite(wanted) else f"{'not measured':>14}"
        yield f"{name:<{width}} {got:>14.6g} {seen}"
    if len(outputs) > _SHOWN:
        yield f"{'...':>{width + 15}}"
    kind = "" if likelihood.sd is not None else ", decorrelated"
    kind += ", at the middle of its priors" if likelihood.noise_prior is not None else ""
    yield f"(in standard deviations of the noise{kind})"
    yield f"\nIts log-likelihood is {likelihood.from_outputs(theta, outputs):.6g}."


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


def _describe(model: Any, case: Case) -> str:
    if hasattr(model, "python"):
        return f"{model.python} from {model.path}"
    if hasattr(model, "command"):
        names = ", ".join(output.name for output in case.outputs)
        return f"{' '.join(model.command)} → {model.output or names}"
    return f"{model.name!r} at {model.url}"


def _count(values: Any, what: str) -> str:
    n = np.size(values)
    return f"{n} {what}{'' if n == 1 else 's'}"
