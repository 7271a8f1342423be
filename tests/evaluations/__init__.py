"""The evaluations of the systems that tutti unites, whole, on scripted models."""
