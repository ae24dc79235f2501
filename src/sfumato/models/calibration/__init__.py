"""Calibration of a fit: error factors by kind of query, first-stage marginals, GLS updates with them."""
