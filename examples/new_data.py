"""New data without new runs: the outputs of old runs are judged by the new measurements.

An exponential decay with three parameters is measured twice, the second time after the rate has changed. Run:
python examples/new_data.py
"""

import numpy as np
from scipy import stats

import tbq

TIMES = np.linspace(0.0, 5.0, 20)
NOISE = 0.05


def decay(theta: np.ndarray) -> np.ndarray:
    """Stands for a simulator that takes hours."""
    amplitude, rate, level = theta
    return amplitude * np.exp(-rate * TIMES) + level


def main() -> tuple[tbq.Result, tbq.Result]:
    prior = tbq.Prior(
        {"amplitude": stats.uniform(0.5, 1.5), "rate": stats.uniform(0.2, 1.8), "level": stats.uniform(-0.5, 1.0)}
    )
    rng = np.random.default_rng(0)
    march, june = (decay(np.array([1.2, rate, 0.1])) + NOISE * rng.standard_normal(20) for rate in (0.8, 0.9))

    first = tbq.infer(tbq.GaussianLikelihood(decay, march, NOISE), prior, seed=0)
    second = tbq.infer(tbq.GaussianLikelihood(decay, june, NOISE), prior, seed=0, warm_start=first)
    for month, result in (("march", first), ("june", second)):
        new = sum(e.origin != "earlier" for e in result.evaluations)
        mean, sd = result.samples[:, 1].mean(), result.samples[:, 1].std()
        print(
            f"{month:<6} {new:2d} new runs, log evidence {result.log_evidence:.3f} ± {result.log_evidence_sd:.3f}, "
            f"rate {mean:.3f} ± {sd:.3f}"
        )
    return first, second


if __name__ == "__main__":
    main()
