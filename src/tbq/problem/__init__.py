"""What is asked: the prior and its coordinates, the likelihood, single evaluations, the settings of a run."""
