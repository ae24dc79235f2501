"""What DuckDB reads from: files of each kind, a database file, frames in memory; and what they share."""
