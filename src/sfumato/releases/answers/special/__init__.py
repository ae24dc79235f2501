"""Answers that are not sums over the cells of one view."""
