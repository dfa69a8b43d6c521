"""`tbq bench overhead`: where our own time goes between two runs, how it grows, and what it takes in memory."""

from __future__ import annotations

import multiprocessing
import platform
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy import stats

from tbq import engine, problems
from tbq.acquisition import search
from tbq.acquisition.functions import ACQUISITIONS, ENSEMBLE
from tbq.bench import output_overhead, paper, resuming, studies
from tbq.common.threads import single_threaded
from tbq.common.types import Array
from tbq.engine import propose, stages, training
from tbq.evidence.target import Target
from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.prior import Prior
from tbq.problem.settings import resolve
from tbq.surrogate import selection
from tbq.surrogate.protocol import Surrogate
from tbq.surrogate.warp import Frame

DIMENSIONS = (2, 5, 10, 15)
POINTS = (50, 200, 500, 1000, 2000)
POPULATION = 2**11  # the default
POPULATIONS = (2**11, 2**13, 2**15)  # at _CENTER
_CENTER = (5, 500)  # parameters and runs where growth with the population, and with the parameters, is measured
_RUNS_PER_STAGE = 15  # on `ten`: what a move is spread over
PARTS = ("conditioning", "fit", "choice", "sweep", "moves", "evidence")
COLUMNS = ("d", "runs", "population", *PARTS, "s per iteration", "peak MB")
PAPER_COLUMNS = ("problem", "function", "s per acquisition", "the paper's")
_PAPER_SIZE = 5000  # of pool and nodes
_REPEATS = 5  # of an acquisition, of which the fastest counts
_LARGEST = (15, 2000, 100_000)  # parameters, runs and population that are to fit into memory


T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """Seconds of processor time of each part when it is done, at one size."""

    d: int
    runs: int
    population: int
    conditioning: float  # one more run taken in at the same hyperparameters
    fit: float  # the model in use, from its last hyperparameters
    choice: float  # all selection, from nothing
    sweep: float
    moves: float
    evidence: float
    peak_mb: float

    @property
    def iteration(self) -> float:
        """Per run: hyperparameters, models and stages are not every run's."""
        often = self.conditioning + self.sweep + self.evidence
        rarely = self.fit / selection.pace(self.runs) + self.choice / (0.2 * self.runs) + self.moves / _RUNS_PER_STAGE
        return often + rarely


@dataclass(frozen=True)
class Acquisition:
    """Seconds of one acquisition at the paper's size."""

    problem: str
    function: str
    seconds: float
    paper: float


def log_likelihood(theta: Array) -> Array:
    """A bent Gaussian bell: cheap, smooth, and of no simple model."""
    z = np.array(theta, dtype=float)
    z[:, 1:] += 0.5 * theta[:, :-1] ** 2
    return -0.5 * np.sum((z / 0.7) ** 2, axis=1) - 0.1 * np.sum(theta**4, axis=1)


def measure(d: int, runs: int, population: int) -> Row:
    """One row, in a process of its own, so that its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, d, runs, population).result()


def _measure(d: int, runs: int, population: int) -> Row:
    with single_threaded():
        state = _state_after(d, runs, population)
        timed: dict[str, float] = {}
        surrogate, memory = _timed(timed, "choice", partial(_fit, state, runs, training.Memory()))
        # a refit of the model in use, which is not up for choice
        values = replace(memory.values, fitted_at=0, chosen_at=runs, contest_at=runs)
        surrogate, memory = _timed(timed, "fit", partial(_fit, state, runs + 1, replace(memory, values=values)))
        surrogate, memory = _timed(timed, "conditioning", partial(_fit, state, runs + 2, memory))
        state = stages.measure(state, surrogate)
        state = _timed(timed, "moves", partial(stages.advance, state))
        state = _timed(timed, "evidence", partial(stages.measure, state, surrogate))
        assert state.learned is not None
        _timed(timed, "sweep", partial(propose.chosen_points, replace(state, next_id=1), state.learned, 1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Row(d=d, runs=runs, population=population, peak_mb=peak, **timed)


def _timed(into: dict[str, float], name: str, work: Callable[[], T]) -> T:
    start = time.process_time()
    result = work()
    into[name] = time.process_time() - start
    return result


def _state_after(d: int, runs: int, population: int) -> engine.State:
    """A state that knows two more runs than asked for: some of the prior, most where a run would have looked."""
    prior = Prior({f"x{i}": stats.norm() for i in range(d)})
    settings = resolve(d, population=population, max_evaluations=10 * runs)
    rng = np.random.default_rng(0)
    theta = prior.sample(runs + 2, rng) * np.where(rng.random((runs + 2, 1)) < 0.3, 1.0, 0.6)
    values = log_likelihood(theta)
    evaluations = tuple(
        Evaluation(i, row, 1, "peur", 0.0, Status.OK, float(v), "", 0.0, None)
        for i, (row, v) in enumerate(zip(theta, values, strict=True))
    )
    return replace(engine.init(prior, settings, 0), evaluations=evaluations, next_id=len(evaluations))


def _fit(state: engine.State, n: int, memory: training.Memory) -> tuple[Surrogate[Any], training.Memory]:
    runs = training.Runs(state.evaluations[:n], state.prior, state.settings, None)
    frame = Frame.of(state.population.moved)
    return training.fit(runs, 1.0, state.settings.tuning.inflation_start, memory, frame)


# --- the paper's size ---------------------------------------------------------------------------------------


def acquire(problem: str, function: str) -> Acquisition:
    """One acquisition of the paper: every point of a pool ranked with as many nodes, after as many runs as it took."""
    row = next(r for r in paper.paper_rows() if (r.problem, r.method) == (problem, f"TBQ-{function.upper()}"))
    with single_threaded():
        target, pool, known, domain = _paper_target(problem, round(row.n_call))
        named = (function, ACQUISITIONS[function])
        seconds = []
        for _ in range(_REPEATS):
            start = time.process_time()
            search.choose(named, target, pool, known, domain, climb=False)
            seconds.append(time.process_time() - start)
    return Acquisition(problem, function, min(seconds), row.time_acq_s)


def _paper_target(name: str, runs: int) -> tuple[Target, Array, Array, search.Domain]:
    problem = problems.get(name)
    settings = resolve(2, **{**paper.printed_settings(name, "tbq"), "max_evaluations": runs, "population": _PAPER_SIZE})
    state, _ = paper.drive(problem, settings, 0)
    assert state.learned is not None
    z, surrogate, gamma = state.population.z, state.learned.surrogate, state.learned.gamma
    points, weights, log_evidence = surrogate.at(z), state.learned.weights, state.learned.log_evidence
    target = Target(surrogate, gamma, log_evidence, points, z, weights, problem.prior.log_density_working)
    known = problem.prior.to_working(np.array([e.theta for e in state.evaluations]))
    return target, z, known, search.domain_of(problem.prior)


# --- the study ----------------------------------------------------------------------------------------------


def tasks(dimensions: Sequence[int], points: Sequence[int]) -> list[tuple[int, int, int]]:
    """Sizes to measure: the table, the populations where they are varied, and the largest of all."""
    table = [(d, n, POPULATION) for d in dimensions for n in points]
    further = [*((*_CENTER, p) for p in POPULATIONS[1:]), _LARGEST]
    return table + [task for task in further if task[0] in dimensions and task[1] in points]


def study(
    wanted: Sequence[tuple[int, int, int]], folder: Path, on_progress: Callable[[int], None] = lambda done: None
) -> tuple[list[Row], list[Acquisition]]:
    """Measure what is missing, one after the other, and make the tables."""
    path = folder / "overhead_runs.csv"
    done = {(r.d, r.runs, r.population): r for r in studies.read_rows(Row, path)}
    missing = [task for task in wanted if task not in done]
    before = len(wanted) - len(missing)
    on_progress(before)
    new = studies.run_missing(measure, missing, 1, path, lambda n: on_progress(before + n))
    done |= {(r.d, r.runs, r.population): r for r in new}
    path = folder / "overhead_acquisitions.csv"
    known = {(a.problem, a.function): a for a in studies.read_rows(Acquisition, path)}
    pairs = [(p, f) for p in ("u1", "u2", "u3", "u4") for f in ENSEMBLE]
    acquired = studies.run_missing(acquire, [pair for pair in pairs if pair not in known], 1, path)
    known |= {(a.problem, a.function): a for a in acquired}
    rows, acquisitions = sorted(done.values(), key=lambda r: (r.d, r.runs, r.population)), [known[p] for p in pairs]
    outputs, resumed = output_overhead.study(folder), resuming.study(folder)
    whole = output_overhead.whole_run_rows(folder)
    (folder / "overhead.md").write_text(report(rows, acquisitions, outputs, resumed, whole))
    return [done[task] for task in wanted], acquisitions


def table_rows(rows: Sequence[Row]) -> list[list[str]]:
    return [
        [str(r.d), str(r.runs), str(r.population)]
        + [f"{getattr(r, part):.3f}" for part in PARTS]
        + [f"{r.iteration:.3f}", f"{r.peak_mb:.0f}"]
        for r in rows
    ]


def paper_table_rows(acquisitions: Sequence[Acquisition]) -> list[list[str]]:
    return [[a.problem, a.function, f"{a.seconds:.3f}", f"{a.paper:.3f}"] for a in acquisitions]


EXPONENT_COLUMNS = ("grows with", "where", *PARTS, "s per iteration")


def exponent_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Exponents p of seconds ∝ sizeᵖ, by least squares of the logarithms."""
    d, n = _CENTER
    plain = [r for r in rows if r.population == POPULATION]
    sets = [
        *(("runs", f"d = {k}, from 500 runs", [r for r in plain if r.d == k and r.runs >= 500]) for k in DIMENSIONS),
        *(("parameters", f"{k} runs", [r for r in plain if r.runs == k]) for k in POINTS),
        ("population", f"d = {d}, {n} runs", [r for r in rows if (r.d, r.runs) == _CENTER]),
    ]
    sizes = {"runs": "runs", "parameters": "d", "population": "population"}
    found = []
    for what, where, chosen in sets:
        size = np.log([getattr(r, sizes[what]) for r in chosen])
        if len(set(size)) > 1:
            times = [np.log([getattr(r, part) for r in chosen]) for part in (*PARTS, "iteration")]
            found.append([what, where, *(f"{np.polyfit(size, t, 1)[0]:.1f}" for t in times)])
    return found


def report(
    rows: Sequence[Row],
    acquisitions: Sequence[Acquisition],
    outputs: Sequence[output_overhead.Row],
    resumed: Sequence[resuming.Row],
    whole: Sequence[Sequence[str]],
) -> str:
    """The tables, with what their columns mean; ``whole`` are cells of whole runs that learned outputs."""
    import scipy

    from tbq.common.version import __version__ as version

    versions = f"tbq {version}, Python {platform.python_version()}, NumPy {np.__version__}"
    return "\n".join(
        [
            "# Our own time",
            "",
            f"Made by `tbq bench overhead` with {versions}, SciPy {scipy.__version__}, on one thread of "
            f"{platform.processor() or platform.machine()}.",
            "",
            "Seconds of processor time of each part when it is done, for runs spread as a run would have them:",
            "*conditioning* on one more run at the same hyperparameters; *fit* of the hyperparameters of the model in",
            "use; *choice*, the fit of all models from nothing; *sweep*, the search for one point; *moves* of a",
            "population to the next stage; *evidence*, with its variance and the next γ. An iteration has one",
            "conditioning, sweep and evidence, and a part of the others: fits become due after `selection.pace` runs,",
            f"choices after a fifth more runs, moves once in {_RUNS_PER_STAGE} runs. The peak is the process's.",
            "",
            *_markdown(COLUMNS, table_rows(rows)),
            "",
            "## Growth",
            "",
            "Exponents p of seconds ∝ sizeᵖ.",
            "",
            *_markdown(EXPONENT_COLUMNS, exponent_rows(rows)),
            "",
            "## Outputs",
            "",
            output_overhead.TEXT,
            "",
            *_markdown(output_overhead.COLUMNS, output_overhead.table_rows(outputs)),
            "",
            *_markdown(output_overhead.EXPONENT_COLUMNS, output_overhead.exponent_rows(outputs)),
            "",
            *_markdown(output_overhead.WHOLE_COLUMNS, whole),
            "",
            resuming.TEXT,
            "",
            *_markdown(resuming.COLUMNS, resuming.table_rows(resumed)),
            "",
            "## An acquisition at the paper's size",
            "",
            f"A pool of {_PAPER_SIZE} points ranked with {_PAPER_SIZE} nodes after as many runs as the paper's, at its",
            f"kernels: the fastest of {_REPEATS}. The paper's seconds are of its tables (a laptop). By default 1,000",
            "points are ranked with 300 nodes.",
            "",
            *_markdown(PAPER_COLUMNS, paper_table_rows(acquisitions)),
            "",
        ]
    )


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns), *(f"| {' | '.join(row)} |" for row in rows)]
