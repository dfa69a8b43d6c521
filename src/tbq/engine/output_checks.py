"""Checks of a surrogate of outputs: three questions that cost no run.

Does each run come out as predicted from all others (a jump does not)? Does the log-likelihood surrogate, trained on the
same runs, know the evidence better? Does it give another one?
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tbq.common.types import Array, BoolArray
from tbq.evidence import importance, moments
from tbq.evidence.population import Population
from tbq.problem.prior import Prior
from tbq.problem.settings import Settings
from tbq.problem.tuning import Tuning
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.outputs import misfits
from tbq.surrogate.protocol import SPREAD_CLIP, Surrogate


def rough(surrogate: Any, tuning: Tuning) -> str:
    """A sentence on the output that is predicted worst from the other runs, where that is beyond chance; else ''.

    Runs far from the data, in some corner of the prior, do not count; nor does what a likelihood would hardly notice,
    by the noise that is known or, where it is not, by the smallest that the best runs support.
    """
    batch = surrogate.batch
    log_likelihood, _ = surrogate.log_likelihood(surrogate.at_runs())
    near = log_likelihood > np.max(log_likelihood) - tuning.rough_depth
    mean, variance = batch.leave_one_out()
    slope = misfits(surrogate.components, batch.values.y)[1]  # of a misfit, in units of the noise
    scaled = surrogate.likelihood.scaled
    floor = 0.0 if scaled else tuning.inflation_floor / slope  # at a misfit of one, what changes log L by as many nats
    off = np.abs(batch.values.y - mean) / np.sqrt(variance + floor**2)  # nan where missing
    worst, count = np.max(np.nan_to_num(off[:, near]), axis=1), int(batch.values.seen[:, near].sum())
    if max(worst) > np.sqrt(2.0 * np.log(2.0 * count)):  # the largest of so many normal values hardly exceeds this
        name = "Output" if len(worst) == len(surrogate.likelihood.observed) else "Principal component"
        return (
            f"{name} {int(np.argmax(worst)) + 1} of a run is {max(worst):.1f} standard deviations from what the other "
            "runs predict: it may jump or fold."
        )
    if surrogate.inflation > tuning.rough_inflation:
        return f"New runs were off by {surrogate.inflation:.1f} times what was expected."
    return ""


def knows_better(
    values: LogNormal,
    outputs: Surrogate[Any],
    log_likelihood: Array,
    population: Population,
    prior: Prior,
    settings: Settings,
    rng: np.random.Generator,
) -> bool:
    """Whether the evidence is known twice as well without the outputs, by what each surrogate says of its error.

    Each is taken at its word times how far off its leave-one-out predictions were, in the runs that matter; an evidence
    that rests on a few of the points that carry the other is none, however sure its surrogate is of those. ``prior``
    is of the simulator's parameters.
    """
    tuning = settings.tuning
    matters = _matters(log_likelihood, tuning)
    if np.sum(matters) < tuning.output_least_near:
        return False
    covs, carriers = [], []
    for surrogate, log_terms, points in reversed(_both(outputs, values, population, prior, rng)):
        left_out = surrogate.left_out(values.gp.x)
        if left_out is None:
            return False
        mean, variance = left_out
        z = ((log_likelihood - mean) / np.sqrt(variance + tuning.inflation_floor**2))[matters]
        _, weights = moments.normalise(log_terms)
        index, node_weights, own = moments.place_nodes(surrogate, points, weights, 1.0, tuning.output_nodes, rng)
        nodes = points.take(index)
        if settings.thinned:
            cov = moments.evidence_cov(surrogate, nodes, node_weights, 1.0, SPREAD_CLIP, own)
        else:
            cov = moments.evidence_cov(surrogate, nodes, node_weights)
        carriers.append(moments.effective_sample_size(weights))
        covs.append(cov * max(1.0, float(np.sqrt(np.mean(np.minimum(z**2, 100.0))))))
    enough = carriers[0] >= max(tuning.output_least_near, tuning.output_overlap * carriers[1])
    return enough and covs[0] < 0.5 * covs[1]


def _matters(log_likelihood: Array, tuning: Tuning) -> BoolArray:
    """Which runs are near the best."""
    return np.asarray(log_likelihood > np.max(log_likelihood) - tuning.output_depth)


def _both(
    outputs: Surrogate[Any], values: Surrogate[Any], population: Population, prior: Prior, rng: np.random.Generator
) -> list[tuple[Surrogate[Any], Array, Any]]:
    """Each surrogate, the logarithms of its terms of the evidence, and its points."""
    points = outputs.at(population.z)
    terms = outputs.log_mean(points, 1.0) + population.log_weights
    alone = _without_noise(population, terms, prior, rng)
    plain = values.at(alone.z)
    return [(outputs, terms, points), (values, values.log_mean(plain, 1.0) + alone.log_weights, plain)]


def _without_noise(
    population: Population, log_terms: Array, prior: Prior, rng: np.random.Generator
) -> Population | importance.Draws:
    """Points of the simulator's parameters alone, as those of the population: log-likelihoods have no other.

    The population's own would need the density of its noise given the others, which the outputs do not know where
    they are uncertain: a few points of the prior would weigh e⁴⁰ times too much.
    """
    if population.z.shape[1] == prior.dim:
        return population
    _, weights = moments.normalise(log_terms)
    n = len(population.z)
    posterior = population.z[moments.systematic_resample(weights, n, rng), : prior.dim]
    mixture = importance.fit_mixture(posterior, *prior.working_bounds, rng)
    of_prior = prior.to_working(prior.sample(round(importance.PRIOR_FRACTION * n), rng, "sobol"))
    return importance.sample(mixture, of_prior, prior.log_density_working, n, rng)


def contradicted(
    outputs: Surrogate[Any],
    values: Surrogate[Any],
    log_likelihood: Array,
    population: Population,
    prior: Prior,
    tuning: Tuning,
    rng: np.random.Generator,
) -> str:
    """A sentence where both surrogates are sure of the evidence and do not agree on it; else ''.

    Log-likelihoods of which few are near the best do not know it, whatever they say.
    """
    if np.sum(_matters(log_likelihood, tuning)) < tuning.output_least_near:
        return ""
    logs: list[float] = []
    covs: list[float] = []
    for surrogate, log_terms, points in _both(outputs, values, population, prior, rng):
        log_evidence, weights = moments.normalise(log_terms)
        logs.append(log_evidence)
        covs.append(moments.evidence_cov_bound(surrogate, points, weights, 1.0, SPREAD_CLIP))
    gap = abs(logs[0] - logs[1])
    if covs[1] > tuning.vague or gap < tuning.disagreement * float(np.linalg.norm(covs)):
        return ""
    return f"The log-likelihoods alone give an evidence that differs by {gap:.2f} in its logarithm."
