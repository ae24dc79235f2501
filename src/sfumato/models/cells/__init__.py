"""Noisy counts of single cells: all of them, or those above a threshold."""
