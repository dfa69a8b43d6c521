"""Other methods: transitional Markov chain Monte Carlo, and Bayesian quadrature of plain integrals."""
