"""The one-call entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tbq.acquisition.functions import ENSEMBLE
from tbq.common.arguments import function
from tbq.common.errors import ArgumentError
from tbq.engine.records import Stop
from tbq.gp.kernels import KernelChoice
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior, check_prior
from tbq.problem.settings import Algorithm, Search, SurrogateChoice, learnable, resolve
from tbq.result.result import Result
from tbq.run.driver import drive
from tbq.run.outage import PausedError
from tbq.run.progress import Progress, reporter
from tbq.run.sender import BrokenExecutorError, Plan
from tbq.run.session import Session
from tbq.run.warm_start import WarmStart
from tbq.simulate.pool import ExecutorLike
from tbq.simulate.worker import LogLikelihood


def infer(
    log_likelihood: LogLikelihood,
    prior: Prior,
    *,
    algorithm: Algorithm = "tbq",
    acquisition: str | Callable[..., Any] = "peur",
    search: Search = "auto",
    surrogate: SurrogateChoice = "auto",
    kernel: KernelChoice = "auto",
    tolerance: float | Sequence[float] = 0.04,
    temper_cov: float = 0.75,
    n_initial: int | None = None,
    population: int | None = None,
    chain_length: int | None = None,
    max_evaluations: int | None = None,
    batch_size: int = 1,
    executor: ExecutorLike | None = None,
    vectorized: bool = False,
    timeout: float | None = None,
    retries: int = 0,
    outage_after: tuple[float, float] = (5, 8),
    patience: float = 3600.0,
    journal: str | Path | None = None,
    warm_start: WarmStart | None = None,
    retry_failed: bool = False,
    seed: int | None = None,
    progress: Progress = "auto",
) -> Result:
    """Posterior and evidence of an expensive log-likelihood, with their numerical errors.

    Parameters
    ----------
    log_likelihood
        Function of one ``theta`` (a 1-D float64 array in the prior's order) that returns one number, −inf where
        the likelihood is zero. With ``vectorized=True``: of a 2-D array, returning a 1-D one. What it raises is
        recorded, and the run goes on.
    prior
        A :class:`tbq.Prior`.
    algorithm
        ``"tbq"``: Transitional Bayesian Quadrature (Algorithm 2), which reaches sharp posteriors in stages;
        ``"bq"``: Bayesian Quadrature over the prior (Algorithm 1), for posteriors not much narrower than it.
    acquisition
        What a run is worth: ``"puq"``, ``"pvc"``, ``"abs_pvc"``, ``"plur"``, ``"peur"``, ``"interval"`` (the original
        TBQ's), ``"ensemble"`` (one point from each of the four per iteration), or a function of
        (:class:`tbq.acquisition.functions.Target`, points).
    search
        ``"pool"`` ranks candidates, ``"continuous"`` also climbs from the best, ``"auto"`` climbs in up to six
        dimensions.
    surrogate
        What is learned: ``"outputs"``, those of the simulator behind a :class:`tbq.GaussianLikelihood`;
        ``"log_likelihood"``, for any other; ``"auto"``: the outputs where there are any and they can be modelled.
    kernel
        ``"se"``, ``"matern52"`` or ``"additive"`` (functions of two parameters), each with a constant mean, or
        ``"auto"``: chosen from the data, with the mean.
    tolerance
        Coefficient of variation of the evidence at which the surrogate knows enough: (intermediate stages, final
        stage), or one number for the final stage; intermediate ones then have two and a half times as much. The total
        error, with all its other parts, can be a little larger; where outputs are learned less is asked for.
    temper_cov
        Coefficient of variation of the weights that a stage may need: smaller means more stages.
    n_initial, population, chain_length, max_evaluations
        Initial runs, points per population, Markov chain steps per stage, and the most runs there may be; chosen
        when None.
    batch_size
        Runs in flight; each point knows of those that are out.
    executor
        A ``concurrent.futures.Executor`` (threads, processes, Dask, MPI), or a function that makes one, so that a pool
        that breaks is made anew. Without one a batch is run here, one by one.
    timeout
        Seconds that one call of the log-likelihood may take. Each then runs in a process of its own, which is ended
        with all that it started when its time is up; that costs the start of a process per run.
    retries
        How often a run that failed, or was too slow, is tried again. One whose worker died always is, once.
    outage_after
        Failures in a row that say the same, whatever their theta, from which on they count as an outage of the
        simulator: before any run succeeded, and later. ``inf`` is never.
    patience
        Seconds that an outage is waited for, with tries at growing intervals: refused connections, a program that does
        not start, a :class:`tbq.Transient` that your function raised, failures alike. Then the run ends
        (``Stop.PAUSED``), and its journal is ready to go on. Runs that an outage stopped do not count.
    journal
        A folder that makes the run durable: call again with the same arguments, and it goes on where it was.
    warm_start
        Earlier evaluations to start from, in place of the initial runs: the folder of a journal, a :class:`tbq.Result`
        or a list. The prior may be another, and the data too where outputs were stored.
    retry_failed
        Forget the failures of the journal, and run their points again; of ``warm_start``, leave them out.
    seed
        Makes the run repeatable.
    progress
        ``"rich"``: a line that changes; ``"plain"``: a line per stage; ``False``: nothing; ``"auto"``: the first on a
        terminal, else nothing.
    """
    function("log_likelihood", log_likelihood)
    check_prior(prior)
    if progress not in ("auto", "rich", "plain", False):
        raise ArgumentError(f"progress must be 'auto', 'rich', 'plain' or False; got {progress!r}")
    settings = resolve(
        prior.dim,
        surrogate=learnable(surrogate, isinstance(log_likelihood, GaussianLikelihood)),
        algorithm=algorithm,
        acquisition=acquisition,
        search=search,
        kernel=kernel,
        tolerance=tolerance,
        temper_cov=temper_cov,
        n_initial=n_initial,
        population=population,
        chain_length=chain_length,
        max_evaluations=max_evaluations,
    )
    step = len(ENSEMBLE) if acquisition == "ensemble" else 1  # one point from each, or none
    plan = Plan(batch_size, step, executor, vectorized, timeout, retries, outage_after, patience)
    session = Session.of(
        prior,
        settings,
        seed=seed,
        journal=journal,
        warm_start=warm_start,
        likelihood=log_likelihood,
        retry_failed=retry_failed,
    )
    with session, reporter(progress) as report:
        gaussian = log_likelihood if isinstance(log_likelihood, GaussianLikelihood) else None
        try:
            drive(session, log_likelihood, plan, report)
        except BrokenExecutorError as error:
            session.note_outage(str(error), [p.id for p in session.pending], None)
            return replace(session.result(), likelihood=gaussian, stop=Stop.EXECUTOR)
        except PausedError as error:
            return replace(session.result(), likelihood=gaussian, stop=Stop.PAUSED, outage=str(error))
        return replace(session.result(), likelihood=gaussian)
