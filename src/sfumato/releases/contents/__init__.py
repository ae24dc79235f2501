"""Kinds of release content, a file for each; `KINDS` in content.py lists them."""
