"""Passages, questions and the index that they are from."""
