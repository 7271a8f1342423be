"""The model registry: `models.yaml`, and the settings of engines in it."""
