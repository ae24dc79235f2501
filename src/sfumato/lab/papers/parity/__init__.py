"""The parity that fits a table best."""
