"""Whole runs with many parameters and outputs: models, stored references, and what the study makes of them."""

from dataclasses import replace

import numpy as np
import pytest

from tbq.bench import output_overhead, scale, scale_models, studies


def test_every_case_has_a_stored_reference_of_its_dimension():
    stored = scale.references()
    assert stored.keys() == scale_models.CASES.keys()
    for name, make in scale_models.CASES.items():
        case = make()
        assert len(stored[name].mean) == len(stored[name].sd) == case.d
        assert stored[name].log_evidence_sd < 0.02
        assert case.model(np.zeros(case.d)).shape == case.observed.shape


def test_a_reference_of_a_linear_model_is_its_closed_form():
    slopes = np.array([[1.0, 0.5], [0.2, 2.0], [1.0, -1.0]])
    case = scale_models.Case("linear", 2, lambda theta: slopes @ theta, np.array([0.3, -1.0, 0.8]))
    found = scale_models.reference(case, 4000)
    covariance = np.eye(3) + slopes @ slopes.T
    exact = -0.5 * case.observed @ np.linalg.solve(covariance, case.observed)
    exact -= 0.5 * np.linalg.slogdet(2.0 * np.pi * covariance)[1]
    assert found.log_evidence == pytest.approx(exact, abs=4.0 * found.log_evidence_sd)
    assert found.log_evidence_sd < 0.02
    posterior = np.linalg.inv(slopes.T @ slopes + np.eye(2))
    np.testing.assert_allclose(found.mean, posterior @ slopes.T @ case.observed, atol=0.05)
    np.testing.assert_allclose(found.sd, np.sqrt(np.diag(posterior)), rtol=0.05)


def test_a_stored_reference_is_what_is_found_again():
    again, stored = scale_models.reference(scale_models.CASES["mild20"](), 4000), scale.references()["mild20"]
    assert again.log_evidence == pytest.approx(stored.log_evidence, abs=4.0 * again.log_evidence_sd)


def test_parameters_that_do_nothing_do_nothing():
    case = scale_models.CASES["mild10of60"]()
    theta = np.random.default_rng(0).standard_normal(60)
    changed = theta.copy()
    changed[10:] = 0.0
    np.testing.assert_array_equal(case.model(theta), case.model(changed))


def test_a_study_is_kept_goes_on_and_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "measure", scale.run)
    row = scale.study(["dof2"], [1], tmp_path)[0]
    assert (row.parameters, row.outputs, row.components, row.converged) == (2, 2, 2, True)
    assert abs(row.error) < 3.0 * row.stated
    monkeypatch.setattr(scale, "measure", None)  # nothing is missing
    assert scale.study(["dof2"], [1], tmp_path)[0].calls == row.calls
    assert f"| dof2 | 2 | 2 | 2 | 1 | {row.calls:.1f}" in (tmp_path / "scale.md").read_text()
    before = [replace(row, seconds=30.0)]
    assert "30.0" in scale.table_rows([row], before)[0][-2]


def test_parts_of_our_own_time_with_outputs_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(output_overhead, "measure", output_overhead._measure)
    rows = output_overhead.study(tmp_path, [("chain6", 12)])
    assert (rows[0].d, rows[0].outputs, rows[0].runs) == (6, 21, 12)
    assert all(getattr(rows[0], part) > 0.0 for part in output_overhead.PARTS)
    assert output_overhead.table_rows([replace(rows[0], search=0.5)])[0][7] == "0.50"
    many = [replace(rows[0], case="chain10", runs=n, anew=n**2 / 1e3, update=1.0) for n in (30, 60, 120)]
    assert output_overhead.exponent_rows(many)[0][2:4] == ["2.0", "0.0"]


def test_whole_runs_before_and_now_are_those_of_the_cases_that_have_both(tmp_path):
    row = scale.Row("dof3", 0, 3, 3, 3, 20, 0.0, 0.01, np.nan, True, 2.0, 100.0)
    kept = {"runs": [row, replace(row, case="chain20")], "before": [replace(row, seconds=9.0, calls=24)]}
    for name, rows in kept.items():
        studies.run_missing(lambda r: r, [(r,) for r in rows], 1, tmp_path / f"scale_{name}.csv")
    assert output_overhead.whole_run_rows(tmp_path) == [["dof3", "3", "3", "9.0", "2.0", "24.0", "20.0"]]
