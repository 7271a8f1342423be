"""Training: rewards and training sets here; what needs torch runs in the models environment."""
