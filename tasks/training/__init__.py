"""Training: the pocket model from scratch, short fine-tuning runs, and the checkpoints' cards."""
