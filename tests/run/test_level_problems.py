"""All that a likelihood may have goes with a coarse model: experiments, groups, gaps, replicates, logarithms."""

import numpy as np
import pytest
from decays import DATA, OPTIONS, PRIOR, TRUE, exact, fine, grid, likelihood, one, plain_coarse, right
from scipy import stats

import tbq


def plain(**options):
    """The same without a coarse model."""
    return tbq.infer(likelihood(None, None, **options), PRIOR, **OPTIONS)


def agree(a, b):
    return abs(a.log_evidence - b.log_evidence) < 3.0 * np.hypot(a.log_evidence_sd, b.log_evidence_sd)


def charge(theta):
    """Of the same decay, another thing."""
    return np.array([theta[0] / theta[1] * (1.0 - np.exp(-theta[1] * t)) for t in (1.0, 4.0)])


def coarse_charge(theta):
    return charge(theta) * 1.05


CHARGED = charge(TRUE) + np.array([0.01, -0.02])


def both_experiments(costs=(0.02, 0.02)):
    other = tbq.GaussianLikelihood(charge, CHARGED, 0.02, coarse=coarse_charge, cost=costs[1])
    return likelihood(cost=costs[0]) + other


def of_both():
    """log Z of both experiments by a grid."""
    theta, log_weights = grid(500)
    second = np.array([theta[:, 0] / theta[:, 1] * (1.0 - np.exp(-theta[:, 1] * t)) for t in (1.0, 4.0)]).T
    log_terms = -0.5 * np.sum(((fine(theta) - DATA) / 0.05) ** 2, axis=1) + log_weights
    log_terms -= 0.5 * np.sum(((second - CHARGED) / 0.02) ** 2, axis=1)
    top = log_terms.max()
    constant = 12 * np.log(0.05) + 2 * np.log(0.02) + 7 * np.log(2.0 * np.pi)
    return float(top + np.log(np.sum(np.exp(log_terms - top))) - constant)


def test_several_experiments_have_a_coarse_model_each():
    found = tbq.infer(both_experiments(), PRIOR, **OPTIONS)
    assert right(found, of_both())
    for e in found.coarse:
        np.testing.assert_allclose(e.outputs, np.append(plain_coarse(e.theta), coarse_charge(e.theta)))
    assert len(found.coarse_use) == found.surrogate.batch.size
    assert any(use != "not used" for use in found.coarse_use.values())


def test_costs_of_several_experiments_are_one_cost():
    assert both_experiments((0.02, 0.06)).cost == pytest.approx(0.04)
    assert both_experiments((0.02, None)).cost is None
    shared = likelihood() + likelihood(data=DATA + 0.01)  # runs that experiments share are paid once
    assert shared.cost == 0.02


def test_gaps_and_replicates_go_with_levels():
    data = DATA.copy()
    data[[2, 7]] = np.nan
    found = tbq.infer(likelihood(data=data), PRIOR, **OPTIONS)
    assert right(found, exact(data))
    assert found.n_evaluations < plain(data=data).n_evaluations
    twice = np.stack([DATA, DATA[::-1] * 0.0 + one(TRUE)])
    found = tbq.infer(likelihood(data=twice), PRIOR, **OPTIONS)
    mean = twice.mean(axis=0)
    rest = -0.5 * np.sum((twice - mean) ** 2) / 0.05**2 - 12 * np.log(0.05 * np.sqrt(2.0 * np.pi)) - 6 * np.log(2.0)
    assert right(found, exact(mean, 0.05 / np.sqrt(2.0)) + rest)


def test_groups_and_index_go_with_levels():
    order = np.arange(12)[::-1]
    groups = {"early": slice(6, 12), "late": slice(0, 6)}
    options = {"data": DATA[order], "index": order, "groups": groups, "noise": {"early": 0.05, "late": 0.05}}
    found = tbq.infer(likelihood(**options), PRIOR, **OPTIONS)
    assert right(found)
    assert found.n_evaluations < plain(**options).n_evaluations


def test_groups_whose_noise_is_unknown_go_with_levels():
    groups = {"early": slice(0, 6), "late": slice(6, 12)}
    options = {"groups": groups, "noise": {"early": stats.loguniform(0.02, 0.2), "late": 0.05}}
    found = tbq.infer(likelihood(**options), PRIOR, **OPTIONS)
    without = plain(**options)
    assert found.converged
    assert agree(found, without)
    assert found.n_evaluations < without.n_evaluations
    assert found.prior.names == ("a", "k", "noise.early")


def test_a_noise_scale_that_is_a_parameter_goes_with_levels():
    prior = tbq.Prior({**PRIOR.marginals, "s": stats.uniform(0.5, 1.5)})
    found = tbq.infer(likelihood(scale=lambda theta: theta[2]), prior, **OPTIONS)
    theta, log_weights = grid(300)
    misfit = np.sum(((fine(theta) - DATA) / 0.05) ** 2, axis=1)
    s = np.linspace(0.5, 2.0, 151)
    each = [np.log(np.mean(np.exp(-0.5 * misfit / v**2 + log_weights - log_weights.max()))) - 12 * np.log(v) for v in s]
    total = np.log(np.trapezoid(np.exp(each), s) / 1.5) + log_weights.max() + np.log(len(theta))
    assert right(found, float(total - 12 * np.log(0.05 * np.sqrt(2.0 * np.pi))))


def test_outputs_of_both_levels_may_be_modelled_by_their_logarithms():
    """A product of powers is a line in logarithms, at either level."""
    powers = np.array([[1.0, 2.0], [2.0, -1.0], [0.5, 3.0]])

    def product(theta):
        return np.prod(theta**powers, axis=1)

    def off(theta):
        return 1.3 * np.prod(theta ** (powers * 1.02), axis=1)

    prior = tbq.Prior({"a": stats.lognorm(0.4), "k": stats.lognorm(0.4)})
    data = product(np.array([1.1, 0.9])) * 1.01
    found = tbq.infer(tbq.GaussianLikelihood(product, data, 0.02 * data, coarse=off, cost=0.02), prior, **OPTIONS)
    a, k = (np.exp(0.4 * stats.norm.ppf((np.arange(1500) + 0.5) / 1500)) for _ in range(2))
    theta = np.array(np.meshgrid(a, k, indexing="ij")).reshape(2, -1).T
    outputs = np.prod(theta[:, None, :] ** powers, axis=2)
    value = np.exp(-0.5 * np.sum(((outputs - data) / (0.02 * data)) ** 2, axis=1))
    truth = np.log(value.mean()) - np.sum(np.log(0.02 * data * np.sqrt(2.0 * np.pi)))
    assert right(found, float(truth))
    assert any(c.logarithm_of for c in found.surrogate.components)
    assert any(use != "not used" for use in found.coarse_use.values())


def test_a_coarse_model_that_never_has_all_outputs_is_left_alone():
    """Nan is what a model says where it has no answer."""

    def half(theta):
        outputs = plain_coarse(theta)
        outputs[6:] = np.nan
        return outputs

    found = tbq.infer(likelihood(half), PRIOR, **OPTIONS)
    assert right(found)
    assert set(found.coarse_use.values()) == {"not used"}
    assert found.n_coarse == 16  # the design


def test_a_coarse_model_that_lacks_outputs_here_and_there_helps():
    def some(theta):
        outputs = plain_coarse(theta)
        outputs[6:] = np.where(theta[1] > 1.5, np.nan, outputs[6:])
        return outputs

    found = tbq.infer(likelihood(some), PRIOR, **OPTIONS)
    assert right(found)
    assert any(use != "not used" for use in found.coarse_use.values())
    assert found.n_evaluations < plain().n_evaluations
