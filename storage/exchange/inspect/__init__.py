"""Inspect's logs, in and out."""
