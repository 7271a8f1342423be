"""Scorers that follow a publisher's own rule. `RULES` says whose each is, and how it differs."""
