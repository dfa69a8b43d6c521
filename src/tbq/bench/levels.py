"""`tbq bench levels`: whole runs with a coarse model and without it, against brute force with the fine one."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tbq.bench import studies
from tbq.bench.level_models import CASES, Case
from tbq.common.errors import SimulatorError
from tbq.common.types import Array
from tbq.evidence import importance, moments
from tbq.run.infer import infer

_REFERENCES = Path(__file__).with_name("level_references.json")
NAMES = tuple(CASES)
_CONFIDENTLY = 3.0  # stated standard deviations from which on an error is one that nobody was warned of
_CORRELATED = 64  # draws of the prior at which levels are compared
_NINETY = 1.645  # standard deviations that a 90 % interval reaches to either side
COLUMNS = (
    "case",
    "parameters",
    "correlation",
    "cost of a coarse run",
    "runs",
    "fine runs, one level",
    "fine runs, two levels (wanted)",
    "coarse runs",
    "total cost",
    "pays below a cost of",
    "mean error of log Z, one → two",
    "rms z",
    "90 % intervals cover",
    "confidently wrong",
    "converged",
    "own seconds, one → two",
)


@dataclass(frozen=True)
class Row:
    """What one run gave."""

    case: str
    levels: int
    seed: int
    parameters: int
    cost_ratio: float
    fine: int
    coarse: int
    cost: float
    error: float  # of log Z
    stated: float
    converged: bool
    seconds: float  # of processor time that choosing and learning took


def references() -> dict[str, tuple[float, float]]:
    """log Z of each problem and its error, as :func:`reference` found them; the battery's is by quadrature."""
    stored = json.loads(_REFERENCES.read_text())
    return {name: (float(value), float(sd)) for name, (value, sd) in stored.items()}


def run(name: str, levels: int, seed: int) -> Row:
    """One run with default settings."""
    case = CASES[name]()
    log_evidence, sd = references()[case.problem]
    spent = _Timed(case)
    start = time.process_time()
    result = infer(spent.case.likelihood(levels), case.prior, seed=seed, progress=False)
    seconds = time.process_time() - start - spent.seconds
    return Row(
        case=name,
        levels=levels,
        seed=seed,
        parameters=case.prior.dim,
        cost_ratio=case.cost,
        fine=result.n_evaluations,
        coarse=result.n_coarse,
        cost=result.cost,
        error=result.log_evidence - log_evidence,
        stated=float(np.hypot(result.log_evidence_sd, sd)),
        converged=result.converged,
        seconds=seconds,
    )


class _Timed:
    """A case whose models' own time is taken."""

    def __init__(self, case: Case) -> None:
        self.seconds = 0.0
        models = [self._timed(model) for model in (case.model, case.coarse)]
        rest = (case.observed, case.noise, case.cost, case.most_fine)
        self.case = Case(case.problem, case.prior, models[0], models[1], *rest)

    def _timed(self, model: Callable[[Array], Array]) -> Callable[[Array], Array]:
        def timed(theta: Array) -> Array:
            start = time.process_time()
            try:
                return model(theta)
            finally:
                self.seconds += time.process_time() - start

        return timed


def reference(case: Case, n: int, seed: int = 99) -> tuple[float, float]:
    """log Z of the fine model and its error: importance sampling from a mixture fitted to draws of a run."""
    likelihood, rng = case.likelihood(levels=1), np.random.default_rng(seed)
    result = infer(likelihood, case.prior, seed=seed, progress=False)
    mixture = importance.fit_student_mixture(case.prior.to_working(result.samples), rng)
    of_prior = case.prior.to_working(case.prior.sample(n // 10, rng, "sobol"))
    draws = importance.sample(mixture, of_prior, case.prior.log_density_working, n, rng)
    theta = case.prior.from_working(draws.z)
    log_terms = likelihood.from_outputs(theta, case.model(theta)) + draws.log_weights
    log_evidence, weights = moments.normalise(log_terms)
    sd = np.sqrt(max(1.0 / moments.effective_sample_size(weights) - 1.0 / draws.total, 0.0))
    return log_evidence, float(sd)


def store(name: str, n: int) -> None:
    """Make a reference anew."""
    stored = json.loads(_REFERENCES.read_text()) if _REFERENCES.exists() else {}
    case = CASES[name]()
    stored[case.problem] = reference(case, n)
    _REFERENCES.write_text(json.dumps(stored, indent=1) + "\n")


# --- the study ----------------------------------------------------------------------------------------------


def study(
    names: Sequence[str], seeds: Sequence[int], folder: Path, on_progress: Callable[[int], None] = lambda done: None
) -> list[Row]:
    """Make what is missing of the runs, one after the other, and the table of all there are.

    Cases of the same problem share its runs without a coarse model.
    """
    path = folder / "levels_runs.csv"
    done = {(r.case, r.levels, r.seed): r for r in studies.read_rows(Row, path)}
    alone = {CASES[name]().problem for name in names}
    wanted = [(name, 2, seed) for seed in seeds for name in names] + [(n, 1, seed) for seed in seeds for n in alone]
    missing = [task for task in wanted if task not in done]
    before = len(wanted) - len(missing)
    on_progress(before)
    new = studies.run_missing(run, missing, 1, path, lambda n: on_progress(before + n))
    done |= {(r.case, r.levels, r.seed): r for r in new}
    (folder / "levels.md").write_text(report(list(done.values())))
    return [done[task] for task in wanted]


def table_rows(rows: Sequence[Row]) -> list[list[str]]:
    """A line for each case, and one for all."""
    two = [r for r in rows if r.levels == 2]
    found = [_cells(name, rows) for name in CASES if any(r.case == name for r in two)]
    z = _scores(two)
    covered = np.mean(np.abs(z) < _NINETY)
    wrong = int(np.sum(np.abs(z) > _CONFIDENTLY))
    everything = [
        "all",
        "",
        "",
        "",
        f"{len(two)}",
        "",
        "",
        "",
        "",
        "",
        "",
        f"{_rms(z):.2f}",
        f"{100 * covered:.0f} %",
        f"{wrong}",
    ]
    return [*found, [*everything, f"{sum(r.converged for r in two)}", ""]]


def _cells(name: str, every: Sequence[Row]) -> list[str]:
    case = CASES[name]()
    rows = [r for r in every if r.case == name and r.levels == 2]
    alone = [r for r in every if r.case == case.problem and r.levels == 1]
    z, fine = _scores(rows), [r.fine for r in rows]
    below, saved = np.mean([r.coarse for r in rows]), np.mean([r.fine for r in alone or rows]) - np.mean(fine)
    before = (f"{np.mean([r.fine for r in alone]):.1f} ({len(alone)} runs)", _mean_error(alone), _own(alone))
    without, error, seconds = before if alone else ("", "", "")
    return [
        name,
        f"{rows[0].parameters}",
        f"{correlation(case):.3f}",
        f"1/{1.0 / case.cost:.0f}",
        f"{len(rows)}",
        without,
        f"{np.mean(fine):.1f} ({min(fine)}–{max(fine)}; {case.most_fine:g})",
        f"{below:.0f}",
        f"{np.mean([r.cost for r in rows]):.1f}",
        f"{saved / below:.2f}" if saved > 0.0 else "never",
        f"{error} → {_mean_error(rows)}",
        f"{_rms(z):.2f}",
        f"{100 * np.mean(np.abs(z) < _NINETY):.0f} %",
        f"{np.sum(np.abs(z) > _CONFIDENTLY)}",
        f"{sum(r.converged for r in rows)}",
        f"{seconds} → {_own(rows)}",
    ]


def correlation(case: Case) -> float:
    """Of the two levels over the prior, the least of all outputs; draws where the coarse model fails are left out."""
    pairs = []
    for theta in case.prior.sample(_CORRELATED, 0, "sobol"):
        with contextlib.suppress(SimulatorError):
            pairs.append((case.coarse(theta), case.model(theta)))
    coarse, fine = np.moveaxis(np.array(pairs), 1, 0)
    return float(min(np.corrcoef(c, f)[0, 1] for c, f in zip(coarse.T, fine.T, strict=True)))


def _mean_error(rows: Sequence[Row]) -> str:
    return f"{np.mean([abs(r.error) for r in rows]):.4f}"


def _own(rows: Sequence[Row]) -> str:
    return f"{np.median([r.seconds for r in rows]):.1f}"


def _scores(rows: Sequence[Row]) -> Array:
    return np.array([r.error / r.stated for r in rows])


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def report(rows: Sequence[Row]) -> str:
    """The page."""
    cells = [f"| {' | '.join(row)} |" for row in table_rows(rows)]
    return "\n".join([TEXT, f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS), *cells, ""])


TEXT = """# A coarse model beside the fine one

Made by `tbq bench levels`: default settings, one call of `tbq.infer` per seed, with the coarse model and without it.
The total cost counts coarse runs by their cost in fine ones; in brackets the fewest and most fine runs, and how many
there should be at most. The correlation is that of the two levels over the prior, the least of all outputs. With so
many coarse runs the coarse model pays if one costs less than the fine runs it saved, divided by them. Errors are
against importance sampling with the fine model (`level_references.json`), the battery's against quadrature. `battery`:
linear finite elements and two modes of decay for quadratic ones and twelve, 0.75 K off. `oscillator`: Euler's explicit
method for the solution. `beam`: 4 elements for 40; `beam_2`: 2 elements, which are 36 to 47 % off in the fourth
frequency; `wrong_sign`: more mass acts as less; `useless`: has nothing to do with the beam; `failing`: 4 elements,
where no run succeeds on four tenths of the posterior. Every run: `levels_runs.csv`.
"""
