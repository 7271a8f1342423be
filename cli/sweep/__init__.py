"""`tutti run`, `tutti sweep …` and `tutti report`."""
