"""How well the evidence is known at the end: by fresh quadrature, over plausible surrogates, with all of its errors.

The ratios of the stages were taken with the surrogates of their time. Here everything is taken once more with the
last surrogate, at no extra run, by importance sampling from mixtures fitted to the posterior draws. Where its
effective sample size is poor, MBAR over the populations of all stages is asked too, and the better one counts. What
this finds that the stages did not see, such as a corner of the prior where a surrogate invents a peak, becomes the
next run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tbq.common.randomness import stream
from tbq.common.types import Array
from tbq.evidence import importance, moments
from tbq.evidence.mbar import mbar
from tbq.evidence.moves import Moved
from tbq.evidence.population import Population, follow
from tbq.evidence.target import Target
from tbq.problem.prior import Prior
from tbq.problem.settings import Settings
from tbq.problem.tuning import Tuning
from tbq.surrogate.protocol import SPREAD_CLIP, Surrogate


@dataclass(frozen=True)
class Quadrature:
    """Points and log-weights with Z = Σ e^{ω_k} E[L(z_k)], and the relative Monte-Carlo error of that."""

    z: Array  # (n, d)
    log_weights: Array  # (n,)
    sd: float


@dataclass(frozen=True)
class Assessment:
    """The evidence under one surrogate, its errors as standard deviations of log Z, and what to do about them."""

    surrogate: Surrogate[Any]
    posterior: Population
    moved: Moved
    draws: Array  # (m, d) of the posterior
    rule: Quadrature
    weights: Array  # (n,) of the rule's points: the posterior
    log_evidence: float
    of_surrogate: float
    of_hyperparameters: float
    of_quadrature: float
    target: Target  # what a further run should improve
    suspect: Array  # (d,): the heaviest point of the surrogate whose evidence differs most

    @property
    def z(self) -> Array:
        return self.rule.z


def assess(
    populations: tuple[Population, ...],
    surrogate: Surrogate[Any],
    rivals: Sequence[tuple[Surrogate[Any], float]],
    prior: Prior,
    settings: Settings,
    seed: int,
    *,
    coarse: bool = False,
) -> Assessment:
    """Take the evidence anew. The last population is the one in use, those before it are of earlier stages.

    ``rivals`` are other plausible surrogates, with the nats that they are behind. A ``coarse`` assessment, with fewer
    points of the quadrature where they do for it, is for deciding what to run next.
    """
    posterior, moved = draw_posterior(populations[-1], surrogate, prior, settings, stream(seed, "posterior"))
    tuning, enough = settings.tuning, settings.tolerance[1] if coarse else 0.0
    rule, points = _importance_rule(posterior.z, surrogate, prior, settings, enough, stream(seed, "importance"))
    log_evidence, weights = moments.normalise(surrogate.log_mean(points, 1.0) + rule.log_weights)
    quadrature_error = rule.sd
    # populations climbed at once descend from each other, which MBAR cannot know
    if rule.sd > max(tuning.good_quadrature, enough) and settings.surrogate == "log_likelihood":
        other = _mbar_rule((*populations, posterior), surrogate, tuning.mbar_points, stream(seed, "mbar"))
        other_points = surrogate.at(other.z)
        other_evidence, other_weights = moments.normalise(surrogate.log_mean(other_points, 1.0) + other.log_weights)
        unexplained = abs(log_evidence - other_evidence) - 2.0 * float(np.hypot(rule.sd, other.sd))
        quadrature_error = float(np.hypot(min(rule.sd, other.sd), max(unexplained, 0.0)))
        if other.sd < rule.sd:
            rule, points, log_evidence, weights = other, other_points, other_evidence, other_weights
    target, of_surrogate = _aim(surrogate, rule, points, weights, log_evidence, prior, settings, seed)
    spread, suspect = _over_surrogates(surrogate, rivals, rule, tuning, coarse, stream(seed, "hyperparameters"))
    return Assessment(
        surrogate=surrogate,
        posterior=posterior,
        moved=moved,
        draws=_draws(rule.z, weights, posterior.z, tuning.plenty, stream(seed, "draws")),
        rule=rule,
        weights=weights,
        log_evidence=log_evidence,
        of_surrogate=of_surrogate,
        of_hyperparameters=spread,
        of_quadrature=quadrature_error,
        target=target,
        suspect=suspect,
    )


def _aim(
    surrogate: Surrogate[Any],
    rule: Quadrature,
    points: Any,
    weights: Array,
    log_evidence: float,
    prior: Prior,
    settings: Settings,
    seed: int,
) -> tuple[Target, float]:
    """What a further run should improve, and the surrogate's part of the error of log Z."""
    rng = stream(seed, "final nodes")
    placed = moments.place_nodes(surrogate, points, weights, 1.0, settings.tuning.nodes, rng)
    index, node_weights, own = placed.which, placed.weights, placed.own if settings.thinned else None
    nodes = points.take(index)
    cov = moments.evidence_cov(surrogate, nodes, node_weights, cap=SPREAD_CLIP, own=own)
    log_prior = prior.simulated.log_density_working
    target = Target(surrogate, 1.0, log_evidence, nodes, rule.z[index], node_weights, log_prior)
    return target, float(np.sqrt(np.log1p(cov**2)))


def draw_posterior(
    population: Population, surrogate: Surrogate[Any], prior: Prior, settings: Settings, rng: np.random.Generator
) -> tuple[Population, Moved]:
    """Draws of the posterior itself: γ = 1 even where the budget ran out before, none of the prior's own points."""
    size, steps = settings.population, settings.final_chain(prior.dim)
    return follow(population, surrogate, 1.0, prior, size=size, steps=steps, prior_fraction=0.0, rng=rng)


def _importance_rule(
    posterior: Array,
    surrogate: Surrogate[Any],
    prior: Prior,
    settings: Settings,
    enough: float,
    rng: np.random.Generator,
) -> tuple[Quadrature, Any]:
    """Points of a mixture fitted to the posterior draws, and of the prior; more of them until the error is fine.

    Chains divide between modes only as well as the populations did; the weighted points of a first, smaller
    rule do better, and the final mixture is fitted to those. Where the first one's error is ``enough``, it is taken.
    """
    low, high = prior.working_bounds
    tuning, freedom = settings.tuning, importance.FREEDOM
    if settings.surrogate == "outputs":  # in many dimensions most points of heavy tails lie far out
        freedom = max(freedom, 2.0 * prior.dim)
    pilots = [
        _weighted_draws(mixture, surrogate, prior, tuning.pilot_points, rng)
        for mixture in (
            importance.fit_mixture(posterior, low, high, rng),
            importance.fit_student_mixture(posterior, rng, freedom),
        )
    ]
    kind = int(np.argmin([pilot.sd for pilot, _, _ in pilots]))
    rule, points, weights = pilots[kind]
    if rule.sd < enough:
        return rule, points
    draws = rule.z[moments.systematic_resample(weights, len(posterior), rng)]
    student = importance.fit_student_mixture(draws, rng, freedom) if kind else None
    mixture = student or importance.fit_mixture(draws, low, high, rng)
    size = tuning.importance_points
    while size <= tuning.most_importance_points:
        rule, points, _ = _weighted_draws(mixture, surrogate, prior, size, rng)
        if rule.sd < tuning.fine_quadrature * settings.tolerance[1]:
            break
        size *= 4
    return rule, points


def _weighted_draws(
    mixture: importance.Mixture | importance.StudentMixture,
    surrogate: Surrogate[Any],
    prior: Prior,
    n: int,
    rng: np.random.Generator,
) -> tuple[Quadrature, Any, Array]:
    """Points of a mixture and of the prior as a rule, as the surrogate sees them, and their posterior weights."""
    of_prior = prior.to_working(prior.sample(int(importance.PRIOR_FRACTION * n), rng, "sobol"))
    draws = importance.sample(mixture, of_prior, prior.log_density_working, n, rng)
    points = surrogate.at(draws.z)
    _, weights = moments.normalise(surrogate.log_mean(points, 1.0) + draws.log_weights)
    rule = Quadrature(draws.z, draws.log_weights, _relative_error(weights, draws.total, prior))
    return rule, points, weights


def _relative_error(weights: Array, total: int, prior: Prior) -> float:
    """Of an evidence taken over ``total`` draws of which some have these weights."""
    variance = max(1.0 / moments.effective_sample_size(weights) - 1.0 / total, 0.0)
    return float(np.sqrt(variance + prior.constraint_mass_error**2))


def _draws(z: Array, weights: Array, chains: Array, plenty: float, rng: np.random.Generator) -> Array:
    """Posterior draws: of the weighted points where there are plenty, which divide between modes better than chains."""
    if moments.effective_sample_size(weights) < plenty * len(chains):
        return chains
    order = np.argsort(z @ np.linalg.svd(chains - chains.mean(axis=0), full_matrices=False)[2][0])
    index = order[moments.systematic_resample(weights[order], len(chains), rng)]  # in order: each mode has its part
    return z[rng.permutation(index)]


def _mbar_rule(
    populations: tuple[Population, ...], surrogate: Surrogate[Any], size: int, rng: np.random.Generator
) -> Quadrature:
    """The points of all stages, each weighted by the mixture of the densities that they came from."""
    each = max(size // len(populations), 1)  # at random: every second point of a Sobol sequence is half a space
    parts = [rng.permutation(p.z)[:each] for p in populations]
    z = np.concatenate(parts)
    log_densities = np.array([p.log_density_at(z) for p in populations])
    log_target = surrogate.log_mean(surrogate.at(z), 1.0)
    estimate = mbar(log_densities, np.array([float(len(p)) for p in parts]), log_target)
    return Quadrature(z, estimate.log_weights, estimate.sd)


def _over_surrogates(
    surrogate: Surrogate[Any],
    rivals: Sequence[tuple[Surrogate[Any], float]],
    rule: Quadrature,
    tuning: Tuning,
    coarse: bool,
    rng: np.random.Generator,
) -> tuple[float, Array]:
    """Spread of the log-evidence over plausible surrogates, and the point that the most deviant one rests on.

    A model counts e^(−nats behind/4): that much of what scores tell models apart by is chance and misfit.
    """
    size = tuning.alternative_points // 2 if coarse else tuning.alternative_points
    some = slice(None, None, max(len(rule.z) // size, 1))
    z, log_weights = rule.z[some], rule.log_weights[some]
    others = [(other, 0.0) for other in surrogate.alternatives(tuning.alternatives, rng)]
    taken = [
        moments.normalise(other.log_mean(other.at(z), 1.0) + log_weights)
        for other, _ in [(surrogate, 0.0), *others, *rivals]
    ]
    if len(taken) == 1:
        return 0.0, z[0]
    off = np.array([value for value, _ in taken[1:]]) - taken[0][0]
    same, models = off[: len(others)], off[len(others) :]
    weights = np.exp([-behind / tuning.rival_scale for _, behind in rivals])
    variance = np.mean(same**2) if len(same) else 0.0
    variance += weights @ np.minimum(models**2, tuning.rival_clip) / (1.0 + weights.sum())
    deviant = int(np.argmax(np.abs(off) * np.append(np.ones(len(same)), weights)))
    return float(np.sqrt(variance)), z[int(np.argmax(taken[1 + deviant][1]))]
