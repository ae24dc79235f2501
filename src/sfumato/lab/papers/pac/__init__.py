"""A rule that predicts an attribute, chosen by the exponential mechanism."""
