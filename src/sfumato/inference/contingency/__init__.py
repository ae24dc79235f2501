"""Contingency tables from noisy Walsh-Hadamard coefficients (Barak et al. 2007)."""
