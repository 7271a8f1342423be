"""Training sets: sequences from recorded ids, guards, and the frozen artifact."""
