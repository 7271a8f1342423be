"""Programs that scorers run in child processes, and the pool of those processes."""
