"""The reading audit."""
