"""Conversations of each protocol."""
