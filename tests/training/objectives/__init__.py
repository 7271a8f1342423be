"""Objectives against other programs and by hand; they need torch."""
