"""Rollouts and traces of verifiers and prime-rl, in."""
