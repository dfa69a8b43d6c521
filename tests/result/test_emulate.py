"""Outputs without a run, and the fit to the data: against the model itself and against closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.result import emulate

PRIOR = tbq.Prior({"a": stats.uniform(0.5, 2), "b": stats.uniform(-1, 2)})
TIMES = np.linspace(0, 1, 12)


def line(theta):
    return theta[0] + theta[1] * TIMES


def bent(theta):
    return np.array([theta[0] ** 2, np.exp(theta[1]), theta[0] * theta[1]])


@pytest.fixture(scope="module")
def linear():
    """Many outputs, which become principal components, of a model that is linear: everything has a closed form."""
    noise = stats.norm(0, 0.1).rvs(len(TIMES), random_state=1)
    likelihood = tbq.GaussianLikelihood(
        line, line([1.5, 0.3]) + noise, 0.1, coordinates={"time [s]": TIMES}, units="mm"
    )
    return tbq.infer(likelihood, PRIOR, seed=0, population=512, progress=False)


@pytest.fixture(scope="module")
def curved():
    likelihood = tbq.GaussianLikelihood(bent, bent([1.5, 0.3]), 0.1, names=("square", "growth", "product"))
    return tbq.infer(likelihood, PRIOR, seed=0, population=512, progress=False)


def test_outputs_of_principal_components_are_the_model_s(linear):
    assert "principal components of 12" in linear.surrogate.description
    theta = PRIOR.sample(50, seed=3)
    found = emulate.emulator(linear).mean(PRIOR.to_working(theta))
    np.testing.assert_allclose(found, [line(t) for t in theta], atol=1e-3)


def test_outputs_and_logarithms_of_outputs_are_the_model_s_within_their_error(curved):
    model, theta = emulate.emulator(curved), curved.samples[:200]
    true = np.array([bent(t) for t in theta])
    np.testing.assert_allclose(model.mean(PRIOR.to_working(theta)), true, atol=0.02)  # a fifth of the noise
    draws = np.array([model.sample(PRIOR.to_working(theta), np.random.default_rng(s)) for s in range(40)])
    z = (true - draws.mean(axis=0)) / np.maximum(draws.std(axis=0), 1e-3)
    assert np.sqrt(np.mean(z**2)) < 2.0


def test_runs_are_met_where_all_outputs_are_learned(curved):
    model = emulate.emulator(curved)
    runs = np.array([e.theta for e in curved.evaluations])
    np.testing.assert_allclose(model.mean(PRIOR.to_working(runs)), [e.outputs for e in curved.evaluations], atol=1e-3)
    assert np.all(model.left < 1e-3)


def test_the_predictive_of_a_linear_model_is_that_of_regression(linear):
    fit = emulate.fit(linear)
    design = np.column_stack([np.ones(12), TIMES])
    covariance = 0.1**2 * np.linalg.inv(design.T @ design)
    best = np.linalg.solve(design.T @ design, design.T @ linear.likelihood.observed)
    spread = np.sqrt(np.einsum("ij,jk,ik->i", design, covariance, design))
    np.testing.assert_allclose(np.median(fit.outputs, axis=0), design @ best, atol=0.15 * spread.max())
    np.testing.assert_allclose(fit.outputs.std(axis=0), spread, rtol=0.15)
    np.testing.assert_allclose(fit.draws.std(axis=0), np.hypot(spread, 0.1), rtol=0.15)
    np.testing.assert_allclose(fit.residuals, (linear.likelihood.observed - design @ best) / 0.1, atol=0.1)
    assert fit.covered == pytest.approx(0.9, abs=0.17)


def test_outputs_are_known_where_log_likelihoods_were_learned(curved):
    other = tbq.infer(curved.likelihood, PRIOR, seed=0, population=512, surrogate="log_likelihood", progress=False)
    assert "outputs" not in other.surrogate.description
    theta = curved.samples[:50]
    found = emulate.emulator(other).mean(PRIOR.to_working(theta))
    np.testing.assert_allclose(found, [bent(t) for t in theta], atol=0.05)


def test_noise_of_unknown_size_counts_as_the_posterior_has_it():
    prior = tbq.Prior({"a": stats.uniform(0.5, 2), "s": stats.uniform(0.05, 0.5)})
    observed = 1.5 + stats.norm(0, 0.2).rvs(30, random_state=0)
    likelihood = tbq.GaussianLikelihood(lambda t: np.full(30, t[0]), observed, 1.0, scale=lambda t: t[1])
    result = tbq.infer(likelihood, prior, seed=0, population=512, progress=False)
    fit = emulate.fit(result)
    assert fit.noise_sd[0] == pytest.approx(result.samples[:, 1].mean(), rel=0.05)
    assert fit.draws.std() == pytest.approx(observed.std(), rel=0.3)


def test_there_is_no_fit_without_outputs():
    result = tbq.infer(lambda t: -float(t @ t), PRIOR, seed=0, population=256, max_evaluations=14, progress=False)
    assert emulate.emulator(result) is None
    assert emulate.fit(result) is None


def test_nor_from_fewer_runs_than_components(curved):
    few = replace(curved, evaluations=curved.evaluations[:3])
    assert emulate.emulator(few) is None


# --- names --------------------------------------------------------------------------------------------------


def test_names_and_units_are_kept_by_a_file_and_carried_to_predictions_and_exports(linear, curved, tmp_path):
    curved.save(tmp_path / "a.tbq")
    loaded = tbq.load(tmp_path / "a.tbq", likelihood=None)
    assert loaded.likelihood.names == ("square", "growth", "product")
    linear.save(tmp_path / "b.tbq")
    labels = tbq.load(tmp_path / "b.tbq").likelihood.experiments[0].labels
    np.testing.assert_array_equal(labels.coordinates, TIMES)
    assert (labels.along, labels.units[0]) == ("time [s]", "mm")
    prediction = curved.predict(n=5, seed=0)
    assert prediction.names == ("square", "growth", "product")
    assert len(prediction["growth"]) == 5
    prediction = linear.predict(n=5, seed=0)
    assert "y12 [mm]" in prediction.summary()
    tree = tbq.export.to_datatree(curved)
    assert list(tree["observed_data"]["datum"].values) == ["square", "growth", "product"]
    tree = tbq.export.to_datatree(linear)
    np.testing.assert_array_equal(tree["observed_data"]["coordinate"].values, TIMES)
    assert tree["observed_data"]["unit"].values[0] == "mm"


def test_names_of_two_experiments_are_told_apart():
    first = tbq.GaussianLikelihood(bent, [1, 2, 3], 1.0, names=("a", "b", "c"), units=("m", "", "s"))
    second = tbq.GaussianLikelihood(bent, [1, 2, 3], 1.0, names=("a", "x", "y"))
    plain = tbq.GaussianLikelihood(bent, [1, 2, 3], 1.0)
    both = first + second + plain
    assert both.names == ("a (1)", "b", "c", "a (2)", "x", "y", "y7", "y8", "y9")
    assert both.units == ("m", "", "s", "", "", "", "", "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ("a", "b")}, r"names must be 3 texts on one line each; got \('a', 'b'\)"),
        ({"names": ("a", "b\n", "c")}, "names must be 3 texts"),
        ({"names": ("a", "b", "a")}, "names must differ; got 'a' more than once"),
        ({"units": ("m", 1, "s")}, "units must be 3 texts"),
        ({"coordinates": [1, 2]}, r"coordinates must be 3 numbers; got shape \(2,\)"),
        ({"coordinates": [1, 2, np.nan]}, "coordinates must be finite"),
        (
            {"coordinates": {"t": [1, 2, 3], "x": [1, 2, 3]}},
            "coordinates must be one array under its name; got 't', 'x'",
        ),
    ],
)
def test_labels_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(tbq.TbqError, match=message):
        tbq.GaussianLikelihood(bent, [1, 2, 3], 1.0, **arguments)
