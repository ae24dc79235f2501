"""Synthetic rows: a content says in which cells rows fall, everything after that is shared by all contents."""
