"""Training: throughput and objectives beside TRL, and what GRPO gains on held-out tasks."""
