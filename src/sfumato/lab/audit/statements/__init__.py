"""Fuzzing of SQL: statements drawn from the documented grammar, asked of every kind of release, and judged."""
