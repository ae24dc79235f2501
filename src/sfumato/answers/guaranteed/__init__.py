"""Ends of sums that hold for every table."""
