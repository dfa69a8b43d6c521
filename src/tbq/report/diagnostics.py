"""Is it trustworthy? Findings about a result, each with a threshold, a plain sentence and what to do about it.

No finding proves a result right: a mode that no run came near leaves no trace, and :func:`unseen` says how large it may
be. What these can do is to notice that a surrogate contradicts its runs, is unsure where the posterior is, or was
never shown a part of the prior. How often they do: docs/trust.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tbq.common.types import Array, BoolArray
from tbq.engine.records import Stop
from tbq.evidence import moments
from tbq.problem.evaluation import Status
from tbq.problem.failures import longest_streak, words
from tbq.result.result import Result

_MORE_RUNS = "Give more runs (max_evaluations)"
_RESUME = "Let it go on; a run with a journal is resumed by the same call."
_FAILED_RUNS = "Look at the messages of the failed runs; tbq check runs the model once and explains what it saw."
_PAUSED = (
    "Repair what is out of order (server, licence, disk, program, or the function itself) and make the same call, or "
    "`tbq resume`: points that were stopped are run again and do not count. Where it is theta that makes the model "
    "fail, raise outage_after."
)

_GRAVE = {"convergence", "evidence", "successful runs", "digits"}  # names without which the others hardly matter
_RELEVANT_DEPTH = 10.0  # nats below the best run within which a run says something about the posterior
_APART = 0.01  # nats between two floating-point numbers that blur an evidence
_FLOOR = 0.02  # nats added to the standard deviation of a prediction
_RULE_OF_THREE = 3.0
_LAST = 10  # runs
_OUTAGE = 5  # failures in a row that are alike
_FEWEST = 5  # runs or weights from which nothing can be said
_UNSURE = 0.5  # nats of standard deviation
_EDGE = 0.02  # fraction of the prior that counts as its edge
_OUTERMOST = 1e-6  # quantile
_PRIOR_POINTS = 2**12
_ALTERNATIVES = 8


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    value: float
    threshold: float
    ok: bool
    sentence: str  # what was seen
    advice: str  # what to do about it where it is not ok


def findings(result: Result) -> tuple[Finding, ...]:
    """All that can be said of a result. What it does not hold, or its surrogate does not offer, is left out."""
    if result.surrogate is None:
        advice = {Stop.UNFINISHED: _RESUME, Stop.PAUSED: _PAUSED}.get(result.stop, _FAILED_RUNS)
        return (Finding("successful runs", float(_count_ok(result)), 3.0, False, result.stop.value, advice),)
    return tuple(finding for check in _CHECKS for finding in check(result))


def verdict(found: Iterable[Finding]) -> str:
    """All findings in one sentence."""
    found = list(found)
    against = [f.name for f in found if not f.ok]
    if not against:
        return f"Nothing speaks against this result: all {len(found)} checks are passed."
    beginning = "Do not rely on this yet" if _GRAVE & set(against) else "Look twice"
    verb = "speaks" if len(against) == 1 else "speak"
    return f"{beginning}: {len(against)} of {len(found)} checks {verb} against it ({', '.join(against)})."


def unseen(result: Result) -> str:
    """What no finding can tell: how large a mode must be for the first runs, spread over the prior, to have met it.

    A mode that takes up the fraction p of the prior is missed by n draws of it with probability (1 − p)ⁿ: 5 % at 3/n.
    """
    n = sum(e.origin == "initial" and not e.status.is_failure for e in result.evaluations)
    if n <= _RULE_OF_THREE:
        return "No check can exclude modes that no run came near, and there were hardly any runs over the whole prior."
    size = _percent(_RULE_OF_THREE / n)
    return f"No check can exclude modes that no run came near, such as one that takes up less than {size} of the prior."


@dataclass(frozen=True)
class LeftOut:
    """Log-likelihoods of the successful runs and what all the others say of each."""

    found: Array  # (n,)
    expected: Array  # (n,)
    sd: Array  # (n,)

    @property
    def relevant(self) -> BoolArray:
        """Runs that were, or were expected to be, near enough to the best one to matter."""
        return np.maximum(self.found, self.expected) >= self.found.max() - _RELEVANT_DEPTH

    @property
    def scores(self) -> Array:
        """By how many standard deviations each run was off."""
        return (self.found - self.expected) / np.hypot(self.sd, _FLOOR)


def left_out(result: Result) -> LeftOut | None:
    """Each successful run against its prediction from all others; None where the surrogate does not offer it."""
    predict = getattr(result.surrogate, "left_out", None)
    runs = [e for e in result.evaluations if e.status is Status.OK]
    if predict is None or not runs:
        return None
    # The surrogate may know more: outputs of runs without a likelihood, and itself where runs failed.
    predicted = predict(result.prior.to_working(np.array([e.theta for e in runs])))
    if predicted is None:
        return None
    mean, variance = predicted
    return LeftOut(np.array([e.log_likelihood for e in runs]), mean, np.sqrt(variance))


# --- the run ------------------------------------------------------------------------------------------------


def convergence(result: Result) -> list[Finding]:
    """Did the run end because it knew enough?"""
    more = f"{_MORE_RUNS}; with warm_start=result none of these is made again."
    advice = {Stop.BUDGET: more, Stop.PAUSED: _PAUSED}.get(result.stop, _RESUME)
    return [_at_least("convergence", float(result.converged), 1.0, result.stop.value, advice)]


def evidence_error(result: Result) -> list[Finding]:
    """Is the evidence known well enough to compare models by it?"""
    sd = result.log_evidence_sd
    sentence = f"The log evidence is known to ±{sd:.2g}, the evidence within a factor of {np.exp(min(sd, 99.0)):.3g}."
    return [_at_most("evidence", sd, 0.3, sentence, f"{_MORE_RUNS}, or a smaller tolerance.")]


def failures(result: Result) -> list[Finding]:
    """May failed runs hide a part of the posterior?"""
    if not any(e.status.is_failure for e in result.evaluations):
        return []
    fraction = -float(np.expm1(-result.errors.failures))
    sentence = f"{_percent(fraction)} of the posterior lies next to runs that failed."
    return [_at_most("failed runs", fraction, 0.05, sentence, _why_they_fail(result))]


def _why_they_fail(result: Result) -> str:
    """An outage, which passes and can be made good, or theta: failures in a row that say the same may be the former."""
    must = "where they must fail, say so with a constraint of the prior, or return −inf there."
    alike = longest_streak(result.evaluations)
    if len(alike) < _OUTAGE:
        return f"Find out why; {must}"
    return (
        f"{words(alike)} If that was an outage, retry_failed=True, or `tbq resume --retry-failed`, forgets them and "
        f"runs these points again; {must}"
    )


def same_number(result: Result) -> list[Finding]:
    """Did any two runs differ? Said only where none did."""
    runs = [e for e in result.evaluations if e.status is Status.OK]
    seen = [np.array([e.log_likelihood]) if e.outputs is None else e.outputs for e in runs]
    if len(runs) < _FEWEST or len({numbers.tobytes() for numbers in seen}) > 1:
        return []
    what = "numbers" if seen[0].size != 1 else f"number, {seen[0][0]:.6g}"
    advice = "Does the simulator read theta? If it does, these data say nothing about these parameters."
    return [_at_least("constant", 0.0, 1.0, f"Every run returned the same {what}.", advice)]


def lost_digits(result: Result) -> list[Finding]:
    """Is the log-likelihood so large that floating-point numbers have no digits left for what matters?"""
    best = max((e.log_likelihood for e in result.evaluations if e.status is Status.OK), default=0.0)
    apart = float(np.spacing(abs(best)))
    if apart <= _APART:
        return []
    sentence = f"The best log-likelihood is {best:.3g}, where floats lie {apart:.2g} apart: its digits are lost."
    advice = "Leave out a constant of the log-likelihood where its terms are added up; log_evidence is less by as much."
    return [_at_most("digits", apart, _APART, sentence, advice)]


# --- the surrogate ------------------------------------------------------------------------------------------


def leave_one_out(result: Result) -> list[Finding]:
    """Are runs that matter where all the other runs say?"""
    runs = left_out(result)
    if runs is None or runs.relevant.sum() < _FEWEST:
        return []
    rms = _rms(runs.scores[runs.relevant])
    sentence = (
        f"Left out one at a time, the {runs.relevant.sum()} runs that matter lie {rms:.1f} standard deviations "
        "from what the others say of them."
    )
    advice = f"{_MORE_RUNS}; if it stays, the log-likelihood is noisy, has jumps or is rougher than the kernel."
    return [_at_most("leave-one-out", rms, 2.0, sentence, advice)]


def objections(result: Result) -> list[Finding]:
    """Did the engine itself find something against its surrogate?"""
    advice = f"{_MORE_RUNS}, or learn the log-likelihood itself (surrogate='log_likelihood') and compare."
    return [_at_most("surrogate", 1.0, 0.0, note, advice) for note in result.notes]


def predictions(result: Result) -> list[Finding]:
    """Were the last runs what they were expected to be before they were made?"""
    last = np.sqrt(result.squared_z[-_LAST:])
    if len(last) < _FEWEST:
        return []
    rms = _rms(last)
    sentence = f"The last {len(last)} runs that matter came {rms:.1f} standard deviations from their predictions."
    return [
        _at_most("predictions", rms, 3.0, sentence, f"{_MORE_RUNS}: the surrogate is still learning something new.")
    ]


def unsure_mass(result: Result) -> list[Finding]:
    """How much of the posterior lies where the surrogate does not know the likelihood?"""
    surrogate = result.surrogate
    assert surrogate is not None
    spread = surrogate.log_ratio_diagonal(surrogate.at(result.prior.to_working(result.samples)), 1.0)
    fraction = float(np.mean(spread > _UNSURE**2))
    sentence = f"In {_percent(fraction)} of the posterior the log-likelihood is known to no better than ±{_UNSURE:g}."
    return [_at_most("unsure mass", fraction, 0.4, sentence, f"{_MORE_RUNS}; if that does not help, reduce its noise.")]


def other_surrogates(result: Result) -> list[Finding]:
    """Would a surrogate with other hyperparameters, as plausible, put the posterior elsewhere?"""
    surrogate, draws = result.surrogate, result.samples
    assert surrogate is not None
    z = result.prior.to_working(draws)
    here = surrogate.log_mean(surrogate.at(z), 1.0)
    mean, sd = moments.mean_and_sd(draws)
    shifts = []
    for other in surrogate.alternatives(_ALTERNATIVES, np.random.default_rng(0)):
        _, weights = moments.normalise(other.log_mean(other.at(z), 1.0) - here)
        shifts.append(np.max(np.abs(weights @ draws - mean) / sd))
    if not shifts:
        return []
    largest = float(np.max(shifts))
    sentence = f"Surrogates with other hyperparameters move the posterior means by up to {largest:.2g} of their sd."
    return [
        _at_most("other surrogates", largest, 0.5, sentence, f"{_MORE_RUNS}: too few to tell the surrogates apart.")
    ]


# --- sampling -----------------------------------------------------------------------------------------------


def quadrature(result: Result) -> list[Finding]:
    """Do enough points carry the evidence?"""
    if len(result.weights) < _FEWEST:
        return []
    size, k = moments.effective_sample_size(result.weights), tail_index(result.weights)
    advice = "Use a larger population; if it stays, the posterior has a part that no population has reached."
    return [
        _at_least("quadrature", size, 400.0, f"The evidence rests on {size:.0f} effective points.", advice),
        _at_most(
            "quadrature's tail",
            k,
            0.7,
            f"The tail of their weights, which should be light, has index k = {k:.2f}.",
            advice,
        ),
    ]


def stages(result: Result) -> list[Finding]:
    """Did every stage's population move, stay diverse and lead to the next?"""
    advice = "Use a larger population or chain_length; a smaller temper_cov makes gentler stages."

    def worst(name: str, values: list[float], threshold: float, words: Callable[[float], str]) -> Finding:
        i = int(np.argmin(values))
        return _at_least(name, values[i], threshold, f"In stage {i + 1}, the worst, {words(values[i])}.", advice)

    of = result.stages
    return [
        worst("weights", [s.effective_sample_size for s in of], 100.0, lambda v: f"{v:.0f} effective points led on"),
        worst("acceptance", [s.acceptance for s in of], 0.1, lambda v: f"{_percent(v)} of the moves were accepted"),
        worst("diversity", [s.unique for s in of], 0.8, lambda v: f"{_percent(v)} of the points moved"),
    ]


def tail_index(weights: Array) -> float:
    """k̂ of a generalised Pareto distribution fitted to the largest weights (Zhang and Stephens 2009, as in PSIS).

    Below 0.5 their variance is finite; above 0.7 the sum they make is not to be believed. Equal weights have no tail.
    """
    ordered = np.sort(weights)
    n = int(min(0.2 * len(ordered), 3.0 * np.sqrt(len(ordered))))
    tail = ordered[-n:] - ordered[-n - 1] if n else ordered
    tail = tail[tail > 1e-12 * ordered[-1]]
    if len(tail) < _FEWEST:
        return 0.0
    m = 30 + int(np.sqrt(len(tail)))
    quarter = tail[int(len(tail) / 4 + 0.5) - 1]
    b = 1.0 / tail[-1] + (1.0 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3.0 * quarter)
    b[b == 0.0] = 1e-9 / tail[-1]  # an exponential tail, where the ratio of b and k has only a limit
    k = np.mean(np.log1p(-b[:, None] * tail), axis=1)
    _, fraction = moments.normalise(len(tail) * (np.log(-b / k) - k - 1.0))
    estimate = float(np.mean(np.log1p(-(fraction @ b) * tail)))
    return (len(tail) * estimate + 5.0) / (len(tail) + 10.0)  # ten observations' worth of prior at one half


# --- the prior ----------------------------------------------------------------------------------------------


def bounds(result: Result) -> list[Finding]:
    """Does the posterior lean against an end of the prior? Ends where the prior itself fades out do not count."""
    fractions = []
    for name, draws in zip(result.prior.names, result.samples.T, strict=True):
        marginal = result.prior.marginals[name]
        centre = marginal.pdf(marginal.median())
        for side, end, beyond in (("lower", 0.0, marginal.cdf), ("upper", 1.0, marginal.sf)):
            density = marginal.pdf(marginal.ppf(abs(end - _OUTERMOST)))
            if density > _EDGE * centre:
                fractions.append((float(np.mean(beyond(draws) < _EDGE)), side, name))
    if not fractions:
        return []
    fraction, side, name = max(fractions)
    sentence = f"At most {_percent(fraction)} of the posterior lies at an end of the prior, the {side} one of {name}."
    advice = f"Widen the prior of {name} if values beyond are possible; otherwise doubt the model or the data."
    return [_at_most("prior's ends", fraction, 0.2, sentence, advice)]


def coverage(result: Result) -> list[Finding]:
    """Is there a part of the prior where nobody looked? A surrogate may be sure of what it has never seen."""
    runs = np.array([e.theta for e in result.evaluations if not e.status.is_failure])
    draws = np.sort(result.prior.sample(_PRIOR_POINTS, 0, "sobol"), axis=0)
    gaps = []
    for name, values, ordered in zip(result.prior.names, runs.T, draws.T, strict=True):
        levels = np.searchsorted(ordered, np.sort(values)) / len(ordered)
        gaps.append((float(np.max(np.diff(levels, prepend=0.0, append=1.0))), name))
    gap, name = max(gaps)
    sentence = f"No parameter has more than {_percent(gap)} of its prior in one piece without any run; {name} has that."
    advice = f"Begin with more runs over the whole prior (n_initial), or narrow the prior of {name}."
    return [_at_most("coverage", gap, 0.25, sentence, advice)]


_CHECKS: tuple[Callable[[Result], list[Finding]], ...] = (
    convergence,
    evidence_error,
    objections,
    leave_one_out,
    predictions,
    unsure_mass,
    other_surrogates,
    quadrature,
    stages,
    bounds,
    coverage,
    failures,
    same_number,
    lost_digits,
)


def _count_ok(result: Result) -> int:
    return sum(e.status is Status.OK for e in result.evaluations)


def _at_most(name: str, value: float, threshold: float, sentence: str, advice: str) -> Finding:
    return Finding(name, value, threshold, bool(value <= threshold), sentence, advice)


def _at_least(name: str, value: float, threshold: float, sentence: str, advice: str) -> Finding:
    return Finding(name, value, threshold, bool(value >= threshold), sentence, advice)


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(x**2)))


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"
