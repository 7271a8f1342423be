"""Tests of the scorers that follow publishers' rules."""
