"""Machine-readable certificates of a release's guarantee, derived from the file, never written into it."""
