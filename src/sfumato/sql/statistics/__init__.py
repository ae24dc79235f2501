"""Statistics beyond sums and ratios of sums: what they are, how they are written, and what to say about them."""
