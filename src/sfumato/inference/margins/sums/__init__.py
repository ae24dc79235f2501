"""Sums of a measure along margins."""
