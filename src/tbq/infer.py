"""The one-call entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

from tbq import conclude, engine
from tbq.acquisition import ENSEMBLE
from tbq.errors import ArgumentError
from tbq.evaluation import Evaluation, Proposal
from tbq.prior import Prior
from tbq.progress import Progress, reporter
from tbq.randomness import fresh_seed
from tbq.result import Result
from tbq.runner import LogLikelihood, evaluate
from tbq.settings import Algorithm, KernelChoice, Search, Settings, resolve
from tbq.threads import single_threaded


def infer(
    log_likelihood: LogLikelihood,
    prior: Prior,
    *,
    algorithm: Algorithm = "tbq",
    acquisition: str | Callable[..., Any] = "peur",
    search: Search = "auto",
    kernel: KernelChoice = "auto",
    tolerance: float | Sequence[float] = 0.04,
    temper_cov: float = 0.75,
    n_initial: int | None = None,
    population: int | None = None,
    chain_length: int | None = None,
    max_evaluations: int | None = None,
    batch_size: int = 1,
    executor: Executor | None = None,
    vectorized: bool = False,
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
        (:class:`tbq.acquisition.Target`, points).
    search
        ``"pool"`` ranks candidates, ``"continuous"`` also climbs from the best, ``"auto"`` climbs in up to six
        dimensions.
    kernel
        ``"se"``, ``"matern52"`` or ``"additive"`` (functions of two parameters), each with a constant mean, or
        ``"auto"``: chosen from the data, with the mean.
    tolerance
        Target coefficient of variation of the evidence: (intermediate stages, final stage), or one number for the
        final stage; intermediate ones then have two and a half times as much.
    temper_cov
        Coefficient of variation of the weights that a stage may need: smaller means more stages.
    n_initial, population, chain_length, max_evaluations
        Initial runs, points per population, Markov chain steps per stage, and the most runs there may be; chosen
        when None.
    batch_size
        Runs per iteration; each point knows of those before it.
    executor
        A ``concurrent.futures.Executor`` that runs the batch; without one it is run here, one by one.
    seed
        Makes the run repeatable.
    progress
        ``"rich"``: a line that changes; ``"plain"``: a line per stage; ``False``: nothing; ``"auto"``: the first on a
        terminal, else nothing.
    """
    if not callable(log_likelihood):
        raise ArgumentError(f"log_likelihood must be a function of theta; got {type(log_likelihood).__name__}")
    if not isinstance(prior, Prior):
        raise ArgumentError(f"prior must be a tbq.Prior; got {type(prior).__name__}")
    if int(batch_size) != batch_size or batch_size < 1:
        raise ArgumentError(f"batch_size must be a whole number of at least 1; got {batch_size!r}")
    if progress not in ("auto", "rich", "plain", False):
        raise ArgumentError(f"progress must be 'auto', 'rich', 'plain' or False; got {progress!r}")
    if seed is not None and (int(seed) != seed or seed < 0):
        raise ArgumentError(f"seed must be a whole number of at least 0, or None; got {seed!r}")
    settings = resolve(
        prior.dim,
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
    batch = max(batch_size, len(ENSEMBLE)) if acquisition == "ensemble" else batch_size

    def evaluator(proposals: list[Proposal]) -> list[Evaluation]:
        return evaluate(log_likelihood, proposals, executor, vectorized)

    with reporter(progress) as report:
        state = run(evaluator, prior, settings, fresh_seed() if seed is None else seed, batch, report)
    with single_threaded():
        return conclude.result(state)


def run(
    evaluator: Callable[[list[Proposal]], list[Evaluation]],
    prior: Prior,
    settings: Settings,
    seed: int,
    batch: int = 1,
    report: Callable[[engine.State], None] = lambda state: None,
) -> engine.State:
    """Drive the engine to its end: ask, evaluate, tell."""
    state = engine.init(prior, settings, seed)
    while state.stop is None:
        missing = settings.n_initial - state.next_id
        with single_threaded():
            state, proposals = engine.ask(state, missing if missing > 0 else batch)
        evaluations = evaluator(proposals)  # with as many threads as the user's simulator likes
        with single_threaded():
            state = engine.tell(state, evaluations)
        report(state)
    return state
