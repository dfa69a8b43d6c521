"""Real posteriors: the likelihoods against other libraries, and their evidences by other ways than they were found."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, special, stats

import tbq
from tbq.problems import odes, psychometrics, regression, samples, series

NAMES = tbq.problems.real_names()
LOG10 = np.log(10.0)


@pytest.fixture
def references(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import real_references

    yield real_references
    del sys.modules["real_references"]


def test_there_are_a_dozen_and_more_and_all_are_listed():
    assert len(NAMES) >= 12
    assert set(NAMES) < set(tbq.problems.names())


@pytest.mark.parametrize("name", NAMES)
def test_one_point_rows_and_blocks_of_rows_have_the_same_values(name):
    problem = tbq.problems.get(name)
    assert problem.name == name
    assert problem.prior.dim == int(name[-1])
    theta = problem.prior.sample(6, seed=1)
    rows = problem.log_likelihood(theta)
    assert rows.shape == (6,)
    np.testing.assert_allclose([problem.log_likelihood(row) for row in theta], rows, rtol=1e-12)
    np.testing.assert_allclose(problem.log_likelihood(theta.reshape(2, 3, -1)), rows.reshape(2, 3), rtol=1e-12)
    assert np.ndim(problem.log_likelihood(theta[0])) == 0


@pytest.mark.parametrize("name", NAMES)
def test_values_over_the_prior_are_numbers_and_deep(name):
    problem = tbq.problems.get(name)
    values = problem.log_likelihood(problem.prior.sample(500, seed=2))
    if name == "extremes3":  # data out of reach
        values = values[values > -np.inf]
        assert 200 < len(values) < 400
    assert np.all(np.isfinite(values))
    assert np.median(values) < problem.reference.log_evidence - 50.0


@pytest.mark.parametrize("name", NAMES)
def test_references_are_sampled_to_two_hundredths(name):
    reference = tbq.problems.get(name).reference
    assert 0.0 < reference.log_evidence_sd <= 0.02
    if reference.modes:
        assert sum(mode.mass for mode in reference.modes) == pytest.approx(1.0, abs=1e-3)


# --- likelihoods against scipy --------------------------------------------------------------------------------


def check(name, theta, expected):
    assert tbq.problems.get(name).log_likelihood(np.array(theta)) == pytest.approx(expected, rel=1e-9)


def test_series_against_normal_densities():
    correlated = stats.multivariate_normal(np.full(48, 186.0), series.covariance() + 1.5**2 * np.eye(48))
    check("series2", [1.5, 186.0], correlated.logpdf(series.VALUES))
    wave = -33.0 + 4.0 * np.sin(2 * np.pi * series.NIGHTS / 12.0 + 2.0)
    check("sinusoid5", [12.0, 4.0, 2.0, -33.0, 2.0], stats.norm(wave, np.sqrt(5.0)).logpdf(series.VELOCITIES).sum())


def test_regressions_against_normal_densities():
    x = regression.LINE_X
    check("line3", [3.0, -1.0, 0.7], stats.norm(3.0 - x, 0.7).logpdf(regression.LINE).sum())
    x = regression.CUBIC_X
    curve = 1.0 - 2.0 * x + 3.0 * x**2 - x**3
    check("cubic5", [1.0, -2.0, 3.0, -1.0, 1.1], stats.norm(curve, 1.1).logpdf(regression.CUBIC).sum())
    curve = 70.0 / (1.0 + np.exp(-0.2 * (regression.GROWTH_X - 25.0)))
    check("growth4", [70.0, 0.2, 25.0, 2.0], stats.norm(curve, 2.0).logpdf(regression.GROWTH).sum())
    curve = 7.0 * np.exp(-2.0 * regression.DECAY_X) + 6.0 * np.exp(-0.3 * regression.DECAY_X) + 1.0
    expected = stats.norm(curve, 0.2).logpdf(regression.DECAY).sum()
    check("exponentials6", [7.0, 2.0, 6.0, 0.3, 1.0, 0.2], expected)
    check("exponentials6", [6.0, 0.3, 7.0, 2.0, 1.0, 0.2], expected)


def test_counts_against_binomial_probabilities():
    p = 0.95 / (1.0 + np.exp(-(0.3 + 1.1 * psychometrics.SIGNAL - 0.8 * psychometrics.DISTRACTOR))) + 0.025
    check("lapse4", [0.3, 1.1, -0.8, 0.05], stats.binom(12, p).logpmf(psychometrics.CHOSEN).sum())
    levels = np.linspace(-8, 8, 9)
    p = np.concatenate([stats.norm(1.0, 2.0).cdf(levels), stats.norm(-1.0, 3.0).cdf(levels)])
    expected = stats.binom(50, 0.03 + 0.92 * p).logpmf(psychometrics.SEEN).sum()
    check("psychometric6", [1.0, -1.0, 2.0, 3.0, 0.03, 0.05], expected)


def test_samples_against_their_distributions():
    factor = np.array([[-2.2, 0.0], [-1.0, 0.8]])
    law = stats.multivariate_normal([11.0, -6.0], factor @ factor.T)
    pairs = np.column_stack([samples.FIRST, samples.SECOND])
    check("loadings5", [11.0, -6.0, -2.2, -1.0, 0.8], law.logpdf(pairs).sum())
    life = stats.weibull_min(1.4, scale=900.0 * np.exp(-1.1 * samples.STRESS))
    expected = np.where(samples.FAILED, life.logpdf(samples.HOURS), life.logsf(samples.HOURS)).sum()
    check("weibull3", [1.4, 900.0, 1.1], expected)
    for shape in (0.2, -0.2):
        law = stats.genextreme(-shape, 60.0, 13.0)  # scipy's shape has the other sign
        check("extremes3", [60.0, 13.0, shape], law.logpdf(samples.MAXIMA).sum())
    assert tbq.problems.get("extremes3").log_likelihood(np.array([60.0, 13.0, -0.5])) == -np.inf


def solution(slope, start, times):
    return integrate.solve_ivp(slope, (0.0, times[-1]), start, t_eval=times, rtol=1e-10, atol=1e-10).y


def test_solutions_near_the_data_are_those_of_the_equations():
    theta = np.array([1.7, 0.45, 2.0, 0.6, 15.0])
    slope = lambda _, s: [-1.7 * s[0] * s[1] / 763.0, 1.7 * s[0] * s[1] / 763.0 - 0.45 * s[1]]
    np.testing.assert_allclose(odes.infected(theta), solution(slope, [761.0, 2.0], np.arange(1.0, 19.0))[1], rtol=1e-4)
    theta = np.array([0.2, 0.3, 2.6, -1.0, 1.0, 0.3, 0.15])
    slope = lambda _, s: [2.6 * (s[0] - s[0] ** 3 / 3 + s[1]), (0.2 - s[0] - 0.3 * s[1]) / 2.6]
    expected = solution(slope, [-1.0, 1.0], np.arange(0.5, 20.1, 0.5))
    np.testing.assert_allclose(odes.nerve(theta), expected, atol=1e-3)
    theta = np.array([0.9, 2.1, 14.0, 3.0, 0.5])
    used = [
        s - solution(lambda _, y: -0.9 * y / (2.1 + y), [s], np.arange(1.0, 15.1, 2.0))[0] for s in (1.0, 4.0, 10.0)
    ]
    np.testing.assert_allclose(odes.product(theta), np.concatenate(used), rtol=1e-6)
    theta = np.array([0.55, 0.028, 0.8, 0.024, 33.0, 6.0, 0.2, 0.2])
    slope = lambda _, s: [0.55 * s[0] - 0.028 * s[0] * s[1], 0.024 * s[0] * s[1] - 0.8 * s[1]]
    expected = np.log(solution(slope, [33.0, 6.0], np.arange(0.0, 21.0)))
    np.testing.assert_allclose(odes.log_animals(theta), expected, atol=1e-4)


def test_noise_of_the_equations_data():
    theta = np.array([1.7, 0.45, 2.0, 0.6, 15.0])
    mean = 0.6 * odes.infected(theta)
    check("sir5", theta, stats.nbinom(15.0, 15.0 / (15.0 + mean)).logpmf(odes.ILL).sum())
    theta = np.array([0.2, 0.3, 2.6, -1.0, 1.0, 0.3, 0.15])
    voltage, recovery = odes.nerve(theta)
    expected = stats.norm(voltage, 0.3).logpdf(odes.VOLTAGE).sum()
    check("fitzhugh7", theta, expected + stats.norm(recovery, 0.15).logpdf(odes.RECOVERY).sum())
    theta = np.array([0.9, 2.1, 14.0, 3.0, 0.5])
    check("enzyme5", theta, stats.norm(3.0 + 14.0 * odes.product(theta), 0.5).logpdf(odes.PRODUCT).sum())
    theta = np.array([0.55, 0.028, 0.8, 0.024, 33.0, 6.0, 0.2, 0.3])
    prey, predators = np.exp(odes.log_animals(theta))
    expected = stats.lognorm(0.2, scale=prey).logpdf(odes.PREY).sum()
    check("predators8", theta, expected + stats.lognorm(0.3, scale=predators).logpdf(odes.PREDATORS).sum())


# --- evidences ------------------------------------------------------------------------------------------------


def log_integral(log_density, low, high):
    """∫ over the logarithm of a scale parameter that is log-uniform between two numbers: the prior is flat there."""
    u = np.linspace(np.log(low), np.log(high), 4001)
    values = np.array([log_density(scale) for scale in np.exp(u)])
    top = values.max()
    return top + np.log(np.trapezoid(np.exp(values - top), u) / (u[-1] - u[0]))


def agrees(name, log_evidence):
    reference = tbq.problems.get(name).reference
    assert log_evidence == pytest.approx(reference.log_evidence, abs=4.0 * reference.log_evidence_sd)


def test_the_offset_of_a_series_is_integrated_exactly():
    def given(jitter):
        precision = np.linalg.inv(series.covariance() + jitter**2 * np.eye(48))
        weight, pull = precision.sum(), precision.sum(axis=1) @ series.VALUES
        residual = series.VALUES - pull / weight
        sign, log_det = np.linalg.slogdet(precision / (2.0 * np.pi))
        assert sign == 1.0
        return 0.5 * (log_det - residual @ precision @ residual + np.log(2.0 * np.pi / weight)) - np.log(2000.0)

    agrees("series2", log_integral(given, 0.01, 100.0))


@pytest.mark.parametrize(
    ("name", "x", "data", "spread"),
    [
        ("line3", regression.LINE_X, regression.LINE, [100.0, 10.0]),
        ("cubic5", regression.CUBIC_X, regression.CUBIC, [50.0] * 4),
    ],
)
def test_coefficients_of_polynomials_are_integrated_exactly(name, x, data, spread):
    design = x[:, None] ** np.arange(len(spread)) * spread
    eigenvalues, axes = np.linalg.eigh(design @ design.T)
    rotated = axes.T @ data
    given = lambda noise: stats.norm.logpdf(rotated, 0.0, np.sqrt(np.maximum(eigenvalues, 0.0) + noise**2)).sum()
    agrees(name, log_integral(given, 0.001, 100.0))


def middles(low, high, n):
    """Of ``n`` equal cells, and their width."""
    return low + (high - low) * (np.arange(n) + 0.5) / n, (high - low) / n


def test_growth_with_its_capacity_integrated_exactly():
    (u, du), (midpoint, dm), (v, dv) = middles(-2.2, -1.0, 60), middles(22.0, 31.0, 60), middles(-0.4, 2.4, 60)
    curve = special.expit(np.exp(u)[:, None, None] * (regression.GROWTH_X - midpoint[:, None]))
    square, product = np.sum(curve**2, axis=-1), curve @ regression.GROWTH
    noise = np.exp(v)[:, None, None]
    best, width = product / square, noise / np.sqrt(square)
    inside = special.ndtr((1000.0 - best) / width) - special.ndtr(-best / width)
    misfit = np.sum(regression.GROWTH**2) - product**2 / square
    values = -0.5 * misfit / noise**2 - 19 * np.log(noise) - 9.5 * np.log(2 * np.pi) - 0.5 * np.log(square)
    log_sum = special.logsumexp(values, b=inside)
    agrees("growth4", log_sum + np.log(du * dm * dv / (1000.0 * 400.0 * (5 * LOG10) ** 2)))


def test_two_exponentials_with_what_is_linear_integrated_exactly():
    (fast, df), (slow, ds), (v, dv) = middles(0.5, 1.2, 60), middles(-1.8, -1.0, 60), middles(-2.9, -1.0, 60)
    first, second = (np.exp(-np.exp(r)[:, None] * regression.DECAY_X) for r in (fast, slow))
    design = np.stack(np.broadcast_arrays(first[:, None], second[None], 1.0), axis=-1)  # (60, 60, 32, 3)
    square, product = design.swapaxes(-1, -2) @ design, regression.DECAY @ design
    best = np.linalg.solve(square, product[..., None])[..., 0]
    misfit = np.sum(regression.DECAY**2) - np.sum(product * best, axis=-1)
    volume = -0.5 * np.linalg.slogdet(square)[1]
    values = volume[..., None] - 0.5 * misfit[..., None] * np.exp(-2.0 * v) - 29 * v - 14.5 * np.log(2 * np.pi)
    cell = df * ds * dv / (100.0**3 * (5 * LOG10) ** 3)
    agrees("exponentials6", special.logsumexp(values) + np.log(2.0 * cell))  # two ways to name the exponentials


def test_a_sinusoid_and_its_modes_with_the_offset_integrated_exactly():
    (u, du), (phase, dp) = middles(np.log(10), np.log(16), 900), middles(0, 2 * np.pi, 32)
    (k, dk), (v, dv) = middles(0.0, 3.2, 44), middles(-2 * LOG10, 2 * LOG10, 50)
    variance = 1.0 + np.exp(2 * v)
    constant = -0.5 * 23 * np.log(2 * np.pi * variance) - 0.5 * np.log(24) - np.log(2000.0)
    data = series.VELOCITIES - series.VELOCITIES.mean()
    each = []
    for period in np.exp(u):
        wave = np.sin(2 * np.pi * series.NIGHTS / period + phase[:, None])
        wave -= wave.mean(axis=1, keepdims=True)
        cross, square = (wave @ data)[:, None], np.sum(wave**2, axis=1)[:, None]
        misfit = data @ data - 2 * np.exp(k) * cross + np.exp(2 * k) * square
        each.append(special.logsumexp(constant - 0.5 * misfit[..., None] / variance))
    cell = du * dp * dk * dv / (np.log(1.6) * 2 * np.pi * (4 * LOG10) ** 2)
    log_evidence = special.logsumexp(each) + np.log(cell)
    agrees("sinusoid5", log_evidence)
    theta = np.exp(u)[:, None] * np.ones(5)
    share = np.exp(each - special.logsumexp(each))
    for mode in tbq.problems.get("sinusoid5").reference.modes:
        assert mode.mass == pytest.approx(share[mode.contains(theta)].sum(), abs=0.005)


def test_an_enzyme_with_its_background_integrated_exactly():
    (fastest, df), (half, dh) = middles(-0.3, 0.3, 60), middles(0.3, 1.3, 60)
    (k, dk), (v, dv) = middles(np.log(12.5), np.log(15.5), 40), middles(-2.0, 1.0, 40)
    rates = np.exp(np.stack(np.meshgrid(fastest, half, indexing="ij"), axis=-1).reshape(-1, 2))
    used = odes.product(rates)
    used = used - used.mean(axis=1, keepdims=True)
    data = odes.PRODUCT - odes.PRODUCT.mean()
    cross, square = (used @ data)[:, None], np.sum(used**2, axis=1)[:, None]
    misfit = data @ data - 2 * np.exp(k) * cross + np.exp(2 * k) * square
    constant = -23 * v - 11.5 * np.log(2 * np.pi) - 0.5 * np.log(24) - np.log(1000.0)
    log_sum = special.logsumexp(constant - 0.5 * misfit[..., None] * np.exp(-2 * v))
    agrees("enzyme5", log_sum + np.log(df * dh * dk * dv / (5 * 6 * 6 * 5 * LOG10**4)))


def test_three_parameters_by_a_grid():
    boxes = {
        "weibull3": [(np.log(0.8), np.log(3.2)), (np.log(500.0), np.log(2200.0)), (0.5, 2.2)],
        "extremes3": [(45.0, 76.0), (np.log(7.0), np.log(36.0)), (-0.8, 0.7)],
    }
    logs = {"weibull3": [0, 1], "extremes3": [1]}
    for name, box in boxes.items():
        problem = tbq.problems.get(name)
        edges = [np.linspace(*ends, 61) for ends in box]
        u = np.stack(np.meshgrid(*[0.5 * (e[1:] + e[:-1]) for e in edges], indexing="ij"), axis=-1).reshape(-1, 3)
        theta = u.copy()
        theta[:, logs[name]] = np.exp(theta[:, logs[name]])
        slope = u[:, logs[name]].sum(axis=1)  # dθ = θ du
        values = problem.log_likelihood(theta) + problem.prior.log_density(theta) + slope
        cell = np.prod([e[1] - e[0] for e in edges])
        top = values.max()
        assert top + np.log(np.exp(values - top).sum() * cell) == pytest.approx(
            problem.reference.log_evidence, abs=4.0 * problem.reference.log_evidence_sd + 1e-3
        )


@pytest.mark.parametrize("name", ["lapse4", "loadings5"])
def test_references_are_found_again_with_fewer_draws(references, name):
    problem = tbq.problems.get(name)
    found = references.estimate(problem, repetitions=2, draws=10_000, population=500)
    assert found.sd < 0.02
    assert found.effective > 1000
    both = np.hypot(found.sd, problem.reference.log_evidence_sd)
    assert found.log_evidence == pytest.approx(problem.reference.log_evidence, abs=4.0 * both)
    np.testing.assert_allclose(found.masses, [m.mass for m in problem.reference.modes], atol=0.05)


def test_draws_of_a_mixture_of_students_weighed_by_its_density_give_any_other_density_its_mass(references):
    covariances = np.array([np.eye(2), [[0.5, 0.2], [0.2, 0.4]]])
    mixture = references.StudentMixture(np.array([0.3, 0.7]), np.array([[0.0, 0.0], [3.0, 1.0]]), covariances)
    draws = mixture.sample(200_000, np.random.default_rng(0))
    for center in ([0.0, 0.0], [3.5, 1.0], [1.5, 0.5], [-3.0, 2.0]):
        other = stats.multivariate_normal(center, 0.3 * np.eye(2))
        weights = np.exp(other.logpdf(draws) - mixture.log_density(draws))
        assert weights.mean() == pytest.approx(1.0, abs=4.0 * weights.std() / np.sqrt(len(draws)))
        assert weights.std() / np.sqrt(len(draws)) < 0.05
