"""Rewards, advantages and filters."""
