"""The findings: each against something known, and all of them on runs that are bad on purpose."""

import functools
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.engine.records import ErrorBudget
from tbq.evidence import moments
from tbq.problem.evaluation import Status
from tbq.problem.settings import resolve
from tbq.problem.tuning import Tuning
from tbq.report import diagnostics, summary
from tbq.report.left_out import left_out
from tbq.result.modes import maximum
from tbq.run.session import Session

BOX = tbq.Prior({"a": stats.uniform(-4, 8), "b": stats.uniform(-4, 8)})
LEFT = tbq.Prior({"a": stats.uniform(-4, 4), "b": stats.uniform(-4, 8)})
MODES = np.array([[-2.0, -2.0], [2.0, 2.0]])


def one_mode(theta):
    return float(-0.5 * np.sum((theta - MODES[0]) ** 2) / 0.5**2)


def two_modes(theta):
    return float(np.logaddexp(*(-0.5 * np.sum((theta - MODES) ** 2, axis=1) / 0.3**2)))


@pytest.fixture(scope="module")
def good():
    return tbq.infer(one_mode, BOX, seed=0, population=1024)


def by_name(result):
    return {f.name: f for f in diagnostics.findings(result)}


def failing(result):
    return {f.name for f in diagnostics.findings(result) if not f.ok}


# --- a good run ---------------------------------------------------------------------------------------------


def test_nothing_speaks_against_a_good_run(good):
    found = by_name(good)
    assert good.log_evidence == pytest.approx(np.log(2 * np.pi * 0.25 / 64), abs=0.05)
    assert failing(good) == set()
    assert len(found) == 12
    assert diagnostics.verdict(found.values()) == "Nothing speaks against this result: all 12 checks are passed."
    for f in found.values():
        assert f.sentence.endswith(".")
        assert f.advice.endswith(".")
        assert np.isfinite([f.value, f.threshold]).all()


def test_leave_one_out_is_what_a_fit_without_the_run_says(good):
    from tbq.gp import regression as gps

    runs, gp = left_out(good), good.surrogate.gp
    assert good.surrogate.warp is None
    for i in (0, 5, len(gp.x) - 1):
        keep = np.arange(len(gp.x)) != i
        without = gps.build(gp.x[keep], gp.y[keep], gp.noise[keep], gp.kernel, gp.basis, gp.parameters)
        mean, variance = without.predict(gp.x[[i]])
        assert runs.expected[i] == pytest.approx(mean[0], rel=1e-3, abs=1e-3)
        assert runs.sd[i] ** 2 == pytest.approx(variance[0] + gp.noise[i], rel=0.05, abs=1e-6)
    np.testing.assert_array_equal(runs.found, [e.log_likelihood for e in good.evaluations])


def test_leave_one_out_of_a_warped_surrogate_is_in_units_of_the_log_likelihood():
    from tbq.surrogate.data import Data
    from tbq.surrogate.models import Model, fitted

    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (30, 1))
    y = -20.0 * x[:, 0] ** 2
    data = Data(x, y, np.full(30, 1e-6), 1.0, None, Tuning())
    surrogate, _ = fitted(Model("se", "constant", warped=True), data, None, search=True)
    mean, variance = surrogate.left_out(x)
    assert surrogate.warp is not None
    inner = np.abs(x[:, 0]) < 1.5
    np.testing.assert_allclose(mean[inner], y[inner], atol=1.0)
    assert np.all(variance > 0)


def test_a_surrogate_without_leave_one_out_leaves_the_finding_out(good):
    class Other:
        def __init__(self, inner):
            self._inner = inner

        def __getattr__(self, name):
            if name == "left_out":
                raise AttributeError(name)
            return getattr(self._inner, name)

    other = replace(good, surrogate=Other(good.surrogate))
    assert left_out(other) is None
    assert set(by_name(good)) - set(by_name(other)) == {"leave-one-out"}


def test_a_surrogate_with_a_border_offers_leave_one_out():
    result = tbq.infer(lambda t: one_mode(t) if t[0] < 0 else -np.inf, BOX, seed=0, population=512, max_evaluations=40)
    assert "border" in result.surrogate.description
    runs = left_out(result)
    assert len(runs.found) == sum(np.isfinite(e.log_likelihood) for e in result.evaluations) < result.n_evaluations


def test_a_surrogate_of_the_outputs_is_judged_alike():
    likelihood = tbq.GaussianLikelihood(lambda theta: [theta[0], theta[0] * theta[1]], [1.0, 0.5], 0.3)
    result = tbq.infer(likelihood, BOX, seed=0, population=512, surrogate="outputs")
    assert "outputs" in result.surrogate.description
    runs = left_out(result)
    np.testing.assert_array_equal(runs.found, [e.log_likelihood for e in result.evaluations])
    assert {"leave-one-out", "other surrogates", "unsure mass"} <= set(by_name(result))
    doubted = replace(result, notes=("The outputs have jumps.",))
    assert failing(doubted) - failing(result) == {"surrogate"}
    assert "The outputs have jumps." in doubted.summary()


def hidden(theta):
    """Two outputs of which the first is missing in a part of the prior."""
    return np.array([np.nan if theta[0] > 2.0 else theta[0], theta[0] * theta[1]])


def left_out_by_rebuilding(surrogate, z):
    """What the surrogate says of a run at z when its processes are built anew without it."""
    from tbq.gp.batch import build

    inner = getattr(surrogate, "inner", surrogate)
    values = inner.batch.values
    keep = np.linalg.norm(values.x - z, axis=1) > 1e-9
    assert keep.sum() == len(values.x) - 1
    rows = {name: getattr(values, name)[:, keep] for name in ("y", "noise", "seen")}
    fewer = replace(values, x=values.x[keep], **rows)
    other = replace(inner, batch=build(fewer, inner.batch.kernel, inner.batch.parameters))
    return other.log_likelihood(other.at(z[None, :]))[0][0]


def test_leave_one_out_knows_which_runs_are_whose_where_outputs_are_missing():
    result = tbq.infer(
        tbq.GaussianLikelihood(hidden, [1.0, 0.5], 0.3),
        BOX,
        seed=0,
        population=512,
        surrogate="outputs",
        max_evaluations=20,
    )
    good = [e for e in result.evaluations if e.status is Status.OK]
    assert len(set(result.surrogate.batch.values.seen.sum(axis=1))) == 2  # one output is known more often
    runs = left_out(result)
    np.testing.assert_array_equal(runs.found, [e.log_likelihood for e in good])
    for i, z in enumerate(BOX.to_working(np.array([e.theta for e in good]))):
        assert runs.expected[i] == pytest.approx(left_out_by_rebuilding(result.surrogate, z), rel=1e-3, abs=0.05)
    assert "leave-one-out" in by_name(result)
    assert "outputs are missing" in result.summary()


def test_leave_one_out_knows_which_runs_are_whose_where_outputs_came_with_zero_likelihood():
    likelihood = tbq.GaussianLikelihood(lambda theta: theta, [1.0, 0.5], 0.3)
    session = tbq.Session(BOX, seed=0, likelihood=likelihood, population=512, max_evaluations=16)
    while not session.done:
        for p in session.ask(4):
            value = -np.inf if p.theta[0] < -2.0 else likelihood(p.theta)
            session.tell(p.id, log_likelihood=value, outputs=p.theta)
    result = session.result()
    good = [e for e in result.evaluations if e.status is Status.OK]
    assert 0 < len(good) < result.n_evaluations == len(result.surrogate.inner.batch.values.x)
    runs = left_out(result)
    np.testing.assert_array_equal(runs.found, [e.log_likelihood for e in good])
    for i, z in enumerate(BOX.to_working(np.array([e.theta for e in good]))):
        assert runs.expected[i] == pytest.approx(left_out_by_rebuilding(result.surrogate, z), rel=1e-3, abs=0.05)


def test_leave_one_out_is_left_out_where_the_surrogate_does_not_know_a_run(good):
    strange = replace(good.evaluations[0], theta=np.array([3.9, 3.9]))
    result = replace(good, evaluations=(strange, *good.evaluations[1:]))
    assert left_out(result) is None
    assert set(by_name(good)) - set(by_name(result)) == {"leave-one-out"}


def test_a_result_without_weights_or_predictions_says_nothing_of_them(good):
    more, less = replace(good, squared_z=(1.0,) * 10), replace(good, weights=np.empty(0), squared_z=())
    assert set(by_name(more)) - set(by_name(less)) == {"quadrature", "quadrature's tail", "predictions"}


# --- each finding -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0.2, 0.5, 0.9])
def test_tail_index_of_pareto_weights(k):
    estimates = [moments.tail_index(stats.genpareto(k).rvs(20_000, random_state=s)) for s in range(10)]
    assert np.mean(estimates) == pytest.approx(k, abs=0.08)


def test_tail_index_of_a_tail_of_equal_weights():
    weights = np.concatenate([np.zeros(1384), np.ones(116)])  # the third of 40 trial slopes is exactly zero
    assert moments.tail_index(weights) < 0.0


def test_tail_index_agrees_with_maximum_likelihood():
    weights = stats.genpareto(0.6).rvs(20_000, random_state=3)
    ordered = np.sort(weights)
    n = int(3 * np.sqrt(len(weights)))
    k, _, _ = stats.genpareto.fit(ordered[-n:] - ordered[-n - 1], floc=0.0)
    assert moments.tail_index(weights) == pytest.approx(k, abs=0.05)
    assert moments.tail_index(1e-9 * weights) == pytest.approx(moments.tail_index(weights))


def test_equal_weights_have_no_tail():
    assert moments.tail_index(np.full(1000, 1e-3)) == 0.0


def test_few_weights_that_carry_all_are_noticed(good):
    weights = np.random.default_rng(0).pareto(0.8, 9000)
    assert {"quadrature", "quadrature's tail"} <= failing(replace(good, weights=weights / weights.sum()))


def test_a_population_that_did_not_move_is_noticed_with_its_stage(good):
    stuck = replace(good.stages[-1], acceptance=0.02, unique=0.3, effective_sample_size=7.0)
    result = replace(good, stages=(*good.stages, stuck))
    assert failing(result) == {"weights", "acceptance", "diversity"}
    words = f"Stage {len(result.stages)} accepted only 2 % of its moves (10 % are needed)."
    assert by_name(result)["acceptance"].sentence == words
    assert diagnostics.verdict(diagnostics.findings(result)).startswith("Look twice: 3 of 12")


def test_surprising_runs_are_noticed(good):
    assert failing(replace(good, squared_z=(0.1,) * 30 + (16.0,) * 10)) == {"predictions"}
    assert by_name(replace(good, squared_z=(16.0,) * 10))["predictions"].value == pytest.approx(4.0)


def test_a_posterior_that_leans_against_its_prior_is_noticed():
    result = tbq.infer(lambda t: 5.0 * t[0], tbq.Prior({"x": stats.uniform(0, 4)}), seed=0, population=512)
    assert result.log_evidence == pytest.approx(np.log((np.exp(20) - 1) / 20), abs=0.1)
    finding = by_name(result)["prior's ends"]
    assert not finding.ok
    assert finding.value == pytest.approx(1 - np.exp(-5 * 0.08), abs=0.06)
    assert "lies at the upper end of the prior of x" in finding.sentence


def test_a_prior_that_fades_out_has_no_ends():
    prior = tbq.Prior({"x": stats.norm(0, 1), "y": stats.lognorm(0.5)})
    result = tbq.infer(lambda t: -2.0 * (t[0] - 3) ** 2, prior, seed=0, population=512, max_evaluations=25)
    assert "prior's ends" not in by_name(result)


def test_posterior_next_to_failed_runs_is_noticed():
    def fails(theta):
        if theta[0] > -2.0:
            raise ValueError("too soft")
        return one_mode(theta)

    result = tbq.infer(fails, BOX, seed=0, population=512, max_evaluations=40)
    finding = by_name(result)["failed runs"]
    assert not finding.ok
    assert finding.value == pytest.approx(0.5, abs=0.2)


def test_nothing_learned():
    def never(theta):
        raise ValueError("no licence")

    result = tbq.infer(never, BOX, seed=0, max_evaluations=12, outage_after=(np.inf, np.inf))
    assert failing(result) == {"successful runs"}
    assert "no licence" in result.summary()


def test_an_outage_is_told_from_a_theta_that_fails():
    def away(theta):
        raise tbq.Transient("no licence")

    (finding,) = diagnostics.findings(tbq.infer(away, BOX, seed=0, max_evaluations=12, patience=0.0))
    assert finding.sentence.startswith("Nothing was learned: no run is back.")
    assert finding.sentence.endswith(tbq.Stop.PAUSED.value)
    assert "Repair what is out of order" in finding.advice
    calls = []

    def sometimes(theta):
        calls.append(0)
        if 4 <= len(calls) < 10:
            raise ValueError("no licence")
        return one_mode(theta)

    advice = by_name(tbq.infer(sometimes, BOX, seed=0, population=512, max_evaluations=24))["failed runs"].advice
    assert "6 runs in a row, 3 to 8, failed alike (ValueError: no licence). If that was an outage" in advice
    assert "retry_failed=True" in advice

    def soft(theta):
        if theta[0] > 2.0:
            raise ValueError("too soft")
        return one_mode(theta)

    advice = by_name(tbq.infer(soft, BOX, seed=0, population=512, max_evaluations=24))["failed runs"].advice
    assert "outage" not in advice
    assert "constraint of the prior" in advice


def test_a_run_that_ended_before_anything_was_learned_has_passed_nothing():
    session = Session(BOX, seed=0)
    for point in session.ask(4):
        session.tell(point.id, log_likelihood=-1.0)
    result = session.result()
    assert result.surrogate is None
    assert "Do not rely on this yet" in result.summary()


# --- runs that are bad on purpose ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_budget_too_small_is_noticed(seed):
    problem = tbq.problems.get("u4")
    result = tbq.infer(problem.log_likelihood, problem.prior, seed=seed, population=512, max_evaluations=18)
    assert {"convergence", "evidence"} <= failing(result)
    assert "Do not rely on this yet" in result.summary()


def test_a_noisy_likelihood_is_mostly_noticed():
    noticed = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        noisy = lambda theta, rng=rng: one_mode(theta) + 0.7 * rng.standard_normal()
        result = tbq.infer(noisy, BOX, seed=seed, population=512, max_evaluations=45)
        noticed += 0.4 < result.log_likelihood_noise < 1.1 and "noisy runs" in by_name(result)
    assert noticed >= 2  # now and then such a run ends early, and nothing shows


@pytest.mark.parametrize("seed", range(3))
def test_a_mode_missed_where_nobody_looked_is_noticed(seed):
    # the runs of a study of the left half, taken over to the whole box; its other half has the second mode
    left = tbq.infer(two_modes, LEFT, seed=seed, population=512)
    assert left.converged
    taken_over = Session(BOX, seed=seed, population=512, warm_start=left).result()
    exact = np.log(2 * 2 * np.pi * 0.3**2 / 64)
    assert taken_over.log_evidence == pytest.approx(exact - np.log(2), abs=0.1)  # half of it
    finding = by_name(taken_over)["coverage"]
    assert not finding.ok
    assert finding.value == pytest.approx(0.5, abs=0.05)
    assert "of the prior of a has no run at all" in finding.sentence
    assert "coverage" not in failing(tbq.infer(two_modes, BOX, seed=seed, population=512))


def test_a_spike_that_no_run_came_near_is_not_noticed_but_the_limit_is_told():
    # two thirds of the evidence in one hundredth of the prior: no surrogate can know of it, and we say so
    spike = np.array([2.5, 2.5])
    log_likelihood = lambda t: float(np.logaddexp(one_mode(t), 3.0 - 0.5 * np.sum((t - spike) ** 2) / 0.15**2))
    settings = resolve(2, population=512, tuning=Tuning(explore_every=0, most_doubts=0), n_initial=12)
    session = Session.of(BOX, settings, seed=1)
    while not session.done:
        for p in session.ask():
            session.tell(p.id, log_likelihood=log_likelihood(p.theta))
    result = session.result()
    near = [e for e in result.evaluations if np.linalg.norm(e.theta - spike) < 0.6]
    assert near == []
    assert result.log_evidence < np.log(2 * np.pi * (0.25 + np.exp(3.0) * 0.15**2) / 64) - 0.9
    assert "less than 25 % of the prior" in diagnostics.unseen(result)
    assert diagnostics.unseen(result) in " ".join(result.summary().split())


# --- the summary --------------------------------------------------------------------------------------------


def test_marginals_of_a_known_posterior(good):
    for row, centre in zip(summary.marginals(good), MODES[0], strict=True):
        assert row.mean == pytest.approx(centre, abs=0.05)
        assert row.mode == pytest.approx(centre, abs=0.02)
        assert row.sd == pytest.approx(0.5, rel=0.06)
        assert (row.low, row.high) == pytest.approx((centre - 1.645 * 0.5, centre + 1.645 * 0.5), abs=0.1)
        assert row.narrowed == pytest.approx(1 - 2 * 1.645 * 0.5 / (0.9 * 8), abs=0.02)


def test_the_mode_is_found_at_the_end_of_the_prior():
    result = tbq.infer(lambda t: 5.0 * t[0], tbq.Prior({"x": stats.uniform(0, 4)}), seed=0, population=512)
    assert maximum(result) == pytest.approx([4.0], abs=1e-3)


def test_the_summary_tells_stages_outcomes_and_both_times(good):
    text = good.summary()
    assert "narrowed" in text
    assert f"evaluations    {good.n_evaluations} ok;" in text
    assert " in the log-likelihood, " in text
    assert " in tbq" in text
    rows = [line for line in text.splitlines() if line[:1].isdigit()]
    assert len(rows) == len(good.stages)
    assert max(len(line) for line in text.splitlines()) < 120


def test_our_own_time_is_counted_and_survives_a_resume(tmp_path):
    first = tbq.infer(one_mode, BOX, seed=0, population=256, max_evaluations=16, journal=tmp_path)
    again = tbq.infer(one_mode, BOX, seed=0, population=256, max_evaluations=16, journal=tmp_path)
    assert 0.0 < first.seconds < 60.0
    assert again.seconds == first.seconds


# --- words --------------------------------------------------------------------------------------------------


def test_every_sentence_says_whether_it_passed_and_stands_by_itself():
    good = by_name(RESULT())
    assert "well enough to compare models by it" in good["evidence"].sentence
    assert good["coverage"].sentence.startswith("Runs cover the prior")
    for f in good.values():
        assert f.sentence[0].isupper()
        assert not re.match(r"(No|The tail of their|Their|It|In \d)", f.sentence), f.sentence
        passing = (
            r"converged|enough|as they should|which is little|or better|Every stage|no few|does not lean|cover|away"
        )
        assert (re.search(passing, f.sentence) is not None) == f.ok, f.sentence


@pytest.mark.parametrize(
    ("errors", "stop", "words"),
    [
        ((0.1, 0.0, 0.0, 0.0, 1.2), tbq.Stop.CONVERGED, "comes from runs that failed, which more runs do not cure"),
        ((0.1, 0.0, 0.9, 0.0, 0.0), tbq.Stop.CONVERGED, "larger population, not more runs"),
        ((0.9, 0.0, 0.1, 0.0, 0.0), tbq.Stop.CONVERGED, "Go on with a smaller tolerance"),
        ((0.9, 0.0, 0.1, 0.0, 0.0), tbq.Stop.BUDGET, "Give more runs"),
        ((0.1, 0.0, 0.1, 0.9, 0.0), tbq.Stop.BUDGET, "Give more runs"),
    ],
)
def test_advice_on_the_error_fits_its_cause(errors, stop, words):
    result = replace(RESULT(), errors=ErrorBudget(*errors), stop=stop)
    finding = by_name(result)["evidence"]
    assert not finding.ok
    assert words in finding.advice


def test_advice_of_more_runs_is_what_makes_them():
    def advice(stop):
        return by_name(replace(RESULT(), stop=stop))["leave-one-out"].advice

    assert "`tbq resume DIR --tolerance T`" in advice(tbq.Stop.CONVERGED)  # a larger budget alone would do nothing
    assert "--max-evaluations N" in advice(tbq.Stop.BUDGET)
    assert advice(tbq.Stop.UNFINISHED).startswith("Let it go on (wait where it still runs; else `tbq resume DIR`")
    assert advice(tbq.Stop.PAUSED).startswith("Repair")


def test_where_runs_failed_the_gap_in_the_prior_is_theirs():
    def tangled(theta):
        if theta[0] > 0.5:
            raise RuntimeError("mesh tangled")
        return log_of_hole(theta)

    def log_of_hole(theta):
        return -0.5 * float(np.sum(((theta + 1.0) / 0.3) ** 2))

    result = tbq.infer(tangled, BOX, seed=0, population=512, max_evaluations=40)
    finding = by_name(result)["coverage"]
    assert not finding.ok
    assert "of the prior of a has no run that succeeded (above 0." in finding.sentence
    assert "runs failed there, and nothing is known of it." in finding.sentence
    assert finding.advice.startswith("Find out why")


@functools.cache
def RESULT():  # noqa: N802 - made once
    return tbq.infer(tbq.problems.get("u1").log_likelihood, tbq.problems.get("u1").prior, seed=0)


def test_the_summary_fits_eighty_columns():
    prior = tbq.Prior({"k": stats.norm(-1.2e5, 3e3), "a parameter of a long name": stats.norm(0, 1e-7)})
    result = tbq.infer(lambda t: -0.5 * ((t[0] + 1.2e5) / 1e3) ** 2, prior, seed=0, max_evaluations=12, population=128)
    summary = result.summary()
    assert max(map(len, summary.splitlines())) <= 80, summary
    assert "a parameter of a long name" in summary
    assert not result.converged  # so that there is advice in it
    said = "ProgramError: " + "a command of many words " * 6 + "\nIts stderr ends with:\n  " + "iteration 1; " * 20
    failed = replace(result.evaluations[0], status=Status.FAILED, message=f"{said}\nIts directory is kept: /w/run-0001")
    summary = replace(result, evaluations=(*result.evaluations, failed), outage=said).summary()
    assert max(map(len, summary.splitlines())) <= 80, summary
    assert summary.count("iteration") == 40
    assert "\n  iteration 1;" in summary
    assert "\nIts directory is kept: /w/run-0001\n" in summary
    assert "Give more runs" in summary


def test_a_tail_that_carries_next_to_nothing_is_none():
    heavy = stats.genpareto(0.9).rvs(10_000, random_state=0)
    assert moments.tail_index(heavy) > 0.7
    assert moments.tail_index(1.0 + 1e-4 * heavy) == 0.0
    assert moments.tail_index(1.0 + heavy) > 0.7
