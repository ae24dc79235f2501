"""A shape learned by multiplicative weights: mwem, pmw."""
