"""Tests of on-policy training: its cells, its batches, its weights."""
