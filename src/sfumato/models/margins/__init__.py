"""Noisy marginals of many attributes, joined when a question is asked."""
