"""The part of `tbq bench overhead` where outputs are learned: seconds of each part, how they grow, and memory."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from tbq import engine
from tbq.bench import scale, studies
from tbq.bench.scale_models import CASES
from tbq.common.threads import single_threaded
from tbq.engine import conclusion, learn, propose
from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.settings import resolve
from tbq.surrogate.outputs import Outputs

SIZES = [
    ("chain6", 30),
    ("chain10", 30),
    ("chain10", 60),
    ("chain10", 120),
    ("chain15", 60),
    ("chain20", 60),
    ("field", 30),
]
_SPREAD = 2.0  # posterior standard deviations within which most runs are
PARTS = ("anew", "update", "search", "assessment")
COLUMNS = ("case", "parameters", "outputs", "components", "runs", *PARTS, "peak MB")
WHOLE_COLUMNS = ("case", "parameters", "outputs", "s before", "s now", "calls before", "calls now")
EXPONENT_COLUMNS = ("grows with", "where", *PARTS)

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """Seconds of processor time of each part, at one size."""

    case: str
    d: int
    outputs: int
    components: int
    runs: int
    anew: float  # hyperparameters and stages from nothing
    update: float  # one more run, from the last hyperparameters and populations
    search: float  # for one point
    assessment: float  # of the evidence, before the end
    peak_mb: float


def measure(case: str, runs: int) -> Row:
    """One row, in a process of its own, so that its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, case, runs).result()


def _measure(case: str, runs: int) -> Row:
    with single_threaded():
        state, last = _state_before(case, runs)
        timed: dict[str, float] = {}
        state = _timed(timed, "anew", partial(learn._climbed, state, anew=True))
        state = engine.collect(state, [last])
        state = _timed(timed, "update", partial(learn._climbed, state, anew=False))
        assert state.learned is not None
        assert state.likelihood is not None
        _timed(timed, "search", partial(propose.chosen_points, state, state.learned, 1))
        _timed(timed, "assessment", partial(conclusion.assess_evidence, state))
    surrogate = state.learned.surrogate
    assert isinstance(surrogate, Outputs)
    return Row(
        case=case,
        d=state.prior.dim,
        outputs=len(state.likelihood.observed),
        components=len(surrogate.components),
        runs=runs,
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        **timed,
    )


def _state_before(name: str, runs: int) -> tuple[engine.State, Evaluation]:
    """A state that knows so many runs, some of the prior and most about the posterior, and one more run."""
    case, known = CASES[name](), scale.references()[name]
    settings, rng = resolve(case.d, outputs=True, max_evaluations=10 * runs), np.random.default_rng(0)
    about = np.array(known.mean) + _SPREAD * np.array(known.sd) * rng.standard_normal((runs + 1, case.d))
    theta = np.where(rng.random((runs + 1, 1)) < 0.3, case.prior.sample(runs + 1, rng), about)
    evaluations = []
    for i, row in enumerate(theta):
        value, outputs = case.likelihood.evaluate(row)
        evaluations.append(Evaluation(i, row, 1, "peur", 0.0, Status.OK, float(value), "", 0.0, outputs))
    state = replace(engine.init(case.prior, settings, 0, case.likelihood), next_id=runs + 1)
    return engine.collect(state, evaluations[:-1]), evaluations[-1]


def _timed(into: dict[str, float], name: str, work: Callable[[], T]) -> T:
    start = time.process_time()
    result = work()
    into[name] = time.process_time() - start
    return result


def study(folder: Path, sizes: Sequence[tuple[str, int]] = SIZES) -> list[Row]:
    """Measure what is missing, one after the other."""
    path = folder / "overhead_outputs.csv"
    done = {(r.case, r.runs): r for r in studies.read_rows(Row, path)}
    new = studies.run_missing(measure, [size for size in sizes if size not in done], 1, path)
    done |= {(r.case, r.runs): r for r in new}
    return [done[size] for size in sizes]


def table_rows(rows: Sequence[Row]) -> list[list[str]]:
    return [
        [r.case, str(r.d), str(r.outputs), str(r.components), str(r.runs)]
        + [f"{getattr(r, part):.2f}" for part in PARTS]
        + [f"{r.peak_mb:.0f}"]
        for r in rows
    ]


def whole_run_rows(folder: Path) -> list[list[str]]:
    """Own seconds and calls of whole runs before processes were one object and now, of the cases that have both."""
    now, before = (studies.read_rows(scale.Row, folder / f"scale_{name}.csv") for name in ("runs", "before"))
    found = []
    for case in scale.NAMES:
        both = [[r for r in rows if r.case == case] for rows in (before, now)]
        if all(both):
            first = both[1][0]
            seconds = [f"{np.median([r.seconds for r in rows]):.1f}" for rows in both]
            calls = [f"{np.mean([r.calls for r in rows]):.1f}" for rows in both]
            found.append([case, str(first.parameters), str(first.outputs), *seconds, *calls])
    return found


def exponent_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Exponents p of seconds ∝ sizeᵖ, by least squares of the logarithms."""
    sets = [
        ("runs", "chain10", "runs", [r for r in rows if r.case == "chain10"]),
        ("components", "chains after 30 runs", "components", [r for r in rows if r.case != "field" and r.runs == 30]),
    ]
    found = []
    for what, where, field, chosen in sets:
        size = np.log([getattr(r, field) for r in chosen])
        if len(set(size)) > 1:
            slopes = [np.polyfit(size, np.log([getattr(r, part) for r in chosen]), 1)[0] for part in PARTS]
            found.append([what, where, *(f"{slope:.1f}" for slope in slopes)])
    return found


TEXT = """Seconds of processor time where outputs are learned, after runs of which a third is of the prior and the rest
about the posterior: *anew*, hyperparameters and all stages from nothing, which is done every eighth run and before the
end; *update*, one more run from the last hyperparameters and populations; *search* for one point; *assessment* of the
evidence before the end. Whole runs, of the engine before processes were one object and of this one, are own
seconds (median) and calls (mean) of [scale](scale.md)."""
