"""Strategies: queries and weights that minimise the expected error on a workload; computed without data."""
