"""Server for releases: web explorer with a JSON API, and PostgreSQL's wire protocol. Public files only."""
