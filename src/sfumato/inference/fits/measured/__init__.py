"""Fits whose errors were measured: by kind of question, and along single attributes."""
