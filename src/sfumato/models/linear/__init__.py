"""Linear mechanisms: noisy answers to a strategy of linear queries, and least squares."""
