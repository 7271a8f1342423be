"""The pocket model: tokenizer, shadow worlds, training loop. Runs in the models environment."""
