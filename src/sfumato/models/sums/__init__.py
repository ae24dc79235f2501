"""Sums of measures, region by region."""
