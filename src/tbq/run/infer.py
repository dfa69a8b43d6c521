"""The one-call entry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack, cast

from tbq.acquisition.functions import ENSEMBLE
from tbq.common.arguments import checked_seed, function
from tbq.common.errors import ArgumentError
from tbq.engine.records import Stop
from tbq.problem.likelihood import GaussianLikelihood, noise_parameters
from tbq.problem.options import EngineOptions, documented, options_of, with_defaults
from tbq.problem.prior import Prior, check_prior
from tbq.problem.settings import resolve
from tbq.result.result import Result
from tbq.run.driver import drive
from tbq.run.options import RunOptions
from tbq.run.outage import PausedError
from tbq.run.progress import CHOICES, reporter
from tbq.run.sender import BrokenExecutorError, Plan
from tbq.run.session import Session
from tbq.simulate.worker import LogLikelihood


@documented(RunOptions)
def infer(log_likelihood: LogLikelihood, prior: Prior, **options: Unpack[RunOptions]) -> Result:
    """Posterior and evidence of an expensive log-likelihood, with their numerical errors.

    Parameters
    ----------
    log_likelihood
        Function of one ``theta`` (a 1-D float64 array in the prior's order) that returns one number, −inf where
        the likelihood is zero; or a :class:`tbq.GaussianLikelihood`. What it raises is recorded, and the run goes on.
    prior
        A :class:`tbq.Prior`.

    Returns
    -------
    Result
        What was found, or is known so far: ``result.stop`` says why the run ended, ``result.summary()`` all of it.

    Raises
    ------
    TbqError
        Where an argument is wrong, or the journal is of another run. What the log-likelihood raises is recorded.

    Examples
    --------
    >>> prior = tbq.Prior({"k": stats.uniform(0.0, 2.0)})
    >>> result = tbq.infer(lambda theta: -50.0 * (theta[0] - 1.2) ** 2, prior, seed=0)
    >>> result.converged, round(result.log_evidence, 1)
    (True, -2.1)
    """
    function("log_likelihood", log_likelihood)
    check_prior(prior)
    chosen = with_defaults("infer", RunOptions, cast(dict[str, Any], options))
    progress = chosen["progress"]
    if progress not in CHOICES:
        raise ArgumentError(f"progress must be 'auto', 'rich', 'plain', 'notebook' or False; got {progress!r}")
    gaussian = isinstance(log_likelihood, GaussianLikelihood)
    of_engine = {name: chosen[name] for name in options_of(EngineOptions)}
    coarse = isinstance(log_likelihood, GaussianLikelihood) and log_likelihood.has_coarse
    noise = noise_parameters(log_likelihood)
    settings = resolve(prior.simulated.dim, outputs=gaussian, noise=noise, coarse=coarse, **of_engine)
    step = len(ENSEMBLE) if chosen["acquisition"] == "ensemble" else 1  # one point from each, or none
    how = ("batch_size", "executor", "vectorized", "timeout", "retries", "outage_after", "patience")
    durable = {name: chosen[name] for name in ("journal", "warm_start", "retry_failed")}
    durable["seed"] = checked_seed(chosen["seed"], chosen["rng"])
    plan = Plan(step=step, **{name: chosen[name] for name in how})
    title = "tbq" if durable["journal"] is None else f"tbq {durable['journal']}"
    with (
        reporter(progress, title) as report,
        Session.of(prior, settings, likelihood=log_likelihood, replaying=report.replaying, **durable) as session,
    ):
        try:
            drive(session, log_likelihood, plan, report)
        except BrokenExecutorError as error:
            session.note_outage(str(error), [p.id for p in session.pending], None)
            return replace(session.result(), stop=Stop.EXECUTOR)
        except PausedError as error:
            result = replace(session.result(), stop=Stop.PAUSED, outage=str(error))
            report(replace(session.standing(), outage=str(error) or "no message"))
            return result
        result = session.result()
        session.note_found(result)
        report(session.standing())
        return result
