"""Errors, flags and the run of a flow: what every verb uses."""
