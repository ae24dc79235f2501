"""The server: the explorer for browsers, and PostgreSQL's wire protocol."""
