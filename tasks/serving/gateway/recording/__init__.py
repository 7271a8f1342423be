"""What the gateway records: calls, messages, decisions, GPUs, and its journal of programs."""
