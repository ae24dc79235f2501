"""Posterior mean of the cells from noisy counts of a binary tree that is refined adaptively: the mechanism sfumato."""
