"""Marginals by noisy Walsh coefficients (Barak et al.)."""
