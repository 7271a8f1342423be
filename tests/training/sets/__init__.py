"""Training sets: sequences, masks, guards and files."""
