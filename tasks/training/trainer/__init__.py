"""The trainer: a policy, its steps, its state. Needs torch; runs in the models environment."""
