"""The verbs `compare`, `gate` and `score`."""
