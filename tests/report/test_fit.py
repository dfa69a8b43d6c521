"""Pictures of the fit, of what matters and of several models: what they show is read back from their axes."""

from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.report import comparison, fit, influence, style
from tbq.result import emulate
from tbq.result.sensitivity import Indices

matplotlib.use("Agg")
TIMES = np.linspace(0, 2, 30)
PRIOR = tbq.Prior({"a": stats.uniform(0.5, 2), "b": stats.uniform(0, 2)})


@pytest.fixture(autouse=True)
def _closed():
    yield
    style.pyplot().close("all")


@pytest.fixture
def axes():
    return style.pyplot().figure().gca()


def made_up(m, coordinates=None, names=None):
    """A fit of which everything is known."""
    rng = np.random.default_rng(0)
    likelihood = tbq.GaussianLikelihood(
        lambda theta: theta, np.arange(m) / 10.0, 0.2, units="mm", coordinates=coordinates, names=names
    )
    outputs = likelihood.observed + 0.1 + 0.2 * rng.standard_normal((4000, m))
    return emulate.Fit(likelihood, np.full(m, 0.2), outputs, outputs + 0.2 * rng.standard_normal((4000, m)), "nobody")


def test_intervals_are_in_units_of_the_noise(axes):
    known = made_up(3, names=("u", "v", "w"))
    fit.intervals(known, np.arange(3), known, axes)
    thin, thick, orange = (c.get_segments() for c in axes.collections)
    for segments, sd in ((thin, np.sqrt(2)), (thick, 1.0), (orange, 1.0)):
        ends = np.array(segments)[:, :, 0]
        np.testing.assert_allclose(ends, [[0.5 - 1.645 * sd, 0.5 + 1.645 * sd]] * 3, atol=0.15)
    assert [t.get_text() for t in axes.get_yticklabels()] == ["u [mm]", "v [mm]", "w [mm]"]
    np.testing.assert_allclose(known.residuals, -0.5, atol=0.05)
    assert axes.get_xlabel() == "(predicted − observed) / noise sd"


def test_histories_are_bands_over_their_coordinate():
    known = made_up(30, coordinates={"time [s]": TIMES[::-1]})
    figure = fit.curves(known, np.arange(30))
    upper, lower = figure.axes
    dots = upper.lines[-1]
    np.testing.assert_allclose(dots.get_xdata(), TIMES)  # in the order of time
    np.testing.assert_allclose(dots.get_ydata(), known.likelihood.observed[::-1])
    band = upper.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(
        known.likelihood.observed.max() + 0.1 + 1.645 * np.hypot(0.2, 0.2), abs=0.05
    )
    assert (upper.get_ylabel(), lower.get_xlabel()) == ("output [mm]", "time [s]")
    np.testing.assert_allclose(lower.lines[-1].get_ydata(), known.residuals[::-1])


def test_every_experiment_has_a_picture_of_its_own_kind():
    few, many = made_up(3), made_up(30)
    both = few.likelihood + many.likelihood
    joint = emulate.Fit(
        both, np.full(33, 0.2), np.hstack([few.outputs, many.outputs]), np.hstack([few.draws, many.draws]), "nobody"
    )
    captions = [caption for caption, _ in fit.figures(joint)]
    assert "of experiment 1, in units of the noise" in captions[0]
    assert captions[1].startswith("Data of experiment 2 and posterior predictive")


def test_sobol_indices_are_drawn_with_their_intervals(axes):
    first, total = np.array([[0.2, 0.5], [np.nan, 0.1]]), np.array([[0.3, 0.6], [np.nan, 0.2]])
    spread = lambda x: np.array([x - 0.05, x + 0.05])
    indices = Indices("prior", ("f", "log-likelihood"), ("a", "b"), first, spread(first), total, spread(total))
    influence.sobol(indices, [1, 0], [0, 1], axes)
    dots = sorted(float(line.get_xdata()[0]) for line in axes.lines if len(line.get_xdata()))
    np.testing.assert_allclose(dots, [0.1, 0.2, 0.2, 0.3, 0.5, 0.6])
    widths = [np.ptp(c.get_segments()[0][:, 0]) for c in axes.collections]
    np.testing.assert_allclose(widths, 0.1)
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b", "a", "b"]
    assert {t.get_text() for t in axes.texts} == {"f", "log-likelihood"}


def test_of_many_parameters_those_with_the_largest_indices_are_drawn(axes):
    total = np.zeros((2, 12))
    total[0, [1, 4, 5]], total[1, [7, 8, 9, 10]] = 0.5, 0.3
    spread = np.array([total, total])
    indices = Indices("prior", ("f", "log-likelihood"), tuple("abcdefghijkl"), total, spread, total, spread)
    found = SimpleNamespace(prior=indices, posterior=indices)
    rows = influence._largest(found)
    assert len(rows) == 8
    assert {1, 4, 5, 7, 8, 9, 10} <= set(rows)
    influence.sobol(indices, [0], rows, axes)
    assert [t.get_text() for t in axes.get_yticklabels()] == [indices.parameters[i] for i in rows]


def test_outputs_in_tables_say_where_they_were_measured():
    known = made_up(3, coordinates={"time [s]": [0.0, 0.5, 1.0]})
    assert fit.where_and_what(known.likelihood)[1] == "y2 [mm] at time [s] = 0.5"
    assert fit.where_and_what(made_up(2).likelihood) == ["y1 [mm]", "y2 [mm]"]


def test_correlations_are_a_triangle_of_numbers(axes):
    matrix = np.array([[1.0, -0.9, 0.1], [-0.9, 1.0, 0.2], [0.1, 0.2, 1.0]])
    result = SimpleNamespace(prior=tbq.Prior({n: stats.norm() for n in "abc"}))
    influence.correlations(result, matrix, axes)
    assert [t.get_text() for t in axes.texts] == ["−0.90", "0.10", "0.20"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["a", "b"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["b", "c"]


# --- several models -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared():
    models = {
        "linear": (lambda t: t[0] * TIMES[::10], tbq.Prior({"slope": stats.uniform(0, 3)})),
        "bent": (
            lambda t: t[0] * TIMES[::10] + t[1] * TIMES[::10] ** 2,
            tbq.Prior({"slope": stats.uniform(0, 3), "bend": stats.uniform(-1, 2)}),
        ),
    }
    observed = 1.3 * TIMES[::10]
    return tbq.compare(
        {
            name: tbq.infer(
                tbq.GaussianLikelihood(model, observed, 0.1, names=("p", "q", "r")), prior, seed=0, population=512
            )
            for name, (model, prior) in models.items()
        }
    )


def test_a_comparison_is_one_page(compared, tmp_path):
    compared.report(tmp_path / "c.html", title="Which?")
    text = (tmp_path / "c.html").read_text(encoding="utf-8")
    for words in (
        compared.verdict(*compared.names),
        "log B of the best",
        "Model-averaged prediction",
        "Parameters that models share",
        "Posterior of slope in each model that has it",
        "Can they be trusted?",
    ):
        assert words in text
    assert "bend in each model" not in text
    assert text.count('role="img"') == 4


def test_models_stand_side_by_side_and_over_each_other(compared, axes):
    fits = {name: emulate.fit(r) for name, r in compared.results.items()}
    comparison.side_by_side(fits, axes)
    assert [t.get_text() for t in axes.get_legend().get_texts()] == list(compared.names)
    medians = axes.lines[1].get_xdata()
    expected = (np.median(fits[compared.names[0]].outputs, axis=0) - fits[compared.names[0]].likelihood.observed) / 0.1
    np.testing.assert_allclose(medians, expected)
    other = comparison.overlaid(compared.results, "slope", style.pyplot().figure().gca())
    for line, (_, r) in zip(other.lines, compared.results.items(), strict=True):
        x, y = line.get_data()
        assert np.trapezoid(y, x) == pytest.approx(1.0, abs=0.02)
        assert np.trapezoid(x * y, x) == pytest.approx(r.samples[:, 0].mean(), abs=0.02)


def test_models_without_outputs_are_compared_by_their_evidence(tmp_path):
    results = {
        f"w{k}": tbq.infer(lambda t, k=k: -k * float(t @ t), PRIOR, seed=0, population=256, max_evaluations=14)
        for k in (1, 2)
    }
    tbq.compare(results).report(tmp_path / "c.html")
    text = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert "Without outputs, which only a tbq.GaussianLikelihood has: w1, w2." in text
    assert "Model-averaged prediction" not in text
