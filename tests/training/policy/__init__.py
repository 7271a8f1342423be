"""On-policy training: its cells, its batches, its weights."""
