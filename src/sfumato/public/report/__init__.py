"""HTML report on a release: its guarantee, its numbers, and how far to trust them."""
