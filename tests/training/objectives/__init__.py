"""Tests of objectives against other programs and manual values; they need torch."""
