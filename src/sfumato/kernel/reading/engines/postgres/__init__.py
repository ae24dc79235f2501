"""PostgreSQL: the statement runs on the server, in one read-only transaction, and only aggregates come back."""
