"""A posterior over a tree that was descended adaptively: the mechanism sfumato."""
