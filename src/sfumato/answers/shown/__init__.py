"""Answers in other forms: frames, pictures, JSON with all that belongs to it."""
