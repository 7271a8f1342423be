"""The page of one training: its steps, held-out tasks, data, settings and ancestry."""
