"""The comparison with other methods: counting, the time limit, resuming, and the page; no peer is installed here."""

import contextlib
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tbq
from tbq.bench.studies import read_rows

EXACT = tbq.problems.get("u1").reference.log_evidence


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks" / "peers"))
    import methods
    import study
    import tables

    yield study, methods, tables
    for name in ("study", "methods", "tables"):
        del sys.modules[name]


@pytest.mark.parametrize("name", ["u1", "dof2"])
def test_a_target_counts_calls_and_maps_the_cube_as_the_prior_does(peers, name):
    _, methods, _ = peers
    problem = tbq.problems.get(name)
    target = methods.Target(problem)
    u = np.linspace(0.1, 0.9, target.dim)
    theta = target.from_cube(u)
    np.testing.assert_allclose(theta, problem.prior.from_uniform(u[None])[0], rtol=1e-12)
    assert target.log_likelihood(theta) == pytest.approx(float(problem.log_likelihood(theta)))
    assert target.calls == 1
    assert target.from_normal(np.zeros(target.dim)) == pytest.approx([m.median() for m in target.marginals])


def test_a_run_that_takes_too_long_is_ended_with_what_it_had(peers, monkeypatch):
    _, methods, _ = peers

    def endless(target, seed):
        target.log_likelihood(np.zeros(2))
        while True:
            with contextlib.suppress(Exception):  # as a method might
                time.process_time()

    monkeypatch.setitem(methods.METHODS, "tbq", ("tbq", "tbq", endless))
    monkeypatch.setattr(methods, "CPU_LIMIT", 0.1)
    row = methods.run("tbq", "u1", 0)
    assert (row["ended"], row["calls"], row["converged"]) == ("out of time", 1, False)
    assert np.isnan(row["log_evidence"])
    assert 0.05 < row["cpu_seconds"] < 5.0


def rows(tables, peer, errors, calls, seconds, sd=0.1, problem="u1"):
    exact = tbq.problems.get(problem).reference.log_evidence
    return [tables.Run(peer, problem, i, calls, exact + e, sd, True, seconds, "itself", "1") for i, e in errors.items()]


def test_the_page_says_where_tbq_is_not_better_on_the_seeds_that_both_have(peers):
    _, _, tables = peers
    runs = rows(tables, "tbq", {0: 0.02, 1: -0.04, 2: 0.9}, 40, 3.0)
    runs += rows(tables, "emukit", {0: 0.01, 1: 0.01}, 100, 2.0, sd=np.nan)
    runs += rows(tables, "pyvbmc", {0: 0.45, 3: 9.0}, 80, 14.0)
    page = tables.page(runs)
    error = "error (mean 0.030 against 0.010, median 0.030 against 0.010)"
    assert f"- `u1`: tbq is not better in {error}, CPU time (3.0 s against 2.0 s)." in page
    assert (
        "**PyVBMC**, on 1 problems, of which both solve 1: of these tbq needs fewer calls on 1, has the smaller" in page
    )
    assert "| tbq | 3 of 3 | 40 | 0.040 | 0.320 | 5.2 | 3.0 | 3 |" in page  # √((0.2² + 0.4² + 9²) / 3)
    assert "| emukit WSABI-L | 2 of 2 | 100 | 0.010 | 0.010 |  | 2.0 |  |" in page


def test_a_larger_median_is_no_smaller_error(peers):
    _, _, tables = peers
    runs = rows(tables, "tbq", {0: 0.02, 1: 0.02, 2: 0.01}, 40, 3.0)
    runs += rows(tables, "pyvbmc", {0: 0.01, 1: 0.01, 2: 0.09}, 80, 14.0)
    assert "not better in error (mean 0.017 against 0.037, median 0.020 against 0.010)." in tables.page(runs)


def test_fewer_calls_of_a_peer_are_said_with_both_errors_and_equality_is_not_better(peers):
    _, _, tables = peers
    runs = rows(tables, "tbq", {0: 0.02}, 40, 3.0) + rows(tables, "gpry", {0: 0.3}, 40, 9.0)
    assert "- `u1`: tbq is not better in calls (40 against 40); errors 0.020 and 0.300." in tables.page(runs)


def test_runs_that_did_not_end_are_counted_but_not_averaged(peers):
    _, _, tables = peers
    late = tables.Run("gpry", "u1", 0, 70, np.nan, np.nan, False, 600.0, "out of time", "4.1")
    broken = tables.failed("nautilus", "u1", 0, "ValueError: a|b")
    page = tables.page([*rows(tables, "tbq", {0: 0.02}, 40, 3.0), late, broken])
    assert "| GPry | 0 of 1: out of time after 70 calls |" in page
    assert "| nautilus | 0 of 1: ValueError: a/b |" in page
    assert "- Not run: `u2`, `u3`, `u4`, `dof2`, `dof3`, `mixture4`, `banana6`, `correlated8`, `ten`.\n" in page
    assert page.count("- Not solved by GPry: `u1`.") == page.count("- Not solved by nautilus: `u1`.") == 1


def test_only_problems_that_both_solve_are_compared(peers):
    _, _, tables = peers
    runs = [*rows(tables, "tbq", {0: 0.6}, 40, 3.0), *rows(tables, "emukit", {0: -np.inf}, 9, 1.0)]
    page = tables.page([*runs, *rows(tables, "gpry", {0: 0.1}, 9, 1.0)])
    assert page.count("- Not solved by tbq: `u1`.") == 2
    assert page.count("- Not solved by emukit WSABI-L: `u1`.") == 1
    assert "not better" not in page


def test_only_gaussian_likelihoods_have_outputs_to_learn(peers):
    _, _, tables = peers
    assert tables.tasks(["tbq", "tbq-outputs"], ["u1", "dof2"], 2) == [
        *[("tbq", "u1", 0), ("tbq", "dof2", 0), ("tbq-outputs", "dof2", 0)],
        *[("tbq", "u1", 1), ("tbq", "dof2", 1), ("tbq-outputs", "dof2", 1)],
    ]
    gaussian = [p for p in tables.PROBLEMS if isinstance(tbq.problems.get(p).log_likelihood, tbq.GaussianLikelihood)]
    assert tuple(gaussian) == tables.GAUSSIAN


def test_a_study_goes_on_and_makes_again_only_what_is_asked_for(peers, monkeypatch, tmp_path):
    study, _, tables = peers
    made = []

    def run(peer, problem, seed):
        made.append((peer, seed))
        return tables.Run(peer, problem, seed, len(made), EXACT, 0.1, True, 1.0, "itself", "1")

    monkeypatch.setattr(study, "run", run)
    monkeypatch.setattr(study, "RUNS", tmp_path / "peers_runs.csv")

    def ask(*arguments):
        made.clear()
        monkeypatch.setattr(sys, "argv", ["study.py", "--problem", "u1", *arguments])
        study.main()
        return list(made)

    assert ask("--peer", "tbq", "gpry", "--seeds", "1") == [("tbq", 0), ("gpry", 0)]
    assert ask("--peer", "tbq", "gpry", "--seeds", "2") == [("tbq", 1), ("gpry", 1)]
    assert ask("--peer", "tbq", "--seeds", "2", "--again") == [("tbq", 0), ("tbq", 1)]
    assert ask("--table") == []
    kept = read_rows(tables.Run, tmp_path / "peers_runs.csv")
    assert sorted((r.peer, r.seed, r.calls) for r in kept) == [
        ("gpry", 0, 2),
        ("gpry", 1, 2),
        ("tbq", 0, 1),
        ("tbq", 1, 2),
    ]
    assert "| GPry | 2 of 2 |" in (tmp_path / "peers.md").read_text()


def test_a_peer_that_breaks_is_a_row_with_the_last_line_of_its_error(peers, monkeypatch, tmp_path):
    study, _, _ = peers
    monkeypatch.setattr(study, "interpreter", lambda peer: sys.executable)
    row = study.run("pyvbmc", "u1", 0)
    assert row.ended == "ModuleNotFoundError: No module named 'pyvbmc'"
    assert row.calls == 0


def test_a_method_that_fails_is_a_row_with_what_it_had(peers, monkeypatch):
    _, methods, _ = peers

    def broken(target, seed):
        target.log_likelihood(np.zeros(2))
        raise np.linalg.LinAlgError("singular\nmatrix")

    monkeypatch.setitem(methods.METHODS, "tbq", ("tbq", "tbq", broken))
    row = methods.run("tbq", "u1", 0)
    assert (row["ended"], row["calls"]) == ("LinAlgError: singular", 1)


def test_every_peer_is_pinned_without_a_host(peers):
    study, methods, tables = peers
    assert set(methods.METHODS) == set(tables.PEERS)
    for peer in (*tables.SURROGATES, *tables.SAMPLERS):
        lines = (study.HERE / "requirements" / f"{peer}.txt").read_text().split()
        assert all(line.count("==") == 1 and "/" not in line for line in lines)
        assert any(line.lower().startswith(methods.METHODS[peer][0].lower() + "==") for line in lines)
