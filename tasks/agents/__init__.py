"""The agent: its loop, its tools, and the models (real, oracle, no-op) that play it."""
