"""Evidences of linear models with normal priors are known in closed form, and so is all that follows from them."""

import runpy
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from scipy import special, stats

import tbq
from tbq.engine.records import ErrorBudget
from tbq.result.compare import _counts, _grade, judge

matplotlib.use("Agg")

X = np.linspace(-1.0, 1.0, 7)
NOISE = 0.3
Y = np.array([-0.95, -0.52, -0.31, 0.05, 0.24, 0.62, 1.35])
COLUMNS = {"line": X[:, None], "curve": np.column_stack([X, X**3])}


def likelihood(name, **options):
    return tbq.GaussianLikelihood(lambda theta: COLUMNS[name] @ theta, Y, NOISE, **options)


def prior(name):
    return tbq.Prior({f"b{i}": stats.norm(0, 1) for i in range(COLUMNS[name].shape[1])})


def exact(name):
    columns = COLUMNS[name]
    return stats.multivariate_normal(np.zeros(7), NOISE**2 * np.eye(7) + columns @ columns.T).logpdf(Y)


def posterior_mean(name):
    columns = COLUMNS[name]
    return np.linalg.solve(columns.T @ columns / NOISE**2 + np.eye(columns.shape[1]), columns.T @ Y / NOISE**2)


@pytest.fixture(scope="module")
def results():
    return {name: tbq.infer(likelihood(name), prior(name), seed=0) for name in COLUMNS}


@pytest.fixture(scope="module")
def comparison(results):
    return tbq.compare(results)


def with_evidence(result, log_evidence, sd):
    return replace(result, log_evidence=log_evidence, errors=ErrorBudget(sd, 0.0, 0.0))


def test_bayes_factor_and_probabilities_are_the_exact_ones(comparison):
    factor, sd = comparison.log_bayes_factor("curve", "line")
    assert abs(factor - (exact("curve") - exact("line"))) < 3 * sd + 0.005
    assert comparison.log_bayes_factor("line", "curve") == (-factor, sd)
    chances = dict(zip(comparison.names, comparison.probabilities, strict=True))
    assert chances["curve"] == pytest.approx(special.expit(exact("curve") - exact("line")), abs=0.02)
    assert comparison.probabilities.sum() == pytest.approx(1.0)
    assert comparison.names[0] == max(COLUMNS, key=exact)


def test_probability_intervals_are_those_of_a_normal_log_factor(results):
    models = {"a": with_evidence(results["line"], -3.0, 0.3), "b": with_evidence(results["line"], -2.0, 0.4)}
    found = tbq.compare(models)
    assert found.names == ("b", "a")
    low, high = found.probability_interval(0.9)
    wanted = special.expit(1.0 + 0.5 * stats.norm.ppf([0.05, 0.95]))
    np.testing.assert_allclose([low[0], high[0]], wanted, atol=0.01)
    np.testing.assert_allclose(low + high[::-1], 1.0)
    with pytest.raises(tbq.TbqError, match="level must lie between 0 and 1; got 90"):
        found.probability_interval(90)


def test_prior_probabilities_count(results):
    models = {name: with_evidence(results["line"], v, 0.01) for name, v in {"a": -3.0, "b": -2.0, "c": -5.0}.items()}
    found = tbq.compare(models, prior_probabilities={"a": 6, "b": 3, "c": 1})
    weights = np.array([3 * np.exp(-2.0), 6 * np.exp(-3.0), np.exp(-5.0)])
    np.testing.assert_allclose(found.probabilities, weights / weights.sum())
    with pytest.raises(tbq.TbqError, match="prior_probabilities must name b, a, c; got a"):
        tbq.compare(models, prior_probabilities={"a": 1.0})
    with pytest.raises(tbq.TbqError, match="prior_probabilities must be positive"):
        tbq.compare(models, prior_probabilities={"a": 1.0, "b": 0.0, "c": 1.0})


def test_huge_log_evidences_do_not_overflow(results):
    models = {"a": with_evidence(results["line"], -1e6, 0.1), "b": with_evidence(results["line"], -1e6 + 2.0, 0.1)}
    np.testing.assert_allclose(tbq.compare(models).probabilities, [special.expit(2.0), special.expit(-2.0)], rtol=1e-6)


@pytest.mark.parametrize(
    ("log_factor", "sd", "words"),
    [
        (0.5, 0.1, "for a over b is not worth more than a bare mention"),
        (2.0, 0.1, "for a over b is positive"),
        (4.0, 0.1, "for a over b is strong"),
        (-7.0, 0.5, "for b over a is very strong"),
        (0.0, 0.2, "bare mention"),
        (3.1, 0.2, "lies between 'positive' and 'strong': the numerical error is too large to decide"),
        (1.1, 0.3, "lies between 'not worth more than a bare mention' and 'positive'"),
        (0.5, 2.0, "Undecided: the numerical error is too large to say which of a and b is better"),
        (9.0, 8.0, "Undecided"),
    ],
)
def test_verdicts_hold_within_the_numerical_error(log_factor, sd, words):
    assert words in judge("a", "b", log_factor, sd)


@pytest.mark.parametrize(("twice_log", "grade"), [(0, 0), (1.99, 0), (2, 1), (5.9, 1), (6, 2), (9.9, 2), (10, 3)])
def test_grades_are_kass_and_rafterys(twice_log, grade):
    assert _grade(twice_log / 2) == grade


def test_predictions_are_averaged_over_the_models(comparison):
    at = 1.5
    models = {"line": lambda theta: theta[0] * at, "curve": lambda theta: theta[0] * at + theta[1] * at**3}
    found = comparison.predict(models, 4000, noise=None, seed=0)
    means = {"line": posterior_mean("line")[0] * at, "curve": posterior_mean("curve") @ [at, at**3]}
    chance = special.expit(exact("curve") - exact("line"))
    assert found.mean[0] == pytest.approx(chance * means["curve"] + (1 - chance) * means["line"], abs=0.06)
    assert len(found.draws) == 4000
    np.testing.assert_array_equal(found.draws, comparison.predict(models, 4000, noise=None, seed=0).draws)
    with pytest.raises(tbq.TbqError, match="models must be functions for"):
        comparison.predict({"line": models["line"]})
    with pytest.raises(tbq.TbqError, match="n must be a whole number of at least 1; got 0"):
        comparison.predict(models, 0)
    with pytest.raises(tbq.TbqError, match="predictions must have the same outputs"):
        comparison.predict({**models, "curve": lambda theta: [1.0, 2.0]}, 100)


def test_predictions_use_the_likelihoods_own_models(comparison):
    found = comparison.predict(n=600, seed=0)
    assert found.noise == "with the likelihood's noise"
    np.testing.assert_allclose(found.mean, Y, atol=0.3)
    assert np.all(found.sd > 0.9 * NOISE)


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_runs_are_shared_by_probability(n):
    chances = np.array([0.61, 0.25, 0.14])
    counts = np.array(_counts(chances, n))
    assert counts.sum() == n
    assert np.max(np.abs(counts - n * chances)) < 1.0


# --- what may be compared -----------------------------------------------------------------------------------


def test_unnormalised_and_normalised_likelihoods_are_not_compared(results):
    bare = replace(results["curve"], likelihood=likelihood("curve", normalized=False))
    assert (results["line"].normalized, bare.normalized) == (True, False)
    constant = stats.norm(0, NOISE).logpdf(0.0) * 7
    with pytest.raises(tbq.TbqError, match=rf"lack 0 in 'line', {constant:.4g} in 'curve'\. Use normalized=True"):
        tbq.compare({"line": results["line"], "curve": bare})


def test_unnormalised_ones_are_compared_where_they_lack_the_same(results):
    plain = {name: likelihood(name, normalized=False) for name in COLUMNS}
    found = {name: replace(results[name], likelihood=plain[name]) for name in COLUMNS}
    assert tbq.compare(found).names == tbq.compare(results).names
    wider = tbq.GaussianLikelihood(lambda theta: COLUMNS["curve"] @ theta, Y, 2 * NOISE, normalized=False)
    with pytest.raises(tbq.TbqError, match="not normalised alike"):
        tbq.compare({**found, "curve": replace(results["curve"], likelihood=wider)})


def test_what_is_missing_is_what_would_be_added():
    theta = np.array([0.3, 0.2])
    bare, full = likelihood("curve", normalized=False), likelihood("curve")
    assert bare(theta) + bare.missing_constant == pytest.approx(full(theta))
    assert full.missing_constant == 0.0
    mixed = bare + full
    assert not mixed.normalized
    assert mixed.missing_constant == pytest.approx(bare.missing_constant)


def test_likelihoods_of_ones_own_are_compared_with_each_other_and_it_is_said(results):
    own = {name: replace(r, likelihood=None) for name, r in results.items()}
    assert own["line"].normalized is None
    assert "tbq cannot tell whether these likelihoods are normalised" in tbq.compare(own).summary()
    assert "cannot tell" not in tbq.compare(own, assume_normalized=True).summary()
    mixed = {"line": results["line"], "own": own["curve"]}
    with pytest.raises(tbq.TbqError, match=r"of 'own' is normalised is not known, .* assume_normalized=True"):
        tbq.compare(mixed)
    assert tbq.compare(mixed, assume_normalized=True).note == ""


def test_other_data_are_refused(results):
    other = tbq.GaussianLikelihood(lambda theta: COLUMNS["curve"] @ theta, Y + 0.1, NOISE)
    with pytest.raises(tbq.TbqError, match="'line' and 'curve' have other data"):
        tbq.compare({"line": results["line"], "curve": replace(results["curve"], likelihood=other)})


def test_wrong_arguments_are_refused(results):
    with pytest.raises(tbq.TbqError, match="two or more names"):
        tbq.compare({"line": results["line"]})
    with pytest.raises(tbq.TbqError, match=r"'curve' must be a tbq\.Result; got int"):
        tbq.compare({"line": results["line"], "curve": 3})
    with pytest.raises(tbq.TbqError, match="'curve' has no evidence"):
        tbq.compare({"line": results["line"], "curve": replace(results["curve"], log_evidence=np.nan)})
    with pytest.raises(tbq.TbqError, match="there is no model 'x'; there are"):
        tbq.compare(results).verdict("line", "x")


# --- how it is shown ----------------------------------------------------------------------------------------


def test_the_summary_says_it_all(results, comparison):
    text = str(comparison)
    assert " ".join(text.splitlines()[0].split()) == "model log evidence log B of best probability (90 %)"
    assert comparison.verdict(*comparison.names) in text
    rough = {**results, "line": replace(results["line"], stop=tbq.Stop.BUDGET)}
    assert "Not converged: line." in str(tbq.compare(rough))


def test_a_comparison_of_loaded_results(results, comparison, tmp_path):
    for name, result in results.items():
        result.save(tmp_path / name)
    loaded = tbq.compare({name: tbq.load(tmp_path / name) for name in results})
    assert loaded.summary() == comparison.summary()


def test_the_plot_shows_evidences_and_probabilities(comparison):
    from matplotlib import pyplot as plt

    left, right = comparison.plot()
    assert [t.get_text() for t in left.get_yticklabels()] == list(comparison.names)
    np.testing.assert_allclose([bar.get_width() for bar in right.patches], comparison.probabilities)
    plt.close("all")


# --- the example --------------------------------------------------------------------------------------------


def test_the_example_agrees_with_quadrature(tmp_path, capsys):
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples/compare.py"))
    found = example["main"](str(tmp_path))
    assert (tmp_path / "compare.png").stat().st_size > 10_000
    assert "The evidence for stiffening over linear is positive" in capsys.readouterr().out
    measured, noise, priors = example["MEASURED"], example["NOISE"], example["PRIORS"]
    u, w = np.polynomial.legendre.leggauss(200)
    u, w = 0.5 * (u + 1.0), 0.5 * w  # over the prior's quantiles

    def likelihood(name, *theta):
        return np.prod(stats.norm(example["MODELS"][name](theta), noise).pdf(measured), axis=-1)

    k, c = (priors["stiffening"].marginals[name].ppf(u) for name in ("k", "c"))
    line = w @ likelihood("linear", k[:, None])
    curve = w @ likelihood("stiffening", k[:, None, None], c[:, None]) @ w
    factor, sd = found.log_bayes_factor("stiffening", "linear")
    assert abs(factor - np.log(curve / line)) < 3 * sd
    # where x solves k x + c x³ = load
    x = example["stiffening"]([2.0, 1e-3], np.array([5.0, 60.0]))
    np.testing.assert_allclose(2.0 * x + 1e-3 * x**3, [5.0, 60.0], rtol=1e-12)
