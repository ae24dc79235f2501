"""Statements beyond one plain SELECT: a table of groups from several SELECTs, and steps on its rows."""
