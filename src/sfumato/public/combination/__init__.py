"""Releases fused into one: of the same table by their measurements, of disjoint tables by their sums."""
