"""The Agent Trajectory Interchange Format (ATIF), in and out."""
