"""PostgreSQL's system catalogue, as far as clients read it: names of public tables and columns, nothing else."""
