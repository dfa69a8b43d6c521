"""In Python and notebooks: short reprs, tables of HTML, a frame of runs, and both names of randomness."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.problem.evaluation import Status

PRIOR = tbq.Prior({"a<b>": stats.uniform(-2, 4), "stage": stats.norm(0, 1)}, units={"stage": "m"})


def log_likelihood(theta):
    if theta[0] > 1.9:
        raise ValueError("mesh tangled")
    return -0.5 * float(np.sum(((theta - [0.3, -0.2]) / [0.3, 0.4]) ** 2))


@pytest.fixture(scope="module")
def result():
    return tbq.infer(log_likelihood, PRIOR, seed=0, population=256, max_evaluations=20)


def test_reprs_fit_on_a_few_lines(result):
    wide = tbq.Prior({f"parameter_{i}": stats.norm(i, 1) for i in range(40)})
    likelihood = tbq.GaussianLikelihood(lambda t: t, [0.3, -0.2], 0.1)
    objects = [
        result,
        tbq.compare({"one": result, "two": result}),
        result.verify(4, log_likelihood, seed=0),
        result.predict(lambda t: t, 4, seed=0),
        PRIOR,
        wide,
        likelihood,
        tbq.Session(PRIOR),
        result.surrogate,
        tbq.infer(likelihood, PRIOR, seed=0, population=256, max_evaluations=12).surrogate,
        tbq.check(log_likelihood, PRIOR),
        tbq.integrate(lambda t: float(t[0]), tbq.Prior({"x": stats.norm()}), seed=0),
        tbq.tmcmc(log_likelihood, PRIOR, population=64, seed=0),
        result.modes,
        (sensitivity := result.sensitivity()),
        sensitivity.prior,
        sensitivity.directions,
        result.evaluations[0],
        replace(result.evaluations[0], outputs=np.zeros(500)),
        replace(result.evaluations[0], status=Status.FAILED, message="mesh tangled\n" + "iteration\n" * 99),
        result.stages[0],
        result.errors,
        tbq.problems.get("ten"),
    ]
    for thing in objects:
        assert len(repr(thing)) < 400, repr(thing)
        assert "array(" not in repr(thing)
    assert repr(result).startswith(f"<Result: log evidence {result.log_evidence:.4g} ± ")
    assert repr(wide).endswith("… 32 more)")
    largest = int(np.argmax(sensitivity.prior.total[-1]))
    value = f"{PRIOR.names[largest]} {sensitivity.prior.total[-1, largest]:.2f} ("
    assert f"total of the log-likelihood: {value}" in repr(sensitivity)
    run = result.evaluations[3]
    assert repr(run).startswith("<Evaluation 3: ok at (")
    assert f"log-likelihood {run.log_likelihood:.6g}" in repr(run)


def test_results_comparisons_and_priors_are_tables_in_a_notebook(result):
    for thing in (result, tbq.compare({"<one>": result, "two": result}), PRIOR):
        text = thing._repr_html_()
        assert text.count("<table>") == text.count("</table>") == 1
        assert "<script" not in text
        assert "<b>" not in text  # names are text
    assert "stage [m]" in result._repr_html_()
    assert "&lt;one&gt;" in tbq.compare({"<one>": result, "two": result})._repr_html_()
    nothing = replace(result, surrogate=None, stop=tbq.Stop.NOTHING_LEARNED)
    assert "Too few evaluations succeeded" in nothing._repr_html_()


def test_runs_are_a_frame_with_a_column_per_parameter(result, monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = result.evaluations_frame()
    assert isinstance(frame, pandas.DataFrame)
    first = ["run", "stage", "origin", "status", "log_likelihood", "seconds", "message"]
    assert list(frame.columns) == [*first, "a<b>", "stage_"]
    np.testing.assert_array_equal(frame[["a<b>", "stage_"]].to_numpy(), [e.theta for e in result.evaluations])
    assert (frame.status == "failed").sum() == sum(e.status.is_failure for e in result.evaluations)
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    assert result.evaluations_frame() == result.evaluations_table()


def test_rng_is_another_name_of_the_seed(result):
    np.testing.assert_array_equal(PRIOR.sample(3, rng=4), PRIOR.sample(3, seed=4))
    np.testing.assert_array_equal(PRIOR.sample(3, rng=np.random.default_rng(4)), PRIOR.sample(3, 4))
    np.testing.assert_array_equal(result.sample(3, rng=4), result.sample(3, seed=4))
    same = [result.predict(lambda t: t, 3, **{name: 5}).theta for name in ("rng", "seed")]
    np.testing.assert_array_equal(*same)
    small = {"population": 256, "max_evaluations": 13}
    runs = [tbq.infer(log_likelihood, PRIOR, **given, **small) for given in ({"seed": 7}, {"rng": 7})]
    assert runs[0].log_evidence == runs[1].log_evidence
    drawn = [tbq.Session(PRIOR, rng=np.random.default_rng(3)).ask()[0].theta for _ in range(2)]
    np.testing.assert_array_equal(*drawn)
    with pytest.raises(tbq.TbqError, match=r"Prior\.sample: give one of seed and rng; got both"):
        PRIOR.sample(3, seed=1, rng=1)
    for rng in (1, np.random.default_rng(1)):
        with pytest.raises(tbq.TbqError, match="give one of seed and rng; got both"):
            tbq.infer(log_likelihood, PRIOR, seed=1, rng=rng, **small)
    assert tbq.infer(log_likelihood, PRIOR, rng=np.int64(7), **small).seed == 7
    with pytest.raises(tbq.TbqError, match="rng must be a whole number of at least 0"):
        PRIOR.sample(3, rng="x")
    with pytest.raises(tbq.TbqError, match="give one of seed and rng"):
        tbq.infer(log_likelihood, PRIOR, seed=1, rng=np.random.default_rng(0), **small)


def test_pictures_make_their_own_axes_and_a_notebook_shows_them_once(result, monkeypatch):
    plots = pytest.importorskip("matplotlib") and tbq.plots
    plt = plots.pyplot()
    plt.switch_backend("Agg")
    plt.close("all")
    for draw in (plots.convergence, plots.gamma_schedule, plots.posterior_density, plots.acquisition):
        axes = draw(result)
        assert axes.figure.number in plt.get_fignums()
        assert draw(result, axes) is axes
    plt.close("all")
    assert len(plots.pairs(result).axes) > 2
    assert len(plt.get_fignums()) == 1  # in a script, to be shown by pyplot
    plt.close("all")
    monkeypatch.setattr("tbq.report.axes.in_notebook", lambda: True)
    assert len(plots.pairs(result).axes) > 2
    assert plt.get_fignums() == []
