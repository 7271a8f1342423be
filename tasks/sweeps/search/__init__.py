"""Search for the highest concurrency that meets objectives."""
