"""The mechanisms: one paper, one file, which ends with its value; `registry.py` has one line for each."""
