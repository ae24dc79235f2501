"""Conventions and options shared by all commands."""
