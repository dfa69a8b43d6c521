"""Functions drawn from a process: their moments are those that the process states."""

import numpy as np
import pytest

from tbq.gp import paths
from tbq.gp import regression as gps
from tbq.gp.kernels import BY_NAME


def process(name, d=2, n=12):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1.5, 1.5, (n, d))
    y = np.sin(x[:, 0]) + 0.5 * x[:, -1] ** 2
    kernel = BY_NAME[name]
    parameters = kernel.hyperprior(d, 1.0).mean.copy()
    parameters[d:] += 1.0 if name == "additive" else -0.5
    return gps.build(x, y, np.full(n, 1e-4), kernel, "linear", parameters)


@pytest.mark.parametrize("name", ["se", "matern52", "matern52_product", "additive"])
def test_mean_and_covariance_are_the_process_s(name):
    gp = process(name)
    at = np.random.default_rng(2).uniform(-2, 2, (6, 2))
    drawn = np.hstack([paths.draw(gp, 200, np.random.default_rng(s))(at) for s in range(30)])  # others' frequencies
    points = gp.project(at)
    exact = gp.covariance(points, points)
    sd = np.sqrt(np.diag(exact))
    np.testing.assert_allclose(drawn.mean(axis=1), points.mean, atol=5 * sd.max() / np.sqrt(drawn.shape[1]))
    np.testing.assert_allclose(np.cov(drawn) / np.outer(sd, sd), exact / np.outer(sd, sd), atol=0.12)


def test_functions_go_through_the_data_and_are_the_same_wherever_they_are_asked():
    gp = process("matern52")
    functions = paths.draw(gp, 20, np.random.default_rng(0))
    np.testing.assert_allclose(functions(gp.x), np.repeat(gp.y[:, None], 20, axis=1), atol=0.05)
    many = np.random.default_rng(3).uniform(-2, 2, (5000, 2))
    np.testing.assert_allclose(functions(many)[4321], functions(many[4321:4322])[0])


def test_a_large_constant_stays_in_its_place():
    gp = process("se")
    shifted = gps.build(gp.x, gp.y + 1e6, gp.noise, gp.kernel, gp.basis, gp.parameters)
    a, b = (paths.draw(g, 3, np.random.default_rng(0))(gp.x + 0.3) for g in (gp, shifted))
    np.testing.assert_allclose(b - 1e6, a, atol=1e-3)
