"""Synthetic rows: a content draws the cells of rows (`RowModel`), and shared code draws values, types and files."""
