"""Catch ourselves cheating, before anyone else does."""
