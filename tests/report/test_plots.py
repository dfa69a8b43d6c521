"""Pictures: what they show is read back from their axes."""

import matplotlib
import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.report import diagnostics, plots

matplotlib.use("Agg")
PRIOR = tbq.Prior({"stiffness": stats.uniform(-4, 8), "$b$ < 5$": stats.uniform(-4, 8)}, units={"stiffness": "MN/m"})


def log_likelihood(theta):
    return float(-2.0 * (theta[0] - 1) ** 2 - 8.0 * (theta[1] - 0.3 * theta[0] ** 2) ** 2)


@pytest.fixture(scope="module")
def result():
    return tbq.infer(log_likelihood, PRIOR, seed=0, population=512)


@pytest.fixture(autouse=True)
def _closed():
    yield
    plots.pyplot().close("all")


@pytest.fixture
def axes():
    return plots.pyplot().figure().gca()


def drawn(figure):
    """Draws it in full: errors in formulas and layouts show only then."""
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())


def test_units_label_the_axes_and_broken_formulas_are_shown_as_text(result):
    figure = plots.pairs(result)
    assert drawn(figure).std() > 0
    last = figure.axes[-1]
    labels = {a.get_xlabel() for a in figure.axes} | {a.get_ylabel() for a in figure.axes}
    assert {"stiffness [MN/m]", r"\$b\$ < 5\$"} <= labels
    assert last.get_xlabel() == r"\$b\$ < 5\$"


def test_pairs_show_prior_and_truth(result):
    figure = plots.pairs(result, truth={"stiffness": 1.0, "$b$ < 5$": 0.3})
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["posterior", "prior", "true value"]
    assert len(figure.axes) == 3
    diagonal, joint, _ = figure.axes
    dashed = [line for line in diagonal.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(dashed[0].get_ydata(), 1 / 8)
    area = sum(p.get_width() * p.get_height() for p in diagonal.patches)
    assert area == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(joint.collections[-1].get_offsets()[0], [1.0, 0.3])


def test_pairs_of_many_parameters_are_those_that_were_narrowed():
    prior = tbq.Prior({f"x{i}": stats.norm(0, 1) for i in range(8)})
    flat = tbq.infer(lambda t: -8.0 * (t[3] ** 2 + t[5] ** 2), prior, seed=0, population=256, max_evaluations=40)
    assert {"x3", "x5"} == set(plots.most_narrowed(flat, 2))
    assert len(plots.most_narrowed(flat)) == 6
    assert len(plots.pairs(flat, ["x3", "x5"]).axes) == 3
    with pytest.raises(tbq.TbqError, match="there is no parameter 'x9'"):
        plots.pairs(flat, ["x9"])


def test_convergence_ends_at_the_last_belief(result, axes):
    plots.convergence(result, axes)
    last = [r for r in result.history if r.gamma == 1.0][-1]
    np.testing.assert_allclose(axes.lines[0].get_xydata()[-1], [last.n_evaluations, last.log_evidence])


def test_convergence_before_the_last_stage_says_so(axes):
    sharp = tbq.infer(lambda t: 100 * log_likelihood(t), PRIOR, seed=0, population=512, max_evaluations=14)
    assert all(r.gamma < 1 for r in sharp.history)
    plots.convergence(sharp, axes)
    assert axes.texts[0].get_text() == "γ has not reached 1"


def test_schedule_and_weights_are_those_of_the_stages(result, axes):
    plots.gamma_schedule(result, axes)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [s.gamma for s in result.stages])
    other = plots.stage_weights(result, plots.pyplot().figure().gca())
    np.testing.assert_allclose(
        [p.get_height() for p in other.patches], [s.effective_sample_size for s in result.stages]
    )
    drawn(axes.figure)


def test_predicted_shows_the_runs_that_matter(result, axes):
    plots.predicted(result, axes)
    shown = sum(len(c.lines[0].get_xdata()) for c in axes.containers)
    assert shown == diagnostics.left_out(result).relevant.sum()
    drawn(axes.figure)


def test_the_acquisition_surface_of_puq_is_the_numerical_error_of_the_density(result, axes):
    plots.acquisition(result, axes, "puq")
    values = np.asarray(axes.collections[0].get_array()).ravel()
    x, y = (np.linspace(*limits, 81) for limits in (axes.get_xlim(), axes.get_ylim()))
    theta = np.column_stack([a.ravel() for a in np.meshgrid(x, y)])
    exact = np.log(result.density_sd(theta))
    shown = values > -7.9
    assert shown.sum() > 100
    np.testing.assert_allclose(values[shown], (exact - exact.max())[shown], atol=1e-6)
    with pytest.raises(tbq.TbqError, match="name must be one of puq"):
        plots.acquisition(result, axes, "luck")


def test_stages_show_every_run_once_and_where_it_was_made(result):
    figure = plots.stages(result)
    panels = [a for a in figure.axes if a.get_title()]
    assert len(panels) == len(result.stages)
    assert f"{result.stages[0].evaluations} runs" in panels[0].get_title()
    dots = sum(len(c.get_offsets()) for c in panels[-1].collections[1:])
    assert dots == result.n_evaluations
    drawn(figure)


@pytest.mark.parametrize("names", ["a", "abc"])
def test_pictures_of_two_parameters_say_so_where_there_are_others(names, axes):
    prior = tbq.Prior({name: stats.uniform(0, 1) for name in names})
    other = tbq.infer(lambda t: -np.sum(t**2), prior, seed=0, population=256, max_evaluations=14)
    message = f"this picture needs two parameters; the result has {len(names)}"
    for draw in (plots.posterior_density, plots.density_error, plots.acquisition):
        with pytest.raises(tbq.TbqError, match=message):
            draw(other, axes)
    with pytest.raises(tbq.TbqError, match=message):
        plots.stages(other)


def test_there_is_nothing_to_draw_where_nothing_was_learned():
    def never(theta):
        raise ValueError

    empty = tbq.infer(never, PRIOR, seed=0, max_evaluations=12)
    with pytest.raises(tbq.TbqError, match="no posterior to draw"):
        plots.pairs(empty)


def test_units_are_checked():
    with pytest.raises(tbq.TbqError, match="units must be text on one line for names among a; got 'b': 'm'"):
        tbq.Prior({"a": stats.norm()}, units={"b": "m"})


def test_the_colours_can_be_told_apart_by_the_colour_blind():
    # red-green blindness (Viénot 1999): the three colours that carry a meaning stay far apart
    to_rgb = matplotlib.colors.to_rgb
    lms = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    deutan = np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]])
    seen = [
        np.linalg.inv(lms) @ deutan @ lms @ np.array(to_rgb(c)) for c in (plots._BLUE, plots._ORANGE, plots._VERMILION)
    ]
    distances = [np.linalg.norm(seen[i] - seen[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert min(distances) > 0.2
