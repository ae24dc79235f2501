"""Halfspace queries from a net of noisy cells."""
