"""What several commands ask of whoever types them: how a file is written, and what a table holds."""
