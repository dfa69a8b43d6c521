"""Modes of vibration: pairing, signs, scales, partial sensors, close and swapped modes, against brute force."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import linalg, stats

import tbq
from tbq.problem.modal import in_measured_basis, mac, paired_modes


def frame(theta):
    """Three storeys that sway in x and in y: frequencies in their order, and shapes (6, 6), x before y."""
    chain = np.array([[2.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
    coupling = 0.0 if len(theta) < 3 else theta[2]
    stiffness = np.kron(np.diag(theta[:2]), chain) + coupling * np.kron([[0.0, 1.0], [1.0, 0.0]], np.eye(3))
    values, shapes = linalg.eigh(stiffness)
    return np.sqrt(values), shapes


TRUTH = np.array([1.0, 1.15])
F, SHAPES = frame(TRUTH)
RNG = np.random.default_rng(0)
MEASURED = SHAPES[:, :3] * np.array([-3.0, 0.5, 7.0]) * (1.0 + 0.02 * RNG.standard_normal((6, 3)))
NOISY = F[:3] * (1.0 + 0.01 * RNG.standard_normal(3))


def by_hand(theta, frequencies, shapes, sensors, frequency_noise, shape_noise):
    """All pairings are tried; MAC, scale and density are written out."""
    f, phi = frame(theta)
    phi = phi[sensors]
    shapes = shapes / np.sqrt(np.nansum(shapes**2, axis=0))
    p = len(frequencies)

    def one(j, i):
        seen = np.isfinite(shapes[:, j])
        a, b = shapes[seen, j], phi[seen, i]
        return (a @ b) ** 2 / ((a @ a) * (b @ b))

    best = max(itertools.permutations(range(len(f)), p), key=lambda pairs: sum(one(j, i) for j, i in enumerate(pairs)))
    total = 0.0
    for j, i in enumerate(best):
        seen = np.isfinite(shapes[:, j])
        a, b = shapes[seen, j], phi[seen, i]
        scale = (a @ b) / (b @ b)
        total += stats.norm(1.0, frequency_noise).logpdf(f[i] / frequencies[j])
        total += stats.norm(0.0, shape_noise).logpdf(a - scale * b).sum()
    return total


@pytest.mark.parametrize("sensors", [[0, 1, 2, 3, 4, 5], [0, 2, 3, 5], [2, 5]])
def test_the_likelihood_is_that_of_all_pairings_tried(sensors):
    shapes = MEASURED[sensors].copy()
    if len(sensors) > 2:
        shapes[1, 2] = np.nan
    lik = tbq.ModalLikelihood(frame, NOISY, shapes, frequency_noise=0.02, shape_noise=0.05, sensors=sensors, close=0.0)
    for theta in ([1.0, 1.15], [1.15, 1.0], [0.6, 1.9], [2.0, 0.5]):
        expected = by_hand(np.array(theta), NOISY, shapes, sensors, 0.02, 0.05)
        assert lik(np.array(theta)) == pytest.approx(expected, rel=1e-9)


def test_signs_scales_and_the_order_of_the_models_modes_do_not_matter():
    order, factors = np.array([3, 0, 5, 1, 4, 2]), np.array([-2.0, 0.1, 3.0, -1.0, 5.0, -0.4])

    def shuffled(theta):
        f, phi = frame(theta)
        return f[order], phi[:, order] * factors

    def squared(theta):
        f, phi = frame(theta)
        return (2.0 * np.pi * f) ** 2, phi

    arguments = {"frequency_noise": 0.02, "shape_noise": 0.05}
    value = tbq.ModalLikelihood(frame, NOISY, MEASURED, **arguments)(TRUTH)
    assert tbq.ModalLikelihood(shuffled, NOISY, MEASURED, **arguments)(TRUTH) == pytest.approx(value, rel=1e-9)
    other = tbq.ModalLikelihood(squared, NOISY, MEASURED, eigenvalues=True, **arguments)
    assert other(TRUTH) == pytest.approx(value, rel=1e-9)
    assert pickle.loads(pickle.dumps(tbq.ModalLikelihood(frame, NOISY, MEASURED, **arguments)))(TRUTH) == value


def test_mac_and_pairs_against_loops():
    shapes = MEASURED.copy()
    shapes[4, 1] = np.nan
    found = mac(shapes, SHAPES)
    for j in range(3):
        seen = np.isfinite(shapes[:, j])
        for i in range(6):
            cosine = (
                1.0
                - linalg.norm(
                    shapes[seen, j] / linalg.norm(shapes[seen, j]) - SHAPES[seen, i] / linalg.norm(SHAPES[seen, i])
                )
                ** 2
                / 2.0
            )
            assert found[j, i] == pytest.approx(cosine**2, abs=1e-12)
    np.testing.assert_array_equal(paired_modes(shapes, SHAPES), [0, 1, 2])
    np.testing.assert_array_equal(paired_modes(shapes[:, [2, 0]], SHAPES), [2, 0])


def test_what_is_learned_is_smooth_where_modes_cross():
    lik = tbq.ModalLikelihood(frame, NOISY, MEASURED, frequency_noise=0.02, shape_noise=0.05)
    path = np.column_stack([np.linspace(0.8, 1.3, 101), np.linspace(1.3, 0.8, 101)])  # the modes swap in the middle
    outputs = np.array([lik.evaluate(theta)[1] for theta in path])
    raw = np.array([frame(theta)[0][:2] for theta in path])
    assert np.max(np.abs(np.diff(outputs, 2, axis=0))) < 1e-3
    assert np.max(np.abs(np.diff(raw, 2, axis=0))) > 1e-3  # frequencies in their order have a kink


def test_close_modes_are_the_subspace_that_they_span():
    frequencies = np.array([1.0, 1.004, 2.0])
    lik = tbq.ModalLikelihood(frame, frequencies, MEASURED, frequency_noise=0.02, shape_noise=0.05)
    assert [list(c) for c in lik.experiments[0].model.clusters] == [[0, 1], [2]]
    rng = np.random.default_rng(3)
    measured, basis = linalg.orth(rng.standard_normal((6, 2))), rng.standard_normal((6, 2))
    f = np.array([1.0, 1.2])
    expected = in_measured_basis(measured, basis, f)
    swapped = in_measured_basis(measured, basis[:, ::-1] * [3.0, -0.5], f[::-1])
    np.testing.assert_allclose(swapped[0], expected[0], rtol=1e-10)
    np.testing.assert_allclose(swapped[1], expected[1], rtol=1e-10)
    np.testing.assert_allclose(expected[1], basis @ np.linalg.pinv(basis) @ measured, rtol=1e-9)  # the projection
    angle = 0.7
    turned = basis @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    same = np.array([1.1, 1.1])
    for one, other in zip(
        in_measured_basis(measured, basis, same), in_measured_basis(measured, turned, same), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_veering_modes_are_smooth_as_a_subspace():
    f, shapes = frame([1.0, 1.0, 0.0])
    frequencies = np.array([f[0], 1.001 * f[1], f[2], 1.001 * f[3]])
    measured = shapes[:, :4].copy()
    measured[:, :2] = np.column_stack([np.append(shapes[:3, :2].sum(axis=1), np.zeros(3))] * 2)
    measured[:, 0] = np.append(linalg.eigh(np.array([[2.0, -1, 0], [-1, 2, -1], [0, -1, 1]]))[1][:, 0], np.zeros(3))
    measured[:, 1] = measured[[3, 4, 5, 0, 1, 2], 0]
    path = [np.array([1.0 + d, 1.0 - d, 0.01]) for d in np.linspace(-0.1, 0.1, 201)]
    together = tbq.ModalLikelihood(frame, frequencies[:2], measured[:, :2], frequency_noise=0.02, shape_noise=0.05)
    apart = tbq.ModalLikelihood(
        frame, frequencies[:2], measured[:, :2], frequency_noise=0.02, shape_noise=0.05, close=0.0
    )
    smooth, rough = (np.array([lik.evaluate(t)[1] for t in path]) for lik in (together, apart))
    assert np.max(np.abs(np.diff(smooth, axis=0))) < 0.01
    assert np.max(np.abs(np.diff(rough, axis=0))) > 3.0 * np.max(np.abs(np.diff(smooth, axis=0)))


def test_mac_noise_is_shape_noise_by_what_the_mac_misses():
    lik = tbq.ModalLikelihood(frame, NOISY, MEASURED, mac_noise=0.05)
    sd = np.sqrt(0.05 / 5.0)
    assert lik(TRUTH) == pytest.approx(tbq.ModalLikelihood(frame, NOISY, MEASURED, shape_noise=sd)(TRUTH), rel=1e-12)
    rng = np.random.default_rng(0)
    shape = SHAPES[:, 0]
    missed = [1.0 - mac((shape + sd * rng.standard_normal(6))[:, None], shape[:, None])[0, 0] for _ in range(4000)]
    assert np.mean(missed) == pytest.approx(0.05, rel=0.1)


def test_frequencies_alone_are_taken_in_their_order():
    lik = tbq.ModalLikelihood(frame, NOISY, frequency_noise=stats.lognorm(0.5, scale=0.01))
    assert lik.noise_prior.names == ("noise.frequency",)
    value = stats.norm(1.0, 0.02).logpdf(frame(TRUTH)[0][:3] / NOISY).sum()
    assert lik.evaluate(TRUTH, [0.02])[0] == pytest.approx(value, rel=1e-9)


def test_modes_of_a_coarse_model_are_paired_as_those_of_the_fine_one():
    """Swapped, scaled and off: what is left of it saves runs, and the evidence is the same."""
    asked = {"fine": 0, "coarse": 0}

    def counted(theta):
        asked["fine"] += 1
        return frame(theta)

    def coarse(theta):
        asked["coarse"] += 1
        f, phi = frame(1.1 * theta + 0.02 * theta**2)
        return f[::-1], -3.0 * phi[:, ::-1]

    prior = tbq.Prior({"kx": stats.uniform(0.5, 1.5), "ky": stats.uniform(0.5, 1.5)})
    arguments = {"frequency_noise": 0.02, "shape_noise": 0.05}
    both = tbq.ModalLikelihood(counted, NOISY, MEASURED, coarse=coarse, cost=0.02, **arguments)
    outputs = both.at("coarse").evaluate(TRUTH)[1]
    same = tbq.ModalLikelihood(lambda theta: frame(1.1 * theta + 0.02 * theta**2), NOISY, MEASURED, **arguments)
    np.testing.assert_allclose(outputs, same.evaluate(TRUTH)[1], rtol=1e-9)
    asked["coarse"] = 0
    found = tbq.infer(both, prior, seed=1, progress=False, population=512)
    assert asked == {"fine": found.n_evaluations, "coarse": found.n_coarse}
    alone = tbq.infer(
        tbq.ModalLikelihood(frame, NOISY, MEASURED, **arguments), prior, seed=1, progress=False, population=512
    )
    assert found.converged
    assert found.n_evaluations < alone.n_evaluations
    gap = abs(found.log_evidence - alone.log_evidence)
    assert gap < 3.0 * np.hypot(found.log_evidence_sd, alone.log_evidence_sd)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"frequencies": [1.0, -2.0]}, "frequencies must be positive numbers"),
        ({"shapes": MEASURED[:, :2]}, "shapes must have a column for each of the 3 frequencies"),
        ({"shapes": 0.0 * MEASURED}, "each of shapes must have a component that is not zero"),
        ({"shape_noise": None}, "give one of shape_noise and mac_noise, where there are shapes; got none"),
        ({"mac_noise": 0.1}, "got both"),
        ({"sensors": [0, 1]}, "sensors must be the numbers of the degrees of freedom"),
        ({"close": 2.0}, "close must be a fraction"),
        ({"model": 3.0}, "model must be a function of theta"),
        ({"coarse": 3.0}, "coarse must be a function of theta"),
        ({"coarse": frame, "cost": 3.0}, "cost must be that of a coarse run in fine ones"),
        ({"cost": 0.1}, "coarse must be a function of theta"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    good = {"model": frame, "frequencies": NOISY, "shapes": MEASURED, "shape_noise": 0.05}
    with pytest.raises(tbq.TbqError, match=message):
        tbq.ModalLikelihood(**{**good, **arguments})


@pytest.mark.parametrize("answer", [3.0, (F[:2], SHAPES[:, :2]), (F, SHAPES[:4]), (F * np.nan, SHAPES)])
def test_models_that_return_something_else_fail_with_a_sentence(answer):
    lik = tbq.ModalLikelihood(lambda theta: answer, NOISY, MEASURED, shape_noise=0.05)
    with pytest.raises(tbq.TbqError, match="the model"):
        lik(TRUTH)
