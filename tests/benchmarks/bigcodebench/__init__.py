"""BigCodeBench."""
