"""Databases beside DuckDB, PostgreSQL and Spark: a connection of DB-API or ADBC, or an engine of SQLAlchemy."""
