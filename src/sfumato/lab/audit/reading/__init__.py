"""The reading audit: neighbouring files must read as neighbouring tables."""
