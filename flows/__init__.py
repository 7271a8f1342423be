"""The flows: one file per flow, with only the order of stages."""
