"""Multiplicative-weights estimates of the distribution over cells, times a measured total: mwem, pmw."""
