"""Estimates along the periods of a series: borrowed strength, and running totals."""
