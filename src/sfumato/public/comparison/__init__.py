"""Compare two releases: which differences between their tables exceed the noise."""
