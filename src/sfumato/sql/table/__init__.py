"""Statements beyond one plain SELECT: a table of groups from several selects, and what is done with its rows."""
