"""Intervals of the kind that is asked for: guaranteed, or within what is possible (docs/intervals.md)."""
