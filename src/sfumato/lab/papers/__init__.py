"""Mechanisms of one purpose, a folder each."""
