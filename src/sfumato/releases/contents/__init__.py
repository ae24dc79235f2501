"""What a release can hold, a file for each kind: a line in kinds.py makes it one."""
