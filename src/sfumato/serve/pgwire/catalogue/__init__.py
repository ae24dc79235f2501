"""PostgreSQL's catalogue, as far as clients ask it: the names of public tables and columns, and nothing else."""
