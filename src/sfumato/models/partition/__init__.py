"""Estimates that are uniform, or shrunk to uniform, within buckets of cells: dawa, kdtree, ispe."""
