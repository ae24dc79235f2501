"""Answers learned from noisy training queries."""
