"""Scorers that compare an answer or run it."""
