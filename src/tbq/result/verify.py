"""Is it right? True runs at fresh posterior draws check a result and, as importance weights, correct it.

Draws θᵢ of the surrogate's posterior have the density q = E[L] p/Z. The true log-likelihood less log E[L] there is the
residual rᵢ, and

    Z_true/Z = E_q[L/E[L]] ≈ (1/n) Σ exp(rᵢ),

with weights exp(rᵢ) that turn the draws into draws of the true posterior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tbq.common.arguments import whole
from tbq.common.errors import ArgumentError, TbqError
from tbq.common.types import Array
from tbq.evidence import moments
from tbq.problem.evaluation import Evaluation, Proposal
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Seed
from tbq.result.result import Result
from tbq.simulate.pool import ExecutorLike, evaluate
from tbq.simulate.worker import LogLikelihood

_WORTH = 0.5  # fraction of the runs that the weighted draws should be worth
_FEW = 0.33  # fraction below which a correction is too sure of itself
_FAR = 2.0  # standard deviations


@dataclass(frozen=True)
class Verification:
    """What true runs at fresh posterior draws say."""

    log_evidence: float  # corrected
    log_evidence_sd: float
    before: tuple[float, float]  # log-evidence and its error as the result had them
    theta: Array  # (n, d): draws whose run succeeded
    residuals: Array  # (n,): true log-likelihood less the surrogate's; −inf where the likelihood is zero
    weights: Array  # (n,): of the draws in the true posterior; they sum to one
    evaluations: tuple[Evaluation, ...]  # all runs

    @property
    def effective_sample_size(self) -> float:
        """How many independent draws of the true posterior the weighted ones are worth."""
        return moments.effective_sample_size(self.weights)

    @property
    def agrees(self) -> bool:
        """Whether the surrogate's posterior and evidence stand."""
        gap = abs(self.log_evidence - self.before[0])
        near = gap <= _FAR * float(np.hypot(self.log_evidence_sd, self.before[1]))
        return near and self.effective_sample_size >= _WORTH * len(self.weights)

    @property
    def sentence(self) -> str:
        n, size = len(self.weights), self.effective_sample_size
        was = f"log evidence {self.before[0]:.4f} ± {self.before[1]:.4f}"
        now = f"{self.log_evidence:.4f} ± {self.log_evidence_sd:.4f}"
        worth = f"the draws are worth {size:.1f} of {n}"
        failed = len(self.evaluations) - n
        tail = f" {failed} more runs failed and say nothing." if failed else ""
        if self.agrees:
            return f"{n} true runs agree with the surrogate: {was}, corrected {now}; {worth}.{tail}"
        if size < _FEW * n:
            return (
                f"{n} true runs disagree with the surrogate, too much to be corrected by them: {was}, they say {now}, "
                f"but {worth}. Go on with the inference.{tail}"
            )
        return f"{n} true runs disagree with the surrogate: {was}, corrected {now}; {worth}.{tail}"

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"<Verification: {self.sentence}>"


class WithNoise:
    """A likelihood whose noise has parameters, as a function of all of them; sent to other processes as it is."""

    def __init__(self, likelihood: Any, d: int) -> None:
        if not isinstance(likelihood, GaussianLikelihood) or likelihood.noise_prior is None:
            raise ArgumentError(
                "verify: log_likelihood must be the tbq.GaussianLikelihood of the result, which has its noise "
                f"parameters; got {type(likelihood).__name__}"
            )
        self.likelihood, self.d = likelihood, d

    def __call__(self, theta: Array) -> Any:
        return self.evaluate(theta)[0]

    def evaluate(self, theta: Array) -> tuple[Any, Array]:
        theta = np.asarray(theta, dtype=float)
        return self.likelihood.evaluate(theta[..., : self.d], theta[..., self.d :])


def verify(
    result: Result,
    n: int,
    log_likelihood: LogLikelihood | None = None,
    *,
    executor: ExecutorLike | None = None,
    vectorized: bool = False,
    seed: Seed = None,
) -> Verification:
    """Check a result by ``n`` true runs. See :meth:`tbq.Result.verify`."""
    log_likelihood = result.likelihood if log_likelihood is None else log_likelihood
    if not callable(log_likelihood):
        raise ArgumentError(f"verify: log_likelihood must be a function; got {type(log_likelihood).__name__}")
    n = whole("verify: n", n, 2)
    if result.prior.simulated is not result.prior:
        log_likelihood = WithNoise(log_likelihood, result.prior.simulated.dim)
    draws = result.sample(n, seed)
    proposals = [Proposal(i, row, 0, "verify", np.nan) for i, row in enumerate(draws)]
    evaluations = evaluate(log_likelihood, proposals, executor, vectorized)
    known = np.array([not e.status.is_failure for e in evaluations])
    theta, found = draws[known], np.array([e.log_likelihood for e in evaluations])[known]
    if known.sum() < 2 or not np.isfinite(found).any():
        last = next((e.message for e in reversed(evaluations) if e.message), "the likelihood is zero")
        raise TbqError(f"verify: of {n} runs {known.sum()} succeeded, which says nothing; the last message was: {last}")
    expected = result.log_density(theta) - result.prior.log_density(theta) + result.log_evidence
    residuals = found - expected
    total, weights = moments.normalise(residuals)
    variance = (len(weights) / moments.effective_sample_size(weights) - 1.0) / (len(weights) - 1.0)
    failed = -np.log1p(-np.mean(~known))  # as in ErrorBudget.failures
    sd = float(np.sqrt(np.log1p(variance) + result.errors.monte_carlo**2 + failed**2))
    return Verification(
        log_evidence=result.log_evidence + total - float(np.log(len(weights))),
        log_evidence_sd=sd,
        before=(result.log_evidence, result.log_evidence_sd),
        theta=theta,
        residuals=residuals,
        weights=weights,
        evaluations=tuple(evaluations),
    )
