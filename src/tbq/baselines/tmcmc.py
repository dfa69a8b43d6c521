"""Transitional Markov chain Monte Carlo (Ching and Chen 2007), the reference sampler for cheap log-likelihoods."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from tbq.common.arguments import checked_seed, function, positive, whole
from tbq.common.errors import TbqError
from tbq.common.randomness import fresh_seed, stream
from tbq.common.types import Array, IntArray
from tbq.engine.records import Stage
from tbq.evidence import moments, moves, tempering
from tbq.problem.evaluation import Proposal, Status
from tbq.problem.prior import Prior, Seed, check_prior
from tbq.simulate.pool import ExecutorLike, evaluate, opened
from tbq.simulate.worker import LogLikelihood

_MOST_STAGES = 200
_COLLAPSED = 0.5  # fraction of points that moved, below which a population is no sample


@dataclass(frozen=True)
class SampledPosterior:
    """Evidence and posterior draws of a sampler."""

    log_evidence: float
    log_evidence_sd: float
    samples: Array  # (n, d)
    stages: tuple[Stage, ...]
    n_evaluations: int
    n_failed: int  # evaluations that gave no number; they count as zero likelihood

    @property
    def evidence(self) -> float:
        return float(np.exp(self.log_evidence))

    def __repr__(self) -> str:
        failed = f", {self.n_failed} failed" if self.n_failed else ""
        evidence = f"log evidence {self.log_evidence:.4g} ± {self.log_evidence_sd:.2g}"
        return f"<SampledPosterior: {evidence}, {len(self.samples)} draws, {self.n_evaluations} evaluations{failed}>"


class _Counter:
    """The log-likelihood in working coordinates, counting calls and failures."""

    def __init__(self, log_likelihood: LogLikelihood, prior: Prior, executor: Executor, vectorized: bool) -> None:
        self.log_likelihood, self.prior, self.executor, self.vectorized = log_likelihood, prior, executor, vectorized
        self.calls = self.failures = 0
        self.message = ""  # of the last failure

    def __call__(self, z: Array) -> Array:
        theta = self.prior.from_working(z)
        proposals = [Proposal(self.calls + i, row, 0, "tmcmc", np.nan) for i, row in enumerate(theta)]
        done = evaluate(self.log_likelihood, proposals, self.executor, self.vectorized)
        self.calls += len(done)
        failed = [e for e in done if e.status.is_failure]
        self.failures += len(failed)
        self.message = failed[-1].message if failed else self.message
        return np.array([e.log_likelihood if e.status is Status.OK else -np.inf for e in done])


def tmcmc(
    log_likelihood: LogLikelihood,
    prior: Prior,
    *,
    population: int = 2000,
    temper_cov: float = 1.0,
    chain_length: int = 20,
    executor: ExecutorLike | None = None,
    vectorized: bool = False,
    seed: int | None = None,
    rng: Seed = None,
) -> SampledPosterior:
    """Sample the posterior with the log-likelihood itself: many thousand calls, no surrogate.

    Each stage weighs the population towards the next tempered posterior, resamples it and moves every point by
    ``chain_length`` Metropolis steps; with few steps a stage inherits the errors of the last, and
    ``log_evidence_sd`` is too small. Raises :class:`TbqError` where a population collapses.
    """
    function("log_likelihood", log_likelihood)
    check_prior(prior)
    population = whole("population", population, 10 * (prior.dim + 1))
    temper_cov, chain_length = positive("temper_cov", temper_cov), whole("chain_length", chain_length)
    seed = checked_seed(seed, rng)
    seed = fresh_seed() if seed is None else seed
    with opened(executor) as pool:
        return _sample(_Counter(log_likelihood, prior, pool, vectorized), population, temper_cov, chain_length, seed)


def _sample(target: _Counter, population: int, temper_cov: float, chain_length: int, seed: int) -> SampledPosterior:
    prior = target.prior
    z = prior.to_working(prior.sample(population, stream(seed, "population"), "lhs"))
    value = target(z)
    ancestors = np.arange(population)
    gamma = 0.0
    stages: list[Stage] = []
    while gamma < 1.0:
        if not np.isfinite(value).any():
            said = f"; the last of {target.failures} that failed said: {target.message}" if target.failures else ""
            raise TbqError(f"tmcmc: no point of the population has a likelihood above zero{said}")
        if len(stages) == _MOST_STAGES:
            raise TbqError(f"tmcmc: γ has only reached {gamma:.3g} after {_MOST_STAGES} stages")
        step = tempering.next_gamma(lambda g: (g - gamma) * _floored(value), gamma, temper_cov)  # noqa: B023
        log_sum, weights = moments.normalise((step - gamma) * value)
        rng = stream(seed, "move", len(stages))
        index = moments.systematic_resample(weights, population, rng)
        ancestors = ancestors[index]
        moved = moves.move(
            z[index],
            lambda z, step=step: step * target(z),  # type: ignore[misc]
            prior.log_density_working,
            chain_length,
            rng,
        )
        before = sum(s.evaluations for s in stages)
        stages.append(
            Stage(
                gamma=step,
                evaluations=target.calls - before,
                log_evidence=sum(s.log_ratio for s in stages) + log_sum - float(np.log(population)),
                log_ratio=log_sum - float(np.log(population)),
                log_bridge=np.nan,
                log_ratio_sd=float(tempering.weight_cov((step - gamma) * value) / np.sqrt(population)),
                effective_sample_size=moments.effective_sample_size(weights),
                acceptance=moved.acceptance,
                unique=moved.unique,
            )
        )
        if moved.unique < _COLLAPSED:
            raise TbqError(
                f"tmcmc: the population collapsed in stage {len(stages)} (γ = {step:.3g}): only "
                f"{100 * moved.unique:.0f} % of its points moved; use a larger population or longer chains"
            )
        z, value, gamma = moved.z, moved.log_likelihood / step, step
    log_evidence = float(sum(s.log_ratio for s in stages))
    independent = sum(s.log_ratio_sd**2 for s in stages)  # if every stage forgot the one before
    sd = float(np.sqrt(max(independent, _genealogical_variance(ancestors, len(stages)))))
    return SampledPosterior(log_evidence, sd, prior.from_working(z), tuple(stages), target.calls, target.failures)


def _floored(value: Array) -> Array:
    """Log-likelihoods with −inf as something finite and far below: 0 · −inf has no value."""
    return np.maximum(value, value[np.isfinite(value)].min() - 1e4)


def _genealogical_variance(ancestors: IntArray, stages: int) -> float:
    """Variance of the log-evidence from one run, by who descends from whom (Lee and Whiteley 2018).

    Where few of the first points have all the descendants, the estimate rests on few independent lines.
    """
    n = len(ancestors)
    fractions = np.bincount(ancestors, minlength=n) / n
    return 1.0 - (n / (n - 1.0)) ** (stages + 1) * (1.0 - float(np.sum(fractions**2)))
