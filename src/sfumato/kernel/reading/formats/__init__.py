"""Sources that DuckDB reads: files of each kind, a database file, frames in memory; and code that they share."""
