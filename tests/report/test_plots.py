"""Pictures: what they show is read back from their axes."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.report import pairs, plots, style
from tbq.report.left_out import left_out

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


def test_the_timeline_has_every_run_and_failures_where_they_happened(axes):
    def fails(theta):
        if theta[0] > 2.0:
            raise ValueError("mesh tangled")
        return log_likelihood(theta) if theta[1] > -3.0 else -np.inf

    result = tbq.infer(fails, PRIOR, seed=0, population=256, max_evaluations=20)
    plots.timeline(result, axes)
    shown = {line.get_label(): line.get_xdata() for line in axes.lines}
    for label, status in (("failed", "failed"), ("infeasible", "infeasible")):
        assert list(shown[label]) == [e.id for e in result.evaluations if e.status == status]
    assert sum(map(len, shown.values())) == 20
    drawn(axes.figure)


def test_units_label_the_axes_and_broken_formulas_are_shown_as_text(result):
    figure = plots.pairs(result)
    assert drawn(figure).std() > 0
    last = panels(figure)[-1]
    labels = {a.get_xlabel() for a in figure.axes} | {a.get_ylabel() for a in figure.axes}
    assert {"stiffness [MN/m]", r"\$b\$ < 5\$"} <= labels
    assert last.get_xlabel() == r"\$b\$ < 5\$"


def panels(figure):
    """The axes of a picture of pairs by what they show, without the strips."""
    return [a for a in figure.axes if a.get_label() != "inset_axes"]


def test_pairs_show_prior_truth_runs_and_the_best_of_them(result):
    figure = plots.pairs(result, truth={"stiffness": 1.0, "$b$ < 5$": 0.3})
    words = [t.get_text() for t in figure.legends[0].get_texts()]
    assert words == [
        "50 % of the posterior",
        "90 % of the posterior",
        "prior",
        "strip: its place in the prior",
        "run",
        "best run",
        "true value",
    ]
    diagonal, joint, other = panels(figure)
    dashed = next(line for line in diagonal.lines if line.get_linestyle() == "--")
    np.testing.assert_allclose(dashed.get_ydata(), 1 / 8)
    curve = next(line for line in diagonal.lines if line.get_linestyle() == "-")
    assert np.trapezoid(curve.get_ydata(), curve.get_xdata()) == pytest.approx(1.0, abs=0.02)
    marks = {tuple(np.round(c.get_offsets()[0], 9)) for c in joint.collections if len(c.get_offsets()) == 1}
    best = max(result.evaluations, key=lambda e: e.log_likelihood)
    assert {(1.0, 0.3), tuple(np.round(best.theta, 9))} <= marks
    dots = max((c.get_offsets() for c in joint.collections), key=len)
    np.testing.assert_array_equal(dots, [e.theta for e in result.evaluations])
    drawn(figure)
    assert joint.get_xlim() == diagonal.get_xlim()  # a column shares its axis with what stands above it
    assert joint.get_ylim() == other.get_xlim()


def test_the_view_of_pairs_is_the_posterior_and_the_strip_its_place_in_the_prior():
    prior = tbq.Prior({"x": stats.uniform(0, 100), "y": stats.norm(0, 1)})
    draws = np.column_stack(
        [stats.norm(30, 0.5).rvs(4000, random_state=0), stats.norm(1, 0.2).rvs(4000, random_state=1)]
    )
    axes = plots.marginal(prior, draws, "x", plots.pyplot().figure().gca())
    low, high = axes.get_xlim()
    assert 27 < low < 28.8
    assert 31.2 < high < 33
    mark = axes.child_axes[0].patches[0]
    assert mark.get_x() + 0.5 * mark.get_width() == pytest.approx(0.3, abs=0.001)
    assert axes.child_axes[0].get_xlim() == (0.0, 1.0)


def area_of(axes, level):
    """Of the region inside the contour that was drawn last but ``level``."""
    contours = [c for c in axes.collections if type(c).__name__ == "QuadContourSet" and not c.filled]
    x, y = np.concatenate([p.vertices for p in contours[level].get_paths()]).T
    return 0.5 * abs(x @ np.roll(y, 1) - y @ np.roll(x, 1))


def test_contours_of_a_correlated_normal_hold_50_and_90_per_cent():
    prior = tbq.Prior({"x": stats.uniform(-10, 20), "y": stats.uniform(-10, 20)})
    covariance = np.array([[1.0, 0.9], [0.9, 1.0]])
    draws = np.random.default_rng(0).multivariate_normal([0, 0], covariance, 20_000)
    axes = plots.pair(prior, draws, ("x", "y"), plots.pyplot().figure().gca())
    for k, fraction in enumerate((0.9, 0.5)):
        exact = -2.0 * np.log(1.0 - fraction) * np.pi * np.sqrt(np.linalg.det(covariance))
        assert area_of(axes, k) == pytest.approx(exact, rel=0.15)  # a kernel of 0.28 sd widens it by 8 %


def test_narrow_modes_far_apart_are_neither_clipped_nor_smeared():
    prior = tbq.Prior({"x": stats.uniform(-10, 20), "y": stats.uniform(-10, 20)})
    rng = np.random.default_rng(0)
    draws = 0.02 * rng.standard_normal((2000, 2)) + np.where(rng.random(2000) < 0.03, 5.0, -5.0)[:, None]
    clusters = (draws[:, 0] > 0).astype(int)
    axes = plots.pair(prior, draws, ("x", "y"), plots.pyplot().figure().gca(), clusters=clusters)
    assert axes.get_xlim()[0] < -5.05
    assert axes.get_xlim()[1] > 5.05
    marginal = plots.marginal(prior, draws, "x", plots.pyplot().figure().gca(), clusters=clusters)
    x, y = next(line for line in marginal.lines if line.get_linestyle() == "-").get_data()
    right = x > 0
    assert np.trapezoid(y[right], x[right]) == pytest.approx(np.mean(clusters), abs=0.003)
    assert x[right][np.argmax(y[right])] == pytest.approx(5.0, abs=0.02)
    wide = np.ptp(x[y > 0.5 * y.max()])
    assert wide == pytest.approx(2.355 * 0.02, rel=0.15)


def test_a_posterior_that_leans_against_an_end_does_not_fall_there():
    prior = tbq.Prior({"x": stats.uniform(0, 4)})
    draws = stats.expon(0, 0.5).rvs(4000, random_state=0)[:, None]
    axes = plots.marginal(prior, draws, "x", plots.pyplot().figure().gca())
    x, y = next(line for line in axes.lines if line.get_linestyle() == "-").get_data()
    assert x[0] == 0.0
    assert y[0] == pytest.approx(2.0, rel=0.2)  # mirrored kernels of 0.22 sd make 1.66 of it; others would make 1.0
    assert y[0] == y.max()


def test_a_pair_that_the_data_left_flat_has_no_contours_of_chance():
    prior = tbq.Prior({"x": stats.uniform(0, 1), "y": stats.uniform(0, 1)})
    axes = plots.pair(prior, prior.sample(2000, seed=0), ("x", "y"), plots.pyplot().figure().gca())
    assert not [c for c in axes.collections if type(c).__name__ == "QuadContourSet"]


def test_pairs_of_many_parameters_are_those_that_were_narrowed():
    prior = tbq.Prior({f"x{i}": stats.norm(0, 1) for i in range(12)})
    flat = tbq.infer(lambda t: -8.0 * (t[3] ** 2 + t[5] ** 2), prior, seed=0, population=256, max_evaluations=40)
    assert {"x3", "x5"} == set(plots.most_narrowed(flat, 2))
    assert len(plots.most_narrowed(flat)) == 10
    assert len(panels(plots.pairs(flat, ["x3", "x5"]))) == 3
    with pytest.raises(tbq.TbqError, match="there is no parameter 'x9x'"):
        plots.pairs(flat, ["x9x"])
    figure = plots.pairs(flat)
    drawn(figure)
    assert len(panels(figure)) == 55
    assert overlapping(figure) == []


def overlapping(figure):
    """Names, numbers and the legend that run into each other."""
    canvas, boxes = figure.canvas.get_renderer(), []
    for axes in panels(figure):
        texts = [axes.xaxis.label, axes.yaxis.label]
        for axis in (axes.xaxis, axes.yaxis):
            texts += [t.label1 for t in axis.get_major_ticks() if t.label1.get_visible()]
        boxes += [(t.get_text(), t.get_window_extent(canvas)) for t in texts if t.get_text() and t.get_visible()]
    boxes.append(("legend", figure.legends[0].get_window_extent(canvas)))
    page = figure.bbox
    outside = [
        name for name, box in boxes if box.x0 < -1 or box.y0 < -1 or box.x1 > page.x1 + 1 or box.y1 > page.y1 + 1
    ]
    names = [(name, box) for name, box in boxes if name.startswith(("x", "legend"))]
    both = [
        (a, b) for i, (a, p) in enumerate(names) for b, q in boxes[i + 1 :] if a != b and p.overlaps(q) and b[0] in "xl"
    ]
    return outside + both


def test_convergence_ends_at_the_last_belief(result, axes):
    plots.convergence(result, axes)
    last = [r for r in result.history if r.gamma == 1.0][-1]
    np.testing.assert_allclose(axes.lines[0].get_xydata()[-1], [last.n_evaluations, last.log_evidence])
    bar = axes.containers[0]
    assert bar.lines[0].get_ydata() == [result.log_evidence]
    ends = bar.lines[2][0].get_segments()[0][:, 1]
    np.testing.assert_allclose(ends, result.log_evidence + np.array([-2, 2]) * result.log_evidence_sd)


def test_one_band_that_is_wide_for_once_does_not_hide_the_others(result, axes):
    records = [replace(result.history[-1], n_evaluations=i, error=0.05) for i in range(40)]
    records[7] = replace(records[7], error=1e3)
    plots.convergence(replace(result, history=tuple(records)), axes)
    usual = np.array([[r.log_evidence - r.error, r.log_evidence + r.error] for i, r in enumerate(records) if i != 7])
    low, high = axes.get_ylim()
    assert low < usual.min()
    assert usual.max() < high
    assert high - low < 1.0  # that one has 3.7 nats
    drawn(axes.figure)


def test_a_first_guess_that_is_far_off_does_not_flatten_the_rest(result, axes):
    records = [replace(r, error=min(r.error, 1.0)) for r in result.history if r.gamma == 1.0]
    first = replace(records[0], log_evidence=result.log_evidence - 250.0)
    plots.convergence(replace(result, history=(first, *records)), axes)
    low, high = axes.get_ylim()
    assert low < min(r.log_evidence for r in records)
    assert max(r.log_evidence for r in records) < high
    assert high - low < 10.0
    drawn(axes.figure)


def test_bands_far_wider_than_the_evidences_leave_these_to_be_seen(result, axes):
    records = [replace(r, error=1e4) for r in result.history if r.gamma == 1.0]
    plots.convergence(replace(result, history=tuple(records)), axes)
    low, high = axes.get_ylim()
    found = [r.log_evidence for r in records]
    assert low < min(found)
    assert max(found) < high
    assert high - low < 6.0 * max(np.ptp([*found, result.log_evidence]), 4.0 * result.log_evidence_sd)
    drawn(axes.figure)


def test_it_is_counted_how_many_runs_a_picture_does_not_show(result):
    names = list(PRIOR.names)
    corner = panels(plots.pairs(result))[1]
    shown = sum(
        corner.get_xlim()[0] <= e.theta[0] <= corner.get_xlim()[1]
        and corner.get_ylim()[0] <= e.theta[1] <= corner.get_ylim()[1]
        for e in result.evaluations
    )
    assert 0 < shown < result.n_evaluations
    assert pairs.outside(result, names) == result.n_evaluations - shown


def test_convergence_before_the_last_stage_says_so(axes):
    settings = {"tolerance": (0.04, 0.04), "population": 512, "max_evaluations": 14}  # stages that ask for runs
    sharp = tbq.infer(lambda t: 100 * log_likelihood(t), PRIOR, seed=0, **settings)
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
    assert shown == left_out(result).relevant.sum()
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
        np.linalg.inv(lms) @ deutan @ lms @ np.array(to_rgb(c)) for c in (style.BLUE, style.ORANGE, style.VERMILION)
    ]
    distances = [np.linalg.norm(seen[i] - seen[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert min(distances) > 0.2


def test_an_empty_side_of_the_view_is_not_filled_however_even_the_rest_is(axes):
    prior = tbq.Prior({"a": stats.uniform(0, 10), "b": stats.uniform(0, 1)})
    u = prior.sample(2048, seed=0)
    draws = u * [0.15, 1.0]  # even, and a ends at 1.5
    plots.pair(prior, draws, ("a", "b"), axes)
    assert axes.get_xlim()[1] > 1.8
    assert len(axes.patches) == 0
    region = axes.collections[0].get_paths()
    assert [any(path.contains_point(c) for path in region) for c in ([0.7, 0.5], [1.75, 0.5])] == [True, False]
    flat = plots.pair(prior, u, ("a", "b"), plots.pyplot().figure().gca())
    assert len(flat.patches) == 1  # no contours of chance where nothing is known
