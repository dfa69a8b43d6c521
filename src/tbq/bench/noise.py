"""`tbq bench noise`: whole runs whose noise is unknown, correlated or wrong, against brute force."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.random import Generator
from scipy import stats

from tbq.bench import studies
from tbq.bench.noise_models import CASES, Case
from tbq.common.types import Array
from tbq.evidence import importance, moments, moves, tempering
from tbq.problem.joint_prior import joint
from tbq.problem.noise import NoiseModel, known
from tbq.problem.prior import Prior
from tbq.run.infer import infer

_REFERENCES = Path(__file__).with_name("noise_references.json")
NAMES = tuple(CASES)
_REFITS = 2  # of the mixture that brute force draws from, to draws that it has weighted
_CONFIDENTLY = 3.0  # stated standard deviations from which on an error is one that nobody was warned of
COLUMNS = (
    "case",
    "parameters",
    "noise",
    "runs",
    "calls (wanted)",
    "error of log Z, rms / largest",
    "stated",
    "rms z",
    "means off by, in sd",
    "widths, as a ratio",
    "converged",
    "confidently wrong",
    "own seconds",
)


@dataclass(frozen=True)
class Reference:
    """Evidence and posterior by brute force."""

    log_evidence: float
    log_evidence_sd: float
    mean: tuple[float, ...]
    sd: tuple[float, ...]


@dataclass(frozen=True)
class Row:
    """What one run gave."""

    case: str
    seed: int
    parameters: int
    noise: int  # parameters
    calls: int
    error: float  # of log Z
    stated: float
    off: float  # largest error of a posterior mean, in posterior standard deviations
    narrow: float  # smallest ratio of a posterior standard deviation to the true one
    wide: float  # largest
    converged: bool
    seconds: float  # of processor time; the simulators take next to none


def references() -> dict[str, Reference]:
    """As :func:`reference` found them."""
    stored = json.loads(_REFERENCES.read_text())
    return {k: Reference(**{**v, "mean": tuple(v["mean"]), "sd": tuple(v["sd"])}) for k, v in stored.items()}


def run(name: str, seed: int) -> Row:
    """One run with default settings."""
    case, known_by = CASES[name](), references()[name]
    start = time.process_time()
    result = infer(case.likelihood, case.prior, seed=seed, progress=False)
    seconds = time.process_time() - start
    mean, sd = moments.mean_and_sd(result.samples)
    ratio = sd / np.array(known_by.sd)
    return Row(
        case=name,
        seed=seed,
        parameters=case.prior.dim,
        noise=result.prior.dim - case.prior.dim,
        calls=result.n_evaluations,
        error=result.log_evidence - known_by.log_evidence,
        stated=float(np.hypot(result.log_evidence_sd, known_by.log_evidence_sd)),
        off=float(np.max(np.abs(mean - known_by.mean) / known_by.sd)),
        narrow=float(ratio.min()),
        wide=float(ratio.max()),
        converged=result.converged,
        seconds=seconds,
    )


# --- brute force --------------------------------------------------------------------------------------------


def exact(model: NoiseModel, outputs: Array, phi: Array) -> Array:
    """log L by dense covariances, factorised one by one; of Student errors, by their density."""
    total = np.zeros(len(phi))
    for block in model.blocks:
        y = outputs[:, model.out[block.rows]]
        residual = model.data[block.rows] - y
        if block.freedom is not None:
            nu = block.freedom.at(phi)[:, None]
            total += np.sum(stats.t(nu, 0.0, block.scales(phi, y)).logpdf(residual), axis=1)
            continue
        step = max(2**23 // block.size**2, 1)
        for i in range(0, len(phi), step):
            some = slice(i, i + step)
            covariance = block.noise_covariance(phi[some], y[some]) + block.discrepancy_covariance(phi[some])
            factor = np.linalg.cholesky(covariance)
            white = np.linalg.solve(factor, residual[some, :, None])[:, :, 0]
            log_det = np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
            total[some] -= 0.5 * np.sum(white**2, axis=1) + log_det + 0.5 * block.size * np.log(2.0 * np.pi)
    return total


def reference(case: Case, seed: int = 0, n: int = 2000, steps: int = 8, final: int = 60_000) -> Reference:
    """Tempered populations with the true model, then importance sampling from mixtures fitted to them."""
    (experiment,) = case.likelihood.experiments
    noise = case.likelihood.noise_model or known(experiment.observed, experiment.factor)
    prior, d, rng = joint(case.prior, noise.prior), case.prior.dim, np.random.default_rng(seed)

    def log_likelihood(z: Array) -> Array:
        theta = prior.from_working(z)
        return exact(noise, experiment.run(theta[:, :d]), theta[:, d:])

    z = _climbed(prior, log_likelihood, n, steps, rng)
    for _ in range(_REFITS):
        points, log_z, weights, sd = min(_sums(prior, log_likelihood, z, final // 3, rng), key=lambda sums: sums[3])
        z = points[moments.systematic_resample(weights, n, rng)]
    points, log_z, weights, sd = min(_sums(prior, log_likelihood, z, final, rng), key=lambda sums: sums[3])
    theta = prior.from_working(points)
    mean = weights @ theta
    spread = np.sqrt(weights @ (theta - mean) ** 2)
    return Reference(log_z, sd, tuple(map(float, mean)), tuple(map(float, spread)))


def _sums(
    prior: Prior, log_likelihood: Callable[[Array], Array], z: Array, n: int, rng: Generator
) -> Iterator[tuple[Array, float, Array, float]]:
    """Points of two kinds of mixtures fitted to draws, log Z by each, their weights, and its error."""
    for mixture in (
        importance.fit_mixture(z, *prior.working_bounds, rng),
        importance.fit_student_mixture(z, rng),
    ):
        of_prior = prior.to_working(prior.sample(n // 10, rng, "sobol"))
        draws = importance.sample(mixture, of_prior, prior.log_density_working, n, rng)
        log_z, weights = moments.normalise(log_likelihood(draws.z) + draws.log_weights)
        sd = float(np.sqrt(max(1.0 / moments.effective_sample_size(weights) - 1.0 / draws.total, 0.0)))
        yield draws.z, log_z, weights, sd


def _climbed(prior: Prior, log_likelihood: Callable[[Array], Array], n: int, steps: int, rng: Generator) -> Array:
    """A population of the posterior, through tempered ones."""
    z, gamma = prior.to_working(prior.sample(n, rng, "sobol")), 0.0
    while gamma < 1.0:
        value = log_likelihood(z)
        new = tempering.next_gamma(partial(_log_weights, value, gamma), gamma, 1.0)
        _, weights = moments.normalise((new - gamma) * value)
        z, gamma = z[moments.systematic_resample(weights, n, rng)], new
        z = moves.move(z, partial(_tempered, log_likelihood, gamma), prior.log_density_working, steps, rng).z
    return z


def _log_weights(value: Array, last: float, gamma: float) -> Array:
    return (gamma - last) * value


def _tempered(log_likelihood: Callable[[Array], Array], gamma: float, z: Array) -> Array:
    return gamma * log_likelihood(z)


def store(names: Sequence[str]) -> None:
    """Make references anew."""
    stored = json.loads(_REFERENCES.read_text()) if _REFERENCES.exists() else {}
    for name in names:
        stored[name] = asdict(reference(CASES[name]()))
        _REFERENCES.write_text(json.dumps(stored, indent=1) + "\n")


# --- the study ----------------------------------------------------------------------------------------------


def study(
    names: Sequence[str], seeds: Sequence[int], folder: Path, on_progress: Callable[[int], None] = lambda done: None
) -> list[Row]:
    """Make what is missing of the runs, one after the other, and the table of all there are."""
    path = folder / "noise_runs.csv"
    done = {(r.case, r.seed): r for r in studies.read_rows(Row, path)}
    wanted = [(name, seed) for name in names for seed in seeds]
    missing = [task for task in wanted if task not in done]
    before = len(wanted) - len(missing)
    on_progress(before)
    new = studies.run_missing(run, missing, 1, path, lambda n: on_progress(before + n))
    done |= {(r.case, r.seed): r for r in new}
    (folder / "noise.md").write_text(report(list(done.values())))
    return [done[task] for task in wanted]


def table_rows(rows: Sequence[Row]) -> list[list[str]]:
    """A line for each case, and one for all."""
    found = [_cells(name, [r for r in rows if r.case == name]) for name in CASES if any(r.case == name for r in rows)]
    z = _scores(rows)
    everything = ["all", "", "", f"{len(rows)}", "", "", "", f"{_rms(z):.2f}", "", "", ""]
    return [*found, [*everything, f"{np.sum(np.abs(z) > _CONFIDENTLY)}", ""]]


def _cells(name: str, rows: Sequence[Row]) -> list[str]:
    calls, z = [r.calls for r in rows], _scores(rows)
    return [
        name,
        f"{rows[0].parameters}",
        f"{rows[0].noise}",
        f"{len(rows)}",
        f"{np.mean(calls):.1f} ({min(calls)}–{max(calls)}; {CASES[name]().most_runs})",
        f"{_rms([r.error for r in rows]):.4f} / {max(abs(r.error) for r in rows):.4f}",
        f"{np.median([r.stated for r in rows]):.4f}",
        f"{_rms(z):.2f}",
        f"{max(r.off for r in rows):.2f}",
        f"{min(r.narrow for r in rows):.2f}–{max(r.wide for r in rows):.2f}",
        f"{sum(r.converged for r in rows)}",
        f"{np.sum(np.abs(z) > _CONFIDENTLY)}",
        f"{np.median([r.seconds for r in rows]):.0f}",
    ]


def _scores(rows: Sequence[Row]) -> Array:
    return np.array([r.error / r.stated for r in rows])


def _rms(values: Sequence[float] | Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def report(rows: Sequence[Row]) -> str:
    """The page."""
    cells = [f"| {' | '.join(row)} |" for row in table_rows(rows)]
    return "\n".join([TEXT, f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS), *cells, ""])


TEXT = """# Noise that is not known

Made by `tbq bench noise`: default settings, one call of `tbq.infer` per seed. Errors are against brute force with the
true model over all parameters (`noise_references.json`); in brackets the fewest and most calls, and how many there
should be at most. `decay`: an unknown noise. `lynx`: a differential equation with six parameters and two unknown
noises. `correlated`: AR(1) residuals of unknown length, 100 outputs. `drift`: data with a drift that the model lacks,
with a discrepancy; `no_discrepancy`: the same data without one. `replicates`: three tests with gaps. `outliers`:
Student errors, whose curvature is taken at the expected outputs. `swap`: two modes of vibration that swap within the
prior, with shapes; `two_explanations`: without shapes. Every run: `noise_runs.csv`.
"""
