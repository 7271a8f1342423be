"""Our scorers beside the publishers' own programs, on the same gold and perturbed answers."""
