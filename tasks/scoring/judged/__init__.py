"""Scorers that ask a judge model, and the statistics of judges."""
