"""Mechanisms for one purpose each: they answer questions of their own, and `auto` never takes them."""
