"""Tests of the conversations of each protocol."""
