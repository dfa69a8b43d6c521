"""Threads of our own: the same numbers from one and from many."""

import threading

import numpy as np
import pytest

from tbq import gp as gps
from tbq import threads
from tbq.kernels import SE


def test_results_come_in_order_and_from_several_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    together = threading.Barrier(3, timeout=10)

    def square(i):
        together.wait()
        return i**2

    assert threads.on_all_cores(square, [1, 2, 3]) == [1, 4, 9]


def test_one_core_means_no_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    me = threading.get_ident()
    assert threads.on_all_cores(lambda _: threading.get_ident(), [1, 2]) == [me, me]


def test_an_error_in_a_thread_is_the_callers(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with pytest.raises(ZeroDivisionError):
        threads.on_all_cores(lambda i: 1 // i, [1, 0])


@pytest.mark.parametrize("said", ["", "many", "0"])
def test_without_a_number_it_is_what_the_process_may_use(monkeypatch, said):
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert threads.cores() >= 1


def test_many_points_are_projected_alike_by_one_thread_and_by_two(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 3))
    process = gps.build(x, -np.sum(x**2, axis=1), 1e-6, SE, "constant", np.log([1.0, 1.0, 1.0, 1.0]))
    z = rng.uniform(-1, 1, (50_000, 3))
    moments = {}
    for n in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", n)
        with threads.single_threaded():
            moments[n] = process.predict(z)
    assert np.array_equal(moments["1"], moments["2"])
    assert np.allclose(moments["1"][0][:500], process.predict(z[:500])[0])
