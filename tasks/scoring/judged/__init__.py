"""Scorers that use a judge model, and statistics of judges."""
