"""Programs that scorers run in other processes, and the pool of those processes."""
