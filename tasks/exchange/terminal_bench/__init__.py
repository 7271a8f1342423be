"""Import of Terminal-Bench's own results."""
