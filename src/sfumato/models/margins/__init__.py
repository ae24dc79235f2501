"""Noisy marginals of many attributes, joined by maximum entropy for each query."""
