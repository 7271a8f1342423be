"""tau2-bench's results, in."""
