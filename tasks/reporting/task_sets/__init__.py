"""The page of a task set."""
