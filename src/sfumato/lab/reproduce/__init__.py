"""Reproduction of the papers' tables and figures, theirs beside ours: `sfumato reproduce`."""
