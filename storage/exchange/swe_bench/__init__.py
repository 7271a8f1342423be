"""Reports of SWE-bench's own program, in."""
