"""Long sessions: what a step leaves behind is bounded, and its time is what the benchmark of our own time says."""

import gc
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.bench import overhead

BENCHMARK = Path(__file__).parents[2] / "benchmarks/long_session.py"


@pytest.mark.parametrize("outputs", [False, True])
def test_no_step_leaves_arrays_to_the_garbage_collector(outputs):
    """It counts objects, not bytes: cycles that hold projections of all points come to gigabytes before it looks."""
    prior = tbq.Prior({f"x{i}": stats.norm() for i in range(4)})
    likelihood = tbq.GaussianLikelihood(lambda theta: theta + 0.1 * theta**2, np.full(4, 0.3), 0.5) if outputs else None
    session = tbq.Session(prior, seed=0, tolerance=1e-9, max_evaluations=60, population=128, likelihood=likelihood)
    gc.collect()
    gc.disable()
    try:
        while len(session.evaluations) < 26:
            (p,) = session.ask()
            value = float(overhead.log_likelihood(p.theta[None, :])[0])
            told = likelihood.evaluate(p.theta) if outputs else (value, None)
            session.tell(p.id, log_likelihood=told[0], outputs=told[1])
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        ours = [o for o in gc.garbage if isinstance(o, np.ndarray) or type(o).__module__.startswith("tbq.")]
        found = {type(o).__qualname__ for o in ours}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert found == set()


def test_the_benchmark_of_long_sessions_measures(tmp_path):
    long_session = runpy.run_path(str(BENCHMARK))
    rows = list(long_session["rows"](30, 2, str(tmp_path), every=10))
    assert [row.steps for row in rows] == [10, 20, 30]
    assert all(0.0 < row.mean <= row.longest < 5.0 for row in rows)
    assert rows[-1].memory - rows[0].memory < 100.0
    assert rows[0].journal < rows[-1].journal < 0.1
    expected = long_session["expected"]
    measured = {(r.d, r.runs): r.iteration for r in long_session["measured"]()}
    assert expected(10, 500) == pytest.approx(measured[10, 500])
    assert measured[10, 500] < expected(10, 700) < measured[10, 1000] < measured[10, 2000] < expected(10, 3000)
    assert np.isnan(expected(3, 500))
