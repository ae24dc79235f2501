"""Cells in buckets that are taken as even: dawa, kdtree, ispe."""
