"""End-to-end tests of the integrated systems' evaluations, with scripted models."""
