"""Sums of a measure as counts times averages that are made of effects: of a table's regions, of cells, of rows."""
