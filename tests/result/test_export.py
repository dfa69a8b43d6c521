"""What is saved comes back the same, and other tools read what is exported."""

import csv
import json
import pickle
import warnings
import zipfile
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

import tbq
from tbq.gp.kernels import BY_NAME
from tbq.problem.evaluation import Evaluation
from tbq.result import export
from tbq.simulate.textfiles import read_csv
from tbq.surrogate.lognormal import LogNormal
from tbq.surrogate.warp import Frame, Warp

PRIOR = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.lognorm(0.5, scale=1.5)}, correlation=[[1, 0.3], [0.3, 1]])
OBSERVED = np.array([0.4, 1.2, 0.7])
QUICK = {"algorithm": "bq", "seed": 0, "max_evaluations": 30, "population": 500}


def model(theta):
    a, b = theta
    return np.array([a, a * b, b])


def curved(theta):
    return -2.0 * (theta[0] - 0.4) ** 2 - 3.0 * (theta[1] - 1.0 - theta[0] ** 2) ** 2


@pytest.fixture(scope="module")
def gaussian():
    return tbq.infer(tbq.GaussianLikelihood(model, OBSERVED, [0.3, 0.4, 0.5]), PRIOR, **QUICK)


@pytest.fixture(scope="module")
def bordered():
    """A likelihood that is zero on one side and fails in a corner."""

    def log_likelihood(theta):
        if theta[0] + theta[1] > 2.8:
            raise ValueError("mesh tangled")
        return -np.inf if theta[0] > 1.0 else curved(theta)

    return tbq.infer(log_likelihood, PRIOR, **QUICK)


def round_trip(result, path, **known):
    result.save(path / "run.tbq")
    return tbq.load(path / "run.tbq", **known)


def plain(value):
    """All that is in it, as text: nan is not itself."""
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    return repr(vars(value) if isinstance(value, Evaluation) else value)


def assert_same(loaded, result):
    """Everything a result is and does."""
    theta = result.prior.sample(50, seed=4)
    # factorised anew: rounding times the condition of a covariance with a nugget of 1e-6 and steep log-depths
    np.testing.assert_allclose(loaded.log_density(theta), result.log_density(theta), rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(loaded.density_sd(theta), result.density_sd(theta), rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(loaded.sample(20, seed=1), result.sample(20, seed=1), rtol=1e-6)
    np.testing.assert_array_equal(loaded.samples, result.samples)
    for field in {f.name for f in fields(tbq.Result)} - {"surrogate", "likelihood"}:
        assert plain(getattr(loaded, field)) == plain(getattr(result, field))
    assert loaded.normalized == result.normalized
    assert loaded.summary() == result.summary()


# --- one file -----------------------------------------------------------------------------------------------


def test_a_result_comes_back(gaussian, tmp_path):
    loaded = round_trip(gaussian, tmp_path)
    assert_same(loaded, gaussian)
    np.testing.assert_array_equal(loaded.likelihood.observed, OBSERVED)
    assert loaded.normalized is True
    assert [p.name for p in tmp_path.iterdir()] == ["run.tbq"]


def test_a_result_with_a_border_comes_back(bordered, tmp_path):
    assert type(bordered.surrogate).__name__ == "Bounded"
    assert {e.status for e in bordered.evaluations} >= {"ok", "infeasible", "failed"}
    assert_same(round_trip(bordered, tmp_path), bordered)


@pytest.mark.parametrize("kernel", ["se", "matern52", "additive", "matern52_product"])
@pytest.mark.parametrize("basis", ["constant", "quadratic"])
def test_every_process_comes_back(gaussian, kernel, basis, tmp_path):
    from tbq.gp import fitting

    x = gaussian.prior.to_working(np.array([e.theta for e in gaussian.evaluations]))
    y = np.array([e.log_likelihood for e in gaussian.evaluations])
    warp, frame = Warp(float(y.max()), 8.0, np.array([0.3, -0.2])), Frame.of(x)
    gp = fitting.fit(frame(x), warp.forward(y, x), np.linspace(1e-6, 1e-3, len(y)), BY_NAME[kernel], basis)
    result = replace(gaussian, surrogate=LogNormal(gp, 0.8, 1.5, warp, 0.6, frame, 12.0, 2.0, 0.04, 0.01))
    assert_same(round_trip(result, tmp_path), result)


def test_a_process_conditioned_since_it_was_fitted_comes_back(gaussian, tmp_path):
    far = replace(gaussian, surrogate=gaussian.surrogate.condition_on_mean(np.array([3.0, 3.0])))
    values = far.surrogate.batch.values
    assert np.all(np.abs(values.offset - values.y.mean(axis=1)) > 0.1 * values.scale)
    assert_same(round_trip(far, tmp_path), far)


def test_a_posterior_as_prior_comes_back(gaussian, tmp_path):
    second = tbq.infer(curved, gaussian.as_prior(), **QUICK)
    loaded = round_trip(second, tmp_path)
    assert_same(loaded, second)
    np.testing.assert_allclose(loaded.prior.sample(9, seed=2), second.prior.sample(9, seed=2), rtol=1e-6)


def test_a_loaded_result_goes_on(gaussian, tmp_path):
    loaded = round_trip(gaussian, tmp_path)
    again = tbq.infer(curved, PRIOR, warm_start=loaded.evaluations, **QUICK)
    assert again.n_evaluations > gaussian.n_evaluations
    with pytest.raises(tbq.TbqError, match=r"the likelihood's model is a function .* likelihood=\.\.\."):
        loaded.likelihood(PRIOR.sample(1, seed=0)[0])


def test_nothing_learned_comes_back(tmp_path):
    empty = tbq.infer(lambda theta: np.nan, PRIOR, seed=0, max_evaluations=12)
    loaded = round_trip(empty, tmp_path)
    assert np.isnan(loaded.log_evidence)
    assert loaded.surrogate is None
    assert loaded.errors == empty.errors
    assert loaded.summary() == empty.summary()


def test_a_constraint_is_not_stored_and_both_sides_are_told(tmp_path):
    prior = tbq.Prior(PRIOR.marginals, constraint=lambda theta: theta[0] < theta[1])
    result = tbq.infer(curved, prior, **QUICK)
    with pytest.warns(UserWarning, match=r"the prior's constraint is a function and is not stored"):
        result.save(tmp_path / "run.tbq")
    with pytest.raises(tbq.TbqError, match=r"constraint is a function .* tbq\.load\(path, prior=\.\.\.\)"):
        tbq.load(tmp_path / "run.tbq")
    with pytest.raises(tbq.TbqError, match=r"prior must be the result's, .*constrained.*; got Prior"):
        tbq.load(tmp_path / "run.tbq", prior=tbq.Prior(PRIOR.marginals))
    assert_same(tbq.load(tmp_path / "run.tbq", prior=prior), result)


def test_a_distribution_of_ones_own_is_not_stored(tmp_path):
    class Triangle(stats.rv_continuous):
        def _pdf(self, x):
            return 2.0 * x

        def _cdf(self, x):
            return x**2

        def _ppf(self, q):
            return np.sqrt(q)

    prior = tbq.Prior({"t": Triangle(a=0, b=1, name="triangle")()})
    result = tbq.infer(lambda theta: -2.0 * (theta[0] - 0.5) ** 2, prior, **QUICK)
    with pytest.warns(UserWarning, match=r"the distribution of 't' is not one of scipy\.stats"):
        result.save(tmp_path / "run.tbq")
    assert_same(tbq.load(tmp_path / "run.tbq", prior=prior), result)


def test_the_likelihoods_functions_are_taken_again(tmp_path):
    noisy = lambda observed: tbq.GaussianLikelihood(model, observed, 0.3, scale=lambda theta: theta[1])
    result = tbq.infer(noisy(OBSERVED), PRIOR, **QUICK)
    theta = PRIOR.sample(1, seed=0)
    with pytest.warns(UserWarning, match=r"scale .* is not stored; .* tbq\.load\(path, likelihood=\.\.\.\)") as told:
        loaded = round_trip(result, tmp_path, likelihood=noisy(OBSERVED))
    assert [w.filename for w in told] == [__file__]
    assert_same(loaded, result)
    assert loaded.likelihood(theta[0]) == result.likelihood(theta[0])
    without = tbq.load(tmp_path / "run.tbq")
    assert without.log_evidence == result.log_evidence
    with pytest.raises(tbq.TbqError, match="scale of the likelihood's noise is a function"):
        without.likelihood.log_scales(theta)
    with pytest.raises(tbq.TbqError, match="likelihood must be the result's; its data"):
        tbq.load(tmp_path / "run.tbq", likelihood=noisy(OBSERVED + 1.0))
    with pytest.raises(tbq.TbqError, match=r"likelihood must be a tbq\.GaussianLikelihood; got function"):
        tbq.load(tmp_path / "run.tbq", likelihood=curved)
    with pytest.raises(tbq.TbqError, match=r"the result was not of a tbq\.GaussianLikelihood"):
        round_trip(replace(result, likelihood=None), tmp_path, likelihood=noisy(OBSERVED))


def test_a_posterior_whose_noise_has_a_scale_is_no_prior_that_can_be_stored(tmp_path):
    likelihood = tbq.GaussianLikelihood(model, OBSERVED, 0.3, scale=lambda theta: theta[1])
    prior = tbq.infer(likelihood, PRIOR, **QUICK).as_prior()
    result = tbq.infer(curved, prior, **QUICK)
    with pytest.warns(UserWarning, match=r"scale of the noise behind the prior is a function and is not stored"):
        result.save(tmp_path / "run.tbq")
    with pytest.raises(tbq.TbqError, match=r"scale of the noise .* give it: tbq\.load\(path, prior=\.\.\.\)"):
        tbq.load(tmp_path / "run.tbq")
    assert_same(tbq.load(tmp_path / "run.tbq", prior=prior), result)


def test_the_file_holds_text_and_plain_arrays(gaussian, tmp_path):
    gaussian.save(tmp_path / "run.tbq")
    with np.load(tmp_path / "run.tbq", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["samples"], gaussian.samples)
        np.testing.assert_array_equal(file["surrogate.processes.x"], gaussian.surrogate.batch.values.x)
        text = json.loads(file["result.json"])
    assert text["log_evidence"] == gaussian.log_evidence
    assert text["version"] == tbq.__version__


def test_what_cannot_be_read_is_said(gaussian, tmp_path):
    path = tmp_path / "run.tbq"
    with pytest.raises(tbq.TbqError, match=r"load: .*run\.tbq cannot be read: No such file"):
        tbq.load(path)
    with pytest.raises(tbq.TbqError, match=r"save: .* cannot be written"):
        gaussian.save(tmp_path / "nowhere" / "run.tbq")
    with pytest.raises(tbq.TbqError, match="save: path must be the name of a file; got int"):
        gaussian.save(3)
    with pytest.raises(tbq.TbqError, match=r"save: path must be the name of a file; got '\.'"):
        gaussian.save(".")
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(tbq.TbqError, match="not a result that tbq saved"):
        tbq.load(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("result.json", json.dumps({"format": 99, "version": "9.0"}))
    with pytest.raises(tbq.TbqError, match=r"has format 99 of tbq 9\.0; this tbq reads format 1"):
        tbq.load(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("result.json", json.dumps({"format": 1, "version": "0.1"}))
    with pytest.raises(tbq.TbqError, match="is damaged: there is no 'likelihood'"):
        tbq.load(path)


def test_saving_again_replaces_and_a_cut_file_is_refused(gaussian, bordered, tmp_path):
    path = tmp_path / "run.tbq"
    gaussian.save(path)
    bordered.save(path)
    assert tbq.load(path).log_evidence == bordered.log_evidence
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(tbq.TbqError, match="damaged"):
        tbq.load(path)


def test_files_of_the_first_format_are_read():
    # written when the format was made: it must be read for ever, or refused in words
    loaded = tbq.load(Path(__file__).parents[1] / "assets/result_format_1.tbq")
    assert loaded.log_evidence == -4.2052784941066434
    assert loaded.log_evidence_sd == pytest.approx(0.25958559628782996)
    theta = np.array([[0.2, 1.0], [0.5, 1.5]])
    # as its surrogate was understood then: moments of warped processes were linear ones, borders normal ones
    side = loaded.surrogate.region.at(loaded.prior.to_working(theta))
    normal = special.log_ndtr(side.latent.mean / side.sd)
    density = loaded.log_density(theta) - special.log_ndtr(side.t) + normal
    np.testing.assert_allclose(density, [-1.1349277730356153, 0.16542808837845513], atol=0.02)
    assert type(loaded.surrogate).__name__ == "Bounded"
    assert {e.status for e in loaded.evaluations} == {"ok", "infeasible"}
    np.testing.assert_array_equal(loaded.likelihood.observed, OBSERVED)


# --- other tools --------------------------------------------------------------------------------------------


def _arviz():
    pytest.importorskip("h5netcdf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("arviz")


def test_arviz_reads_the_draws(gaussian):
    arviz = _arviz()
    data = gaussian.to_arviz()
    posterior = data["posterior"]
    assert posterior["a"].shape == (4, len(gaussian.samples) // 4)
    drawn = np.sort(np.ravel(posterior["a"].values))
    np.testing.assert_array_equal(drawn, np.sort(gaussian.samples[:, 0]))
    lp = data["sample_stats"]["lp"].values[1, 2]
    theta = [posterior[name].values[1, 2] for name in ("a", "b")]
    assert lp == pytest.approx(float(gaussian.log_density(theta)))
    assert posterior.attrs["log_evidence"] == gaussian.log_evidence
    np.testing.assert_array_equal(data["observed_data"]["observed"].values, OBSERVED)
    assert float(data["prior"]["a"].mean()) == pytest.approx(0.0, abs=0.06)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = arviz.summary(data)
    assert list(table.index) == ["a", "b"]
    np.testing.assert_allclose(table["mean"].astype(float), gaussian.samples.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(table["r_hat"].astype(float), 1.0, atol=0.02)


def test_arviz_1_is_given_the_tree_itself(gaussian, monkeypatch):
    arviz, xarray = _arviz(), pytest.importorskip("xarray")
    monkeypatch.setattr(arviz, "__version__", "1.0.0")
    data = gaussian.to_arviz()
    assert isinstance(data, xarray.DataTree)
    assert data["posterior"]["a"].dims == ("chain", "draw")


def test_netcdf_comes_back_through_xarray(gaussian, tmp_path):
    _arviz()
    import xarray

    export.to_netcdf(gaussian, tmp_path / "run.nc")
    with xarray.open_datatree(tmp_path / "run.nc", engine="h5netcdf") as tree:
        assert tree.attrs["log_evidence_sd"] == gaussian.log_evidence_sd
        np.testing.assert_array_equal(tree["posterior"]["b"].values.T.ravel(), gaussian.samples[:, 1])


def test_csv_keeps_every_digit(gaussian, tmp_path):
    export.to_csv(gaussian, tmp_path / "draws.csv")
    with (tmp_path / "draws.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["a", "b", "log_density"]
    numbers = np.array(rows, dtype=float)
    np.testing.assert_array_equal(numbers[:, :2], gaussian.samples)
    np.testing.assert_array_equal(numbers[:, 2], gaussian.log_density(gaussian.samples))


NAMES = ["E/E0", "E_E0", "a,b", 'say "x"', "it's", "chain", ".", "blank ", "=1+1", "größe [m/s]"]


@pytest.fixture(scope="module")
def oddly_named():
    prior = tbq.Prior({name: stats.uniform(0, 1) for name in NAMES}, units={"E/E0": "1"})
    options = {"seed": 0, "n_initial": 24, "max_evaluations": 24, "population": 300}
    return tbq.infer(lambda theta: -float(theta.sum()), prior, **options)


def test_any_name_comes_back_through_every_export(oddly_named, tmp_path):
    _arviz()
    import xarray

    assert round_trip(oddly_named, tmp_path).prior.names == tuple(NAMES)
    export.to_csv(oddly_named, tmp_path / "draws.csv")
    with (tmp_path / "draws.csv").open(newline="", encoding="utf-8") as file:
        assert next(csv.reader(file)) == [*NAMES, "log_density"]
    assert read_csv(tmp_path / "draws.csv", "a,b") == oddly_named.samples[:, NAMES.index("a,b")].tolist()
    export.to_netcdf(oddly_named, tmp_path / "run.nc")
    with xarray.open_datatree(tmp_path / "run.nc", engine="h5netcdf") as tree:
        for group in ("posterior", "prior"):
            variables = tree[group].data_vars
            assert [v.attrs["long_name"] for v in variables.values()] == NAMES
            assert [*variables][:2] == ["E_E0_", "E_E0"]  # what can have its own name has it
            assert variables["E_E0_"].attrs["units"] == "1"
        found = np.array([tree["posterior"][v].values.T.ravel() for v in variables])
    np.testing.assert_array_equal(found.T, oddly_named.samples)
    oddly_named.report(tmp_path / "run.html")
    assert "E/E0" in (tmp_path / "run.html").read_text()
    assert all(name in oddly_named.summary() for name in NAMES)
    assert oddly_named.to_arviz()["posterior"]["E_E0_"].attrs["long_name"] == "E/E0"


def test_a_column_is_not_there_twice(tmp_path):
    prior = tbq.Prior({"log_density": stats.uniform(0, 1)})
    result = tbq.infer(lambda theta: -theta[0], prior, seed=0, max_evaluations=12, population=100)
    with pytest.raises(tbq.TbqError, match="the column log_density would be there twice"):
        export.to_csv(result, tmp_path / "draws.csv")


def test_without_draws_there_is_nothing_to_export():
    _arviz()
    empty = tbq.infer(lambda theta: np.nan, PRIOR, seed=0, max_evaluations=12)
    with pytest.raises(tbq.TbqError, match="no posterior draws to export"):
        empty.to_arviz()


def test_what_is_missing_is_named(gaussian, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r"needs xarray: pip install 'tbq\[arviz\]'"):
        gaussian.to_arviz()
