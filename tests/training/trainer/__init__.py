"""The trainer on the pocket model; it needs torch."""
