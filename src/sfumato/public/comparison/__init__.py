"""Two releases side by side: which differences between their tables are real, and which the noise explains."""
