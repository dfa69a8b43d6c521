"""Exact Gaussian processes: kernels, regression, fitting of hyperparameters, and probit classification."""
