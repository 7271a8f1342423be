"""Tests of the trainer with the pocket model; they need torch."""
