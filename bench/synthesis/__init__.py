"""Task synthesis: speed, memory, equality of sets, planted defects, solvers through the loop."""
