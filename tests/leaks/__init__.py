"""The guard against copies of held-out texts."""
