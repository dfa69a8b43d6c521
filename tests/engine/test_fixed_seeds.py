"""Moves change nothing: whole runs at fixed seeds give the numbers that are stored beside this file.

A change that is meant to leave results alone must leave these numbers alone. One that is meant to change them stores
them anew, in the same commit: ``python tests/engine/test_fixed_seeds.py``. On processors whose linear algebra rounds
otherwise a run soon goes another way: there the numbers say nothing, and the test says so.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl
from scipy import stats

import tbq

STORED = Path(__file__).parents[1] / "assets" / "fixed_seeds.json"
BOX2 = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.norm(0, 1)})
BOX3 = tbq.Prior({n: stats.uniform(-2, 4) for n in "abc"})


def banana(theta):
    return float(-2.0 * (theta[0] - 0.4) ** 2 - 8.0 * (theta[1] - theta[0] ** 2) ** 2)


def moody(theta):
    """Zero likelihood in a corner, failures in another."""
    if theta[0] > 1.2:
        return -np.inf
    if theta[1] < -1.2:
        raise ValueError("no mesh")
    return banana(theta)


def sharp(theta):
    return float(-0.5 * np.sum((theta / 0.3) ** 2))


def decay(theta):
    return np.exp(-np.exp(0.3 * theta[0]) * np.arange(1.0, 6.0)) * (1.0 + 0.2 * theta[1])


def outputs():
    return tbq.GaussianLikelihood(decay, decay(np.array([0.3, 0.5])), 0.02)


SMALL = {"population": 512, "chain_length": 8, "progress": False}
RUNS = {
    "stages": lambda: tbq.infer(banana, BOX2, seed=1, max_evaluations=34, **SMALL),
    "one stage": lambda: tbq.infer(banana, BOX2, seed=2, algorithm="bq", max_evaluations=20, **SMALL),
    "checks": lambda: tbq.infer(sharp, BOX3, seed=3, max_evaluations=40, **SMALL),
    "ensemble": lambda: tbq.infer(sharp, BOX3, seed=4, acquisition="ensemble", max_evaluations=28, **SMALL),
    "failures": lambda: tbq.infer(moody, BOX2, seed=5, max_evaluations=26, **SMALL),
    "outputs": lambda: tbq.infer(outputs(), BOX2, seed=6, max_evaluations=24, **SMALL),
    "batches": lambda: tbq.infer(banana, BOX2, seed=7, batch_size=3, max_evaluations=24, **SMALL),
}


def numbers(result):
    """What a run found, and where it went."""
    theta = np.array([e.theta for e in result.evaluations])
    return {
        "runs": result.n_evaluations,
        "stop": result.stop.name,
        "log_evidence": result.log_evidence,
        "log_evidence_sd": result.log_evidence_sd,
        "last_theta": [float(v) for v in theta[-1]],
        "mean_theta": [float(v) for v in theta.mean(axis=0)],
        "mean_sample": [float(v) for v in result.samples.mean(axis=0)],
        "gammas": [s.gamma for s in result.stages],
    }


def rounding():
    """What decides the last digits: the kernels of linear algebra, and the processor's instructions."""
    features = np._core._multiarray_umath.__cpu_features__
    blas = [p for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"]
    libraries = {f"{p['internal_api']} {p['version']} {p.get('architecture')}" for p in blas}
    return {"libraries": sorted(libraries), "instructions": sorted(k for k, there in features.items() if there)}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_at_a_fixed_seed_is_the_stored_one(name):
    everything = json.loads(STORED.read_text())
    if everything["rounding"] != rounding():
        pytest.skip("the numbers were stored on a processor that rounds otherwise")
    stored, found = everything[name], numbers(RUNS[name]())
    assert (found["runs"], found["stop"]) == (stored["runs"], stored["stop"])
    for key in ("log_evidence", "log_evidence_sd", "last_theta", "mean_theta", "mean_sample", "gammas"):
        assert found[key] == pytest.approx(stored[key], rel=1e-6, abs=1e-6), key


if __name__ == "__main__":
    runs = {name: numbers(run()) for name, run in RUNS.items()}
    STORED.write_text(json.dumps({"rounding": rounding()} | runs, indent=1) + "\n")
