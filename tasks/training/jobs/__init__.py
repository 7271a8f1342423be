"""Job files, rewards and the stages of a training."""
