"""Engines, the model registry, the gateway and its policies, the simulator."""
