"""References of the examples with real solvers: importance sampling with the true model, without any surrogate.

`python benchmarks/solver_references.py calculix|opensees` writes examples/NAME/reference.json. A Student bell is fitted
to the posterior by the true model alone; then three seeds, each with fresh draws, estimate evidence and posterior. A
tenth of the draws is of the prior, so that weights are bounded and another mode would show.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from tbq.cli import casefile
from tbq.common.types import Array

ROOT = Path(__file__).parents[1]
SEEDS, DRAWS, PRIOR_SHARE, DEGREES = (1, 2, 3), 1500, 0.1, 5


class Target:
    """The unnormalised log posterior in coordinates that are normal under the prior; every run is counted."""

    def __init__(self, case: casefile.Case) -> None:
        self.prior = case.prior()
        self.log_likelihood: Callable[[Array], Any] = case.log_likelihood(case.simulator())
        self.marginals = list(self.prior.marginals.values())
        self.runs = 0

    def theta(self, z: Array) -> Array:
        return np.array([m.ppf(stats.norm.cdf(v)) for m, v in zip(self.marginals, z, strict=True)])

    def __call__(self, z: Array) -> float:
        self.runs += 1
        try:
            value = float(self.log_likelihood(self.theta(z)))
        except Exception:  # a run that gives nothing has no likelihood here
            value = -np.inf
        return value + float(stats.norm.logpdf(z).sum()) if np.isfinite(value) else -np.inf


def start(target: Target) -> tuple[Array, Array]:
    """Mode and the covariance of its curvature: the best of some draws, descended from by differences."""
    rng = np.random.default_rng(0)
    tries = rng.standard_normal((60, len(target.marginals)))
    best = tries[int(np.argmax([target(z) for z in tries]))]
    loss = lambda z: -max(target(z), -1e10)
    best = optimize.minimize(loss, best, method="Nelder-Mead", options={"maxfev": 300}).x
    best = optimize.minimize(loss, best, method="BFGS", options={"eps": 1e-4, "maxiter": 30}).x
    best = optimize.minimize(loss, best, method="Nelder-Mead", options={"maxfev": 300}).x
    axes = 0.01 * np.eye(len(best))
    for _ in range(2):  # first by small steps, then by steps of half a standard deviation along its own axes
        values, vectors = np.linalg.eigh(axes.T @ _curvature(target, best, axes) @ axes)
        axes = axes @ vectors / np.sqrt(np.maximum(values, 1e-3)) * 0.5
    return best, 4.0 * axes @ axes.T


def _curvature(target: Target, at: Array, axes: Array) -> Array:
    """Minus the second derivatives of the log posterior, by differences along the columns of ``axes``."""
    d, middle = len(at), target(at)
    inverse = np.linalg.inv(axes)
    h = np.zeros((d, d))
    for i in range(d):
        h[i, i] = 2 * middle - target(at + axes[:, i]) - target(at - axes[:, i])
        for j in range(i):
            corners = [a * b * target(at + a * axes[:, i] + b * axes[:, j]) for a in (1, -1) for b in (1, -1)]
            h[i, j] = h[j, i] = -sum(corners) / 4
    return inverse.T @ h @ inverse


def draw(mean: Array, covariance: Array, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draws of the mixture, and the log of its density."""
    bell = stats.multivariate_t(mean, covariance, df=DEGREES, seed=rng)
    ours = rng.random(n) < PRIOR_SHARE
    z = np.where(ours[:, None], rng.standard_normal((n, len(mean))), bell.rvs(n))
    parts = [np.log(PRIOR_SHARE) + stats.norm.logpdf(z).sum(axis=1), np.log1p(-PRIOR_SHARE) + bell.logpdf(z)]
    return z, special.logsumexp(parts, axis=0)


def weigh(target: Target, mean: Array, covariance: Array, n: int, seed: int) -> tuple[Array, Array]:
    z, log_q = draw(mean, covariance, n, np.random.default_rng(seed))
    return z, np.array([target(row) for row in z]) - log_q


def moments(z: Array, log_w: Array) -> tuple[Array, Array]:
    """Of weights to a power at which a tenth of them counts, so that no round follows a few draws."""
    powers = np.linspace(1.0, 0.02, 50)
    log_w = next((p * log_w for p in powers if _effective(p * log_w) > 0.1 * len(z)), powers[-1] * log_w)
    weights = special.softmax(log_w)
    mean = weights @ z
    return mean, (z - mean).T @ ((z - mean) * weights[:, None])


def _effective(log_w: Array) -> float:
    return float(1 / np.sum(special.softmax(log_w) ** 2))


def main(name: str) -> None:
    began = time.time()
    folder = ROOT / "examples" / name
    own = folder / "reference.toml"  # where the case itself leaves noise to be integrated over
    target = Target(casefile.load(own if own.exists() else folder / "case.toml"))
    mean, covariance = start(target)
    print(f"{target.runs} runs: mode at {target.theta(mean)}", flush=True)
    for i, n in enumerate((150, 300, 500)):
        z, log_w = weigh(target, mean, covariance, n, 100 + i)
        mean, covariance = moments(z, log_w)
        covariance = 1.2 * covariance + 1e-6 * np.eye(len(mean))
        print(f"{target.runs} runs: effective {_effective(log_w):.0f} of {n}", flush=True)
    found = [weigh(target, mean, covariance, DRAWS, seed) for seed in SEEDS]
    each = [float(special.logsumexp(log_w) - np.log(DRAWS)) for _, log_w in found]
    log_w = np.concatenate([w for _, w in found])
    theta = np.array([target.theta(row) for z, _ in found for row in z])
    weights = special.softmax(log_w)
    at = weights @ theta
    spread = np.sqrt(weights @ (theta - at) ** 2)
    effective = _effective(log_w)
    reference = {
        "log_evidence": float(special.logsumexp(log_w) - np.log(len(log_w))),
        "log_evidence_sd": float(np.sqrt(len(log_w) / effective - 1) / np.sqrt(len(log_w))),
        "log_evidence_of_seeds": each,
        "mean": dict(zip(target.prior.names, at.tolist(), strict=True)),
        "sd": dict(zip(target.prior.names, spread.tolist(), strict=True)),
        "effective_sample_size": effective,
        "runs": target.runs,
        "seeds": SEEDS,
    }
    (folder / "reference.json").write_text(json.dumps(reference, indent=2) + "\n")
    print(f"{json.dumps(reference, indent=2)}\nafter {time.time() - began:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1])
