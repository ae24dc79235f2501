"""Statistics that are more than a sum or a ratio: quantiles, variances, and arithmetic of several aggregates."""
