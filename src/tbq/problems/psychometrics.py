"""Answers counted: a logistic regression with lapses, and psychometric functions in two conditions.

Counts are synthetic; the likelihoods are normalised. Evidences by benchmarks/real_references.py.
"""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from tbq.common.types import Array
from tbq.problem.prior import Prior
from tbq.problems.base import Problem, Reference
from tbq.problems.measured import columns, numbers

# Sixteen signals, each with three distractors, 12 trials each; intercept 0.4, slopes 1.2 and −0.9, 8 % lapses.
SIGNAL, DISTRACTOR = np.repeat(np.linspace(-4.5, 4.5, 16), 3), np.tile([-1.0, 0.0, 1.0], 16)
CHOSEN = numbers("""
    1 0 0 1 0 0 1 3 0 3 0 0 1 0 1 8 2 1 9 7 2 6 6 3 9 6 8 12 10 7 12 11 11 12 11 10 9 12 12 12 11 12 12 12 12 12
    12 11
""")
CHOSEN_OF = 12.0


def lapse4() -> Problem:
    """Logistic regression of which a small share of answers is guessed: an intercept, two slopes, a lapse rate."""

    def log_likelihood(theta: Array) -> Array:
        intercept, slope, distraction, lapse = columns(theta)
        logit = intercept + slope * SIGNAL + distraction * DISTRACTOR
        yes, no = ((1.0 - lapse) * special.expit(sign * logit) + 0.5 * lapse for sign in (1.0, -1.0))
        return _log_binomial(CHOSEN, CHOSEN_OF, yes, no)

    prior = Prior(
        {
            **{name: stats.norm(0.0, 50.0) for name in ("intercept", "slope", "distraction")},
            "lapse": stats.loguniform(1e-4, 0.5),
        }
    )
    return Problem(
        "lapse4", "logistic regression with lapses", prior, log_likelihood, Reference(-81.5148, log_evidence_sd=0.0010)
    )


# Nine levels in two conditions, 50 trials each; thresholds 1.2 and −1.6, widths 1.7 and 2.9, 4 % guesses, 3 % lapses.
LEVELS = np.tile(np.linspace(-8.0, 8.0, 9), 2)
SECOND = np.repeat([False, True], 9)
SEEN = numbers("3 2 0 3 11 38 46 47 49 3 5 12 22 39 35 49 49 49")
SEEN_OF = 50.0


def psychometric6() -> Problem:
    """Thresholds and widths of two conditions, which share a guess rate and a lapse rate."""

    def log_likelihood(theta: Array) -> Array:
        threshold1, threshold2, width1, width2, guess, lapse = columns(theta)
        z = (LEVELS - np.where(SECOND, threshold2, threshold1)) / np.where(SECOND, width2, width1)
        between = 1.0 - guess - lapse
        return _log_binomial(SEEN, SEEN_OF, guess + between * special.ndtr(z), lapse + between * special.ndtr(-z))

    threshold, width = stats.uniform(-100.0, 200.0), stats.loguniform(0.01, 1000.0)
    rare = stats.loguniform(1e-4, 0.5)
    prior = Prior(
        {
            **{"threshold1": threshold, "threshold2": threshold, "width1": width, "width2": width},
            **{"guess": rare, "lapse": rare},
        }
    )
    return Problem(
        "psychometric6",
        "two psychometric functions",
        prior,
        log_likelihood,
        Reference(-59.3621, log_evidence_sd=0.0011),
    )


def _log_binomial(successes: Array, trials: float, yes: Array, no: Array) -> Array:
    """Summed over the last axis; ``no`` is 1 − ``yes``, without its rounding."""
    failures = trials - successes
    ways = -np.log(trials + 1.0) - special.betaln(successes + 1.0, failures + 1.0)
    return np.sum(ways + successes * np.log(yes) + failures * np.log(no), axis=-1)


ALL = (lapse4, psychometric6)
