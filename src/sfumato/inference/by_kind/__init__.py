"""Errors by kind of question, brought to the size that was measured."""
