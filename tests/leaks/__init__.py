"""Tests of the guard against copies of held-out texts."""
