"""The numbers that decide a run's statistics, in one place.

They hold for every problem: none is an option of the user's. A journal's header has them, since a journal replays only
with the tuning that it was written with; the studies in ``bench`` and ``benchmarks`` vary them by the same object. What
guards a formula against rounding stays beside that formula. "Measured in" names the page of docs/benchmarks that has
the numbers; where none is named, the value was reasoned and has not been varied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Tuning:
    """Nats are natural units of the log-likelihood, ε is the tolerance of the final stage, γ the tempering."""

    # --- stopping ---
    in_a_row: int = 2  # updates that must meet the tolerance: one that is small for once proves little
    bound_factor: float = 10.0  # of ε, below which the upper bound must be before the exact value counts (choices)
    assess_before_end: bool = True  # take the evidence by fresh quadrature and over rival models first (ablation)
    coarse_before_check: bool = True  # with fewer points where check runs follow: a quarter of the time (ablation)
    part_limit: float = 1.0  # ε that each part of the error may have at the end
    poor_quadrature: float = 0.1  # error of log Z by fresh quadrature from which on its points miss something
    fewest_runs: int = 3  # successful runs without which there is no surrogate
    hopeless_runs: int = 50  # failed runs, none of them a success, after which a run ends

    # --- checks by fresh runs (ablation: "no check runs") ---
    check_runs: bool = True  # whether they are made where log-likelihoods of more than two parameters are learned
    fewest_check_runs: int = 4  # of them; else as many as there are parameters
    far_check_runs: int = 2  # times as many where the posterior is far: few of the other runs are near it (real)
    check_rms: float = 5.0  # ε that the root mean square of the residuals that matter may have
    check_error: float = 2.0  # ε that the error of the evidence which the posterior draws among them imply may have
    check_clip: float = 3.0  # nats at which a residual is clipped, so that a single one does not rule
    check_depth: float = 0.05  # fraction of the posterior below whose log-likelihoods a run does not matter
    check_crowd: int = 20  # members of the population of which the most uncertain one is run

    # --- stages and populations ---
    prior_fraction: float = 0.2  # of every population: fresh points of the prior; no region goes unseen (ablation)
    design: Literal["lhs", "sobol"] = "sobol"  # of the population
    most_stages: int = 60  # climbed at once where stages cost no runs
    retreat_cov: float = (
        3.0  # of a population's weights at its own γ: above, the surrogate would not have moved it there
    )
    overlooked: float = 0.2  # share of the evidence that may hide, two standard deviations above what is believed
    doubting_factor: float = 2.0  # of ε, up to which such runs go on: they hardly make the error smaller
    most_doubts: int = 18  # runs in a row where more may hide that found nothing: the next does by one chance in 20
    most_far_doubts: int = 9  # the same where the posterior is far, and such runs are deep: by one chance in ten; with
    # six, two of 16 runs of the README's frame lost a mode (real)
    surprise_sd: float = 4.0  # standard deviations above what other runs let expect from which on a run is climbed from
    surprise: float = 3.0  # nats that it must be above that, too
    surprise_depth: float = 50.0  # nats below the best run, beyond which nothing surprises
    most_ascents: int = 6  # such climbs of a run, of two runs more than there are parameters each
    hasty_steps: float = 2.0  # factor of temper_cov in stages that only lead on
    hasty_chains: float = 0.3  # factor of their chains' length

    # --- exploration (ablation) ---
    explore_every: int = 5  # one chosen point in so many explores where the stages do not look; 0 for none
    climb_every: int = 3  # of so many chosen points one is where most may be gained while the posterior is far, and
    # one a step up from the best run (real)
    climb_gain: float = 1.0  # nats that such a run must promise: with less to gain the posterior has been found
    explore_cov: float = 1.5  # coefficient of variation of the weights of an exploring target: how flat it is
    explore_gamma: float = 0.01  # tempering below which a target that is flat over the prior is too flat (real)
    explore_reach: float = 1.5  # distances between two members of a population that a point may lie beyond one of them

    # --- search ---
    nodes: int = 300  # quadrature nodes of acquisition functions and variances
    candidates: int = 1000  # points that are ranked in each search
    climb_up_to: int = 6  # parameters up to which search="auto" climbs: gradients by differences cost 2d values
    suspects: int = 50  # heaviest points of a quadrature among which a run is chosen where its error is large

    # --- the belief about L (ablation) ---
    ceiling: bool = (
        True  # expect no run far above the best one, and no spread that nobody will see; False is the paper's
    )
    far_clip: float = 2.0  # nats (1 sd) that a run may move log L by where the posterior is far; else 4 (real)
    far_depth: float = 50.0  # nats per parameter that half of the initial design lies below the best run where it is
    # far: a normal posterior a tenth as wide as the prior lies so far above it (real)
    beyond_border: float = 3.0  # nats above the best run that a likelihood may have where a run found none (real)
    mean_cap: float = 1.0  # nats: largest γσ in E[L^γ] = exp(γμ + ½ min(γσ, cap)²); 0 is biased, infinity explodes
    adjust_mean: bool = True  # take σ in the final mean of L as small as the residuals of earlier predictions support
    inflate: bool = True  # multiply standard deviations by what earlier predictions were off by; False is the paper's
    inflation_start: float = 1.5  # factor before any prediction was tested: a fitted process is too sure of itself
    far_inflation: float = 1.2  # factor that it is at least where the posterior is far, and many were tested (real)
    inflation_most: float = 4.0  # factor that it never exceeds
    inflation_runs: int = 5  # tested predictions that the start is worth
    inflation_memory: int = 30  # last tested predictions that count
    inflation_clip: float = 25.0  # squared z-score at which one prediction is clipped; 9 where noise is unknown (noise)
    inflation_lately: int = 1  # one in so many of the runs, the last ones, whose predictions count; 3 where noise is
    # unknown: outputs of few runs are too sure of themselves by up to three times, and those of more are not (noise)
    inflation_depth: float = 10.0  # nats of log L^γ below the best run within which a prediction counts
    border_inflation: float = 3.0  # factor of the standard deviations of a border of zero likelihood: a smooth process
    # knows no corners; with two one run in ten beside one is confidently wrong, with one four (borders)
    inflation_floor: float = 0.02  # nats added to the standard deviation of a prediction: nobody is blamed for less
    guard_depth: float = 10.0  # nats below the best run: where log-depths let expect less, no model is asked (real)
    noise_sd: float = 1e-3  # what the process may miss a value by: nats, or standard deviations of an output's noise

    # --- which model of the log-likelihood ---
    warp_depth: float = 8.0  # nats below the best from where on a warped model compresses values
    near_depth: float = 30.0  # nats of log L^γ below the best within which runs matter
    deep_noise_from: float = 10.0  # nats of log L^γ below the best from where on a model with shaped noise has any
    deep_noise_slope: float = 0.1  # its standard deviation per nat of depth beyond that
    deepest: float = 100.0  # nats of log L^γ that it sees: with the noise of more it would forget that a run is deep
    contest_growth: float = 1.2  # factor of the number of runs after which all models compete again
    far_pace: int = (
        2  # most runs after which models are fitted again where the posterior is far: few are near it (real)
    )
    contest_every: int = 5  # fits after which those do that were not far behind
    contest_margin: float = 30.0  # nats of score behind the best at which a model is far behind
    rival_scale: float = 4.0  # nats of score behind that make a rival e times less plausible: scores err by as much
    rival_clip: float = 1.0  # squared nats of log Z by which a rival may differ: beyond, it knows nothing

    # --- the final quadrature ---
    alternatives: int = 12  # surrogates with other hyperparameters over which the evidence is taken
    alternative_points: int = 2**11  # points at which they are compared; half of them in a coarse assessment
    pilot_points: int = 2**12  # importance points from which the final mixture is fitted; do for a coarse assessment
    importance_points: int = 2**14  # importance points of the final rule, to begin with
    most_importance_points: int = 2**16  # where fewer are not enough
    fine_quadrature: float = 0.5  # Monte Carlo error, in ε, at which no more points are taken
    good_quadrature: float = 0.02  # Monte Carlo error of log Z above which the populations of all stages are asked too
    mbar_points: int = 2**13  # of those, together
    plenty: float = 3.0  # effective weighted points per posterior draw from which on draws are taken from them

    # --- outputs (outputs, rough) ---
    few_outputs: int = 8  # outputs of one experiment that are modelled as they are, without principal components
    neglected: float = 1e-3  # summed variance, in squared noise, of the principal components left out
    most_components: int = 200  # principal components of one experiment: those that matter are not capped
    repeatable: float = 1e-5  # relative error of an output, in units of its spread, that a simulator may have
    positive_beyond: float = 3.0  # noise sd above zero from which on an observed value allows a logarithm
    anew_every: int = 8  # runs after which logarithms, hyperparameters and stages are found anew, from nothing; or
    anew_growth: float = 1.2  # factor of the number of runs after which they are, where that is later
    chain_steps: float = 3.0  # steps per parameter of chains from common_from on: where they are fewer, populations,
    # and the runs chosen among them, lie between prior and posterior, and slopes there are not the posterior's (scale)
    final_steps: float = 4.0  # steps per parameter of the chains that end in posterior draws (scale)
    common_from: int = 15  # parameters from which on all outputs have the same length-scales (scale)
    most_design: int = 33  # runs of the design, d + 3 of thirty parameters: of more, few are thought to matter (scale)
    lost: float = 1.0  # coefficient of variation of the evidence above which it is not known where the posterior is
    lost_from: int = 16  # parameters from which on every second run then goes to the most probable point (scale)
    small_population: int = 512  # most points of a population that is only on the way of a climb
    warm_progress: float = 1.05  # factor of γ by which a population of the last climb must lead on to be gone on from
    output_margin: float = 1.5  # factor of the stated error: a kink in an output can fool its process
    common_margin: float = 2.0  # the same where all outputs have the same length-scales: bent ones err alike (scale)
    output_least_runs: int = 20  # runs before outputs are compared with log-likelihoods
    output_compare_every: int = 5  # runs after which they are compared again
    output_depth: float = 10.0  # nats below the best run within which predictions are compared
    output_least_near: int = 8  # runs within that depth, and points of the evidence, without which nothing is decided
    output_overlap: float = 0.05  # share of the outputs' effective points that must carry the other evidence, too
    output_nodes: int = 150  # quadrature nodes of the comparison
    rough_depth: float = 50.0  # nats below the best run within which leave-one-out residuals of an output count
    rough_inflation: float = 1.6  # factor of inflation from which on outputs are said to be rough
    disagreement: float = 3.0  # standard deviations between two evidences that are not chance
    vague: float = 0.3  # coefficient of variation above which the evidence by log-likelihoods contradicts nothing

    # --- a coarse model (levels) ---
    coarse_design: int = 8  # coarse runs for each parameter to begin with
    coarse_growth: float = 1.3  # factor of the coarse runs after which their hyperparameters are searched again
    most_coarse: int = 400  # coarse runs that are learned from: the next would cost our own time, and teach little
    coarse_batch: int = 15  # most coarse runs between two fits
    coarse_batch_cost: float = 0.15  # fine runs that those may cost
    coarse_known: float = 0.3  # ε of the evidence's error due to the coarse model below which it gets no more runs
    fewest_fine: int = 5  # fine runs without which a difference of levels is not believed (rms z 4 with three)
