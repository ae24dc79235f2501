"""Expressions over single values: what CASE, FLOOR or LOWER give for values that are public."""
