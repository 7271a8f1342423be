"""Tests of rewards, advantages and filters."""
