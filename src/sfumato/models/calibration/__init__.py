"""Errors measured by kind of question, first-stage marginals, and the GLS update of a fit with them."""
