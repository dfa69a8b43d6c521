"""Closed-form kernel integrals against adaptive quadrature."""

import numpy as np
import pytest
from scipy import integrate, stats

import tbq
from tbq.baselines import kernel_means
from tbq.gp.kernels import MATERN52_PRODUCT, SE

CASES = {
    "se-normal": (SE, stats.norm(2.0, 0.5), kernel_means.Normal),
    "se-lognormal": (SE, stats.lognorm(0.6), kernel_means.Normal),
    "se-uniform": (SE, stats.uniform(-1, 3), kernel_means.Uniform),
    "matern-uniform": (MATERN52_PRODUCT, stats.uniform(-1, 3), kernel_means.Uniform),
    "matern-loguniform": (MATERN52_PRODUCT, stats.loguniform(0.01, 10), kernel_means.Uniform),
    "matern-normal": (MATERN52_PRODUCT, stats.norm(2.0, 0.5), kernel_means.Normal),
    "se-beta": (SE, stats.beta(2, 3), kernel_means.Sampled1D),
}


@pytest.mark.parametrize("length", [0.1, 0.8, 20.0])
@pytest.mark.parametrize("case", CASES)
def test_kernel_means_are_the_integrals_they_stand_for(case, length):
    kernel, marginal, kind = CASES[case]
    prior = tbq.Prior({"x": marginal})
    measure = kernel_means.measure_of(prior)
    assert type(measure.lines[0]) is kind
    parameters = np.log([length, 1.7])
    low, high = (float(b[0]) for b in prior.working_bounds)
    density = lambda t: np.exp(prior.log_density_working(np.array([[t]]))[0])
    k = lambda s, t: kernel.matrix(parameters, np.array([[s]]), np.array([[t]]))[0, 0]
    x = np.array([low + 0.3 * (high - low), 0.0, high])
    for xi, mean in zip(x, measure.mean(kernel, parameters, x[:, None]), strict=True):
        points = sorted({min(max(xi + s, low), high) for s in (-3 * length, 0.0, 3 * length)})
        exact, _ = integrate.quad(lambda t: k(xi, t) * density(t), low, high, points=points, limit=400)  # noqa: B023
        # the quadrature over quantiles is good to 2e-6 of the kernel's variance, 2.9, far in the tails
        assert mean == pytest.approx(exact, rel=2e-5, abs=2e-6)
    inner = lambda t: measure.mean(kernel, parameters, np.array([[t]]))[0] * density(t)
    double, _ = integrate.quad(inner, low, high, limit=400)
    assert measure.double(kernel, parameters) == pytest.approx(double, rel=2e-5)


def test_independent_parameters_multiply():
    prior = tbq.Prior({"a": stats.norm(), "b": stats.uniform(0, 1)})
    measure = kernel_means.measure_of(prior)
    parameters = np.log([0.7, 1.1, 2.0])
    z = prior.to_working(prior.sample(2**16, 0, "sobol"))
    x = np.array([[0.3, -0.8]])
    assert measure.mean(SE, parameters, x)[0] == pytest.approx(SE.matrix(parameters, x, z).mean(), rel=1e-4)
    halves = SE.matrix(parameters, z[:2000], z[2000:6000]).mean()
    assert measure.double(SE, parameters) == pytest.approx(halves, rel=0.05)


def test_a_dependent_prior_is_a_sample():
    prior = tbq.Prior({"a": stats.norm(), "b": stats.norm()}, correlation=[[1, 0.7], [0.7, 1]])
    measure = kernel_means.measure_of(prior)
    length, x = 1.3, np.array([[0.4, -0.2]])
    total = length**2 * np.eye(2) + np.array([[1, 0.7], [0.7, 1]])
    exact = length**2 * 2 * np.pi * stats.multivariate_normal([0, 0], total).pdf(x[0])
    assert measure.mean(SE, np.log([length, length, 1.0]), x)[0] == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("length", [3.0, 1e3, 1e6, 1e8])
@pytest.mark.parametrize("kernel", [SE, MATERN52_PRODUCT])
def test_nothing_cancels_at_long_length_scales(kernel, length):
    """Against Gauss–Legendre quadrature of the smooth kernel, which loses no digits there."""
    line = kernel_means.Uniform(-1.0, 2.0)
    roots, weights = np.polynomial.legendre.leggauss(60)
    nodes, weights = 0.5 + 1.5 * roots, 0.5 * weights
    x = np.array([-1.0, 0.2, 2.0, 2.5])
    profile = (
        (lambda r: np.exp(-0.5 * r * r))
        if kernel is SE
        else lambda r: (1 + np.sqrt(5) * np.abs(r) + 5 * r * r / 3) * np.exp(-np.sqrt(5) * np.abs(r))
    )
    pairs = profile((nodes[:, None] - nodes[None, :]) / length)
    tolerance = 1e-4 if length < 10 and kernel is not SE else 1e-14  # the kink of a Matérn kernel is not polynomial
    assert line.double(kernel, length) == pytest.approx(weights @ pairs @ weights, rel=tolerance)
    exact = profile((x[:, None] - nodes[None, :]) / length) @ weights
    assert line.mean(kernel, length, x) == pytest.approx(exact, rel=tolerance)
