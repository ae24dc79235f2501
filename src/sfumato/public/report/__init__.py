"""A release as one page for people: what was released, what it promises, what it shows and how far to trust it."""
