"""Expressions over single values: CASE, FLOOR, LOWER and the like, evaluated on values that are public."""
