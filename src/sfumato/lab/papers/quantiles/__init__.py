"""Quantiles of numbers on a tree of cuts."""
