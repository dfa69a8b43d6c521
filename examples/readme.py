import numpy as np
from scipy import stats

import tbq

measured, noise = np.array([3.13, 9.83]), 1 / 16  # two natural frequencies of a two-storey frame, in Hz


def log_likelihood(theta):  # stands for your simulator: one run, one number
    k1, k2 = 29.7e6 * theta
    stiffness = np.array([[k1 + k2, -k2], [-k2, k2]]) / np.array([[16.5e3], [16.1e3]])
    frequencies = np.sqrt(np.sort(np.linalg.eigvals(stiffness))) / (2 * np.pi)
    return -0.5 * np.sum((((frequencies / measured) ** 2 - 1) / noise) ** 2)


prior = tbq.Prior({"k1": stats.lognorm(0.498, scale=1.67), "k2": stats.lognorm(0.627, scale=1.18)})
result = tbq.infer(log_likelihood, prior, seed=0)
print(result.summary())
