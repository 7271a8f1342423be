"""Import of mini-swe-agent's trajectories."""
