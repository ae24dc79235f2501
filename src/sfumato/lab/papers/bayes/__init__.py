"""A Bayesian network: conditional tables, fitted to each other."""
