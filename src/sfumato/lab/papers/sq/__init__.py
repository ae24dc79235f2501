"""Classifiers from statistical queries."""
