"""Conjunctions of flags, implied by few noisy ones."""
