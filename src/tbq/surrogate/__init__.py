"""A belief about the likelihood: of its logarithm or of the simulator's outputs, which model, where it is zero."""
