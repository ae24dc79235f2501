"""Ends that hold whatever the table is like: from noise that was drawn and from facts (docs/intervals.md)."""
