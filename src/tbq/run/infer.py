"""The one-call entry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack, cast

from tbq.acquisition.functions import ENSEMBLE
from tbq.common.arguments import function
from tbq.common.errors import ArgumentError
from tbq.engine.records import Stop
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.options import EngineOptions, documented, options_of, with_defaults
from tbq.problem.prior import Prior, check_prior
from tbq.problem.settings import resolve
from tbq.result.result import Result
from tbq.run.driver import drive
from tbq.run.options import RunOptions
from tbq.run.outage import PausedError
from tbq.run.progress import reporter
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
    """
    function("log_likelihood", log_likelihood)
    check_prior(prior)
    chosen = with_defaults("infer", RunOptions, cast(dict[str, Any], options))
    progress = chosen["progress"]
    if progress not in ("auto", "rich", "plain", False):
        raise ArgumentError(f"progress must be 'auto', 'rich', 'plain' or False; got {progress!r}")
    gaussian = isinstance(log_likelihood, GaussianLikelihood)
    of_engine = {name: chosen[name] for name in options_of(EngineOptions)}
    settings = resolve(prior.dim, outputs=gaussian, **of_engine)
    step = len(ENSEMBLE) if chosen["acquisition"] == "ensemble" else 1  # one point from each, or none
    how = ("batch_size", "executor", "vectorized", "timeout", "retries", "outage_after", "patience")
    durable = {name: chosen[name] for name in ("seed", "journal", "warm_start", "retry_failed")}
    plan = Plan(step=step, **{name: chosen[name] for name in how})
    with (
        Session.of(prior, settings, likelihood=log_likelihood, **durable) as session,
        reporter(progress) as report,
    ):
        try:
            drive(session, log_likelihood, plan, report)
        except BrokenExecutorError as error:
            session.note_outage(str(error), [p.id for p in session.pending], None)
            return replace(session.result(), stop=Stop.EXECUTOR)
        except PausedError as error:
            return replace(session.result(), stop=Stop.PAUSED, outage=str(error))
        return session.result()
