"""Linear algebra has one thread while we compute, and what the user set while the simulator runs."""

import numpy as np
from scipy import stats
from threadpoolctl import threadpool_info, threadpool_limits

import tbq
from tbq import engine


def threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_we_take_one_thread_and_the_simulator_has_the_users(monkeypatch):
    ours, simulators, tell = [], [], engine.tell
    monkeypatch.setattr(engine, "tell", lambda *given: (ours.append(threads()), tell(*given))[1])

    def log_likelihood(theta):
        simulators.append(threads())
        return -float(np.sum(theta**2))

    prior = tbq.Prior({name: stats.norm() for name in "ab"})
    with threadpool_limits(2, user_api="blas"):
        tbq.infer(log_likelihood, prior, seed=0, max_evaluations=13, progress=False)
        assert threads() == {2}
    assert ours == [{1}] * len(ours) != []
    assert simulators == [{2}] * 13
