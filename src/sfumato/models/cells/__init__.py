"""Noisy cells, all of them or those that reach a threshold."""
