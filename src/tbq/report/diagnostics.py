"""Is it trustworthy? Findings about a result, each with a threshold, a plain sentence and what to do about it.

No finding proves a result right: a mode that no run came near leaves no trace, and :func:`unseen` says how large it may
be. What these can do is to notice that a surrogate contradicts its runs, is unsure where the posterior is, or was
never shown a part of the prior. How often they do: docs/trust.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from tbq.engine.records import Stop
from tbq.evidence import moments
from tbq.problem.evaluation import Status
from tbq.problem.failures import longest_streak, words
from tbq.report.finding import Finding, at_least, at_most, percent, root_mean_square
from tbq.report.left_out import left_out
from tbq.result.result import Result

_MORE_RUNS = "Give more runs (`tbq resume DIR --max-evaluations N`, or the same call with a larger max_evaluations)"
_STRICTER = "Go on with a smaller tolerance (`tbq resume DIR --tolerance T`, or the same call with it)"
_ON = "Let it go on (wait where it still runs; else `tbq resume DIR`, or the same call with the same journal)"
_FAILED_RUNS = "Look at the messages of the failed runs; `tbq check` makes a few runs and explains what it saw."
_PAUSED = (
    "Repair what is out of order (server, licence, disk, program, or the function itself) and make the same call, or "
    "`tbq resume`: points that were stopped are run again and do not count. Where it is theta that makes the model "
    "fail, raise outage_after."
)

_GRAVE = {"convergence", "evidence", "successful runs", "digits"}  # names without which the others hardly matter
_COMPARABLE = 0.3  # error of the log evidence up to which models can be compared by it
_APART = 0.01  # nats between two floating-point numbers that blur an evidence
_RULE_OF_THREE = 3.0
_LAST = 10  # runs
_OUTAGE = 5  # failures in a row that are alike
_FEWEST = 5  # runs or weights from which nothing can be said
_NOISIEST = 2.2  # nats: two, and what a learned level errs by
_UNSURE = 0.5  # nats of standard deviation
_TAIL = 0.005  # of a noise parameter's prior, beyond which the middle of its posterior is a contradiction
_EDGE = 0.02  # fraction of the prior that counts as its edge
_OUTERMOST = 1e-6  # quantile
_PRIOR_POINTS = 2**12
_ALTERNATIVES = 8


def findings(result: Result) -> tuple[Finding, ...]:
    """All that can be said of a result. What it does not hold, or its surrogate does not offer, is left out."""
    if result.surrogate is None:
        advice = {Stop.UNFINISHED: f"{_ON}.", Stop.PAUSED: _PAUSED}.get(result.stop, _FAILED_RUNS)
        back = (
            f"{_count_ok(result)} of {result.n_evaluations} runs succeeded"
            if result.n_evaluations
            else "no run is back"
        )
        sentence = f"Nothing was learned: {back}. {result.stop.value}"
        return (Finding("successful runs", float(_count_ok(result)), 3.0, False, sentence, advice),)
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
    size = percent(_RULE_OF_THREE / n)
    return f"No check can exclude modes that no run came near, such as one that takes up less than {size} of the prior."


# --- the run ------------------------------------------------------------------------------------------------


def convergence(result: Result) -> list[Finding]:
    """Did the run end because it knew enough?"""
    more = f"{_MORE_RUNS}; no finished run is made again."
    advice = {Stop.BUDGET: more, Stop.PAUSED: _PAUSED}.get(result.stop, f"{_ON}.")
    good, bad = f"The run converged. {result.stop.value}", f"The run did not converge. {result.stop.value}"
    return [at_least("convergence", float(result.converged), 1.0, good, bad, advice)]


def evidence_error(result: Result) -> list[Finding]:
    """Is the evidence known well enough to compare models by it?"""
    sd = result.log_evidence_sd
    known = f"The log evidence is known to ±{sd:.2g}"
    good = f"{known}, well enough to compare models by it (±{_COMPARABLE:g})."
    factor = f"a factor of {np.exp(min(sd, 99.0)):.3g}"
    bad = f"{known}, the evidence within {factor}: too little to compare models by it (±{_COMPARABLE:g})."
    return [at_most("evidence", sd, _COMPARABLE, good, bad, _cure_of_error(result))]


def _cure_of_error(result: Result) -> str:
    """What makes the error of the evidence smaller, by its largest part."""
    e = result.errors
    parts = {"failures": e.failures, "monte_carlo": e.monte_carlo, "surrogate": max(e.surrogate, e.check)}
    largest = max({**parts, "hyperparameters": e.hyperparameters}.items(), key=lambda part: part[1])[0]
    if largest == "failures":
        return f"Most of the error comes from runs that failed, which more runs do not cure. {_why_they_fail(result)}"
    if largest == "monte_carlo":
        return "Most of the error comes from sampling the surrogate: use a larger population, not more runs."
    return f"{_more_runs(result)}."


def _more_runs(result: Result) -> str:
    """What makes further runs: a run that converged needs another tolerance, a larger budget alone does nothing."""
    going_on = {Stop.CONVERGED: _STRICTER, Stop.BUDGET: _MORE_RUNS}
    repaired = "Repair what is out of order, and let it go on (`tbq resume DIR`, or the same call)"
    return (going_on | {Stop.PAUSED: repaired}).get(result.stop, _ON)


def failures(result: Result) -> list[Finding]:
    """May failed runs hide a part of the posterior?"""
    if not any(e.status.is_failure for e in result.evaluations):
        return []
    fraction = -float(np.expm1(-result.errors.failures))
    count = sum(e.status.is_failure for e in result.evaluations)
    failed = f"{count} of {result.n_evaluations} runs failed"
    good = f"{failed}, away from the posterior: {percent(fraction)} of it lies next to them."
    bad = f"{failed}, and {percent(fraction)} of the posterior lies next to them, where nothing is known."
    return [at_most("failed runs", fraction, 0.05, good, bad, _why_they_fail(result))]


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
    return [at_least("constant", 0.0, 1.0, "", f"Every run returned the same {what}, whatever theta was.", advice)]


def lost_digits(result: Result) -> list[Finding]:
    """Is the log-likelihood so large that floating-point numbers have no digits left for what matters?"""
    best = max((e.log_likelihood for e in result.evaluations if e.status is Status.OK), default=0.0)
    apart = float(np.spacing(abs(best)))
    if apart <= _APART:
        return []
    sentence = f"The best log-likelihood is {best:.3g}, where floats lie {apart:.2g} apart: its digits are lost."
    advice = "Leave out a constant of the log-likelihood where its terms are added up; log_evidence is less by as much."
    return [at_most("digits", apart, _APART, "", sentence, advice)]


# --- the surrogate ------------------------------------------------------------------------------------------


def leave_one_out(result: Result) -> list[Finding]:
    """Are runs that matter where all the other runs say?"""
    runs = left_out(result)
    if runs is None or runs.relevant.sum() < _FEWEST:
        return []
    rms = root_mean_square(runs.scores[runs.relevant])
    what = f"Left out one at a time, the {runs.relevant.sum()} runs that matter lie {rms:.1f} standard deviations"
    good = f"{what} from what the others predict, as they should (up to 2)."
    bad = f"{what} from what the others predict, more than the 2 of a surrogate that can be believed."
    advice = f"{_more_runs(result)}; if it stays, the log-likelihood has jumps or is rougher than the kernel."
    return [at_most("leave-one-out", rms, 2.0, good, bad, advice)]


def objections(result: Result) -> list[Finding]:
    """Did the engine itself find something against its surrogate?"""
    advice = f"{_more_runs(result)}, or learn the log-likelihood itself (surrogate='log_likelihood') and compare."
    return [at_most("surrogate", 1.0, 0.0, "", note, advice) for note in result.notes]


def predictions(result: Result) -> list[Finding]:
    """Were the last runs what they were expected to be before they were made?"""
    last = np.sqrt(result.squared_z[-_LAST:])
    if len(last) < _FEWEST:
        return []
    rms = root_mean_square(last)
    what = f"The last {len(last)} runs that matter came {rms:.1f} standard deviations from their predictions"
    good, bad = f"{what}, as they should (up to 3).", f"{what}, more than 3: the surrogate still learns something new."
    return [at_most("predictions", rms, 3.0, good, bad, f"{_more_runs(result)}, until new runs no longer surprise it.")]


def noisy_runs(result: Result) -> list[Finding]:
    """Are log-likelihoods noisy? Said only where they are."""
    sd, told = result.log_likelihood_noise, any(e.log_likelihood_sd is not None for e in result.evaluations)
    if not sd:
        return []
    given = "as was given" if "log_likelihood_noise" in result.options else "as was learned from the runs"
    what = f"Log-likelihoods are noisy: runs at the same theta differ by ±{sd:.2g} nats, "
    what += "as the runs told" if told else given
    good = f"{what}; the evidence is of the log-likelihood without noise, and its error allows for it."
    bad = f"{what}, more than the {_NOISIEST:g} up to which stated errors have been tested."
    advice = "Average several runs of each theta, or let the solver iterate longer."
    return [at_most("noisy runs", sd, _NOISIEST, good, bad, advice)]


def unsure_mass(result: Result) -> list[Finding]:
    """How much of the posterior lies where the surrogate does not know the likelihood?"""
    surrogate = result.surrogate
    assert surrogate is not None
    spread = surrogate.log_ratio_diagonal(surrogate.at(result.prior.to_working(result.samples)), 1.0)
    fraction = float(np.mean(spread > _UNSURE**2))
    where = f"in {percent(1.0 - fraction)} of the posterior"
    good = f"The log-likelihood is known to ±{_UNSURE:g} or better {where} (at least 60 %)."
    bad = f"The log-likelihood is known to ±{_UNSURE:g} or better only {where}; it should be 60 %."
    advice = f"{_more_runs(result)}; if that does not help and runs are noisy, reduce their noise."
    return [at_most("unsure mass", fraction, 0.4, good, bad, advice)]


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
    what = f"Surrogates as plausible as this one move a posterior mean by {largest:.2g} of its sd"
    good, bad = f"{what} at most, which is little (0.5).", f"{what}, more than 0.5: which one is right is not known."
    return [
        at_most("other surrogates", largest, 0.5, good, bad, f"{_more_runs(result)}, which tell the surrogates apart.")
    ]


# --- sampling -----------------------------------------------------------------------------------------------


def quadrature(result: Result) -> list[Finding]:
    """Do enough points carry the evidence?"""
    if len(result.weights) < _FEWEST:
        return []
    size, k = moments.effective_sample_size(result.weights), moments.tail_index(result.weights)
    advice = "Use a larger population; if it stays, the posterior has a part that no population has reached."
    rests = f"The evidence is summed over {size:.0f} effective points"
    weights = f"The weights of the points that carry the evidence have a tail index of {k:.2f}"
    return [
        at_least("quadrature", size, 400.0, f"{rests}, enough (400).", f"{rests}, too few (400).", advice),
        at_most(
            "quadrature's tail",
            k,
            0.7,
            f"{weights}: no few of them rule (up to 0.7).",
            f"{weights}, above 0.7: a few of them rule, and the sum is not to be believed.",
            advice,
        ),
    ]


def stages(result: Result) -> list[Finding]:
    """Did every stage's population move, stay diverse and lead to the next?"""
    advice = "Use a larger population or chain_length; a smaller temper_cov makes gentler stages."

    def worst(name: str, values: list[float], least: float, verb: str, of_what: str) -> Finding:
        amount = percent if least < 1.0 else "{:.0f}".format
        i = int(np.argmin(values))
        needed = f"({amount(least)} are needed)"
        good = f"Every stage {verb} at least {amount(values[i])} {of_what} {needed}."
        bad = f"Stage {i + 1} {verb} only {amount(values[i])} {of_what} {needed}."
        return at_least(name, values[i], least, good, bad, advice)

    of = result.stages
    return [
        worst("weights", [s.effective_sample_size for s in of], 100.0, "kept", "effective points"),
        worst("acceptance", [s.acceptance for s in of], 0.1, "accepted", "of its moves"),
        worst("diversity", [s.unique for s in of], 0.8, "moved", "of its points"),
    ]


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
    good = f"The posterior does not lean against an end of the prior: at most {percent(fraction)} of it lies at one."
    bad = f"{percent(fraction)} of the posterior lies at the {side} end of the prior of {name}, against which it leans."
    advice = f"Widen the prior of {name} if values beyond are possible; otherwise doubt the model or the data."
    return [at_most("prior's ends", fraction, 0.2, good, bad, advice)]


def noise(result: Result) -> list[Finding]:
    """Has a noise parameter collapsed to nothing, or escaped: out into a tail of its prior, where that is not bounded?

    How far out the middle of its posterior lies is measured by the prior's probability of what lies beyond.
    """
    first = result.prior.simulated.dim
    found = []
    for name, draws in zip(result.prior.names[first:], result.samples.T[first:], strict=True):
        marginal, middle = result.prior.marginals[name], float(np.median(draws))
        found += [(float(marginal.cdf(middle)), "small", name), (float(marginal.sf(middle)), "large", name)]
    if not found:
        return []
    beyond, side, name = min(found)
    good = f"The noise parameters lie where their priors expect them: {name} is the farthest out, {percent(beyond)} in."
    bad = f"{name} is so {side} that its prior has only {100 * beyond:.2g} % beyond: the data contradict it."
    advice = {
        "small": f"Noise that vanishes has been explained away: has {name} data of its own? Raise its least value.",
        "large": f"A large {name} stands for what the model lacks: doubt the model, or allow for a discrepancy.",
    }[side]
    return [at_least("noise", beyond, _TAIL, good, bad, advice)]


def coverage(result: Result) -> list[Finding]:
    """Is there a part of the prior where nothing was seen? A surrogate may be sure of what it has never seen."""
    runs = np.array([e.theta for e in result.evaluations if not e.status.is_failure])
    failed = np.array([e.theta for e in result.evaluations if e.status.is_failure]).reshape(-1, runs.shape[1])
    prior = result.prior.simulated
    draws = np.sort(prior.sample(_PRIOR_POINTS, 0, "sobol"), axis=0)
    gaps = []
    for name, values, lost, ordered in zip(prior.names, runs.T, failed.T, draws.T, strict=True):
        levels = np.searchsorted(ordered, np.sort(values)) / len(ordered)
        pieces = np.diff(levels, prepend=0.0, append=1.0)
        low, high = np.array([-np.inf, *np.sort(values), np.inf])[(i := int(np.argmax(pieces))) : i + 2]
        gaps.append((float(pieces[i]), name, _between(low, high), int(np.sum((low < lost) & (lost < high)))))
    gap, name, where, tried = max(gaps)
    good = f"Runs cover the prior: the largest piece without any is {percent(gap)} of that of {name} (up to 25 %)."
    bad = f"In one piece, {percent(gap)} of the prior of {name} has no run {{}} ({where}), more than 25 %: {{}}"
    if tried:
        runs_failed = f"{tried} runs failed there" if tried > 1 else "one run failed there"
        bad = bad.format("that succeeded", f"{runs_failed}, and nothing is known of it.")
        advice = _why_they_fail(result)
    else:
        bad = bad.format("at all", "nobody looked there.")
        advice = f"Begin anew with more runs over the whole prior (n_initial), or narrow the prior of {name}."
    return [at_most("coverage", gap, 0.25, good, bad, advice)]


def _between(low: float, high: float) -> str:
    if np.isinf(low):
        return f"below {high:.3g}"
    return f"above {low:.3g}" if np.isinf(high) else f"from {low:.3g} to {high:.3g}"


_CHECKS: tuple[Callable[[Result], list[Finding]], ...] = (
    convergence,
    evidence_error,
    objections,
    leave_one_out,
    predictions,
    noisy_runs,
    unsure_mass,
    other_surrogates,
    quadrature,
    stages,
    bounds,
    noise,
    coverage,
    failures,
    same_number,
    lost_digits,
)


def _count_ok(result: Result) -> int:
    return sum(e.status is Status.OK for e in result.evaluations)
