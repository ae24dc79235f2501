"""Linear measurements and least squares: hierarchies, wavelets, matrices, residuals."""
