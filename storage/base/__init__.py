"""Homes, clocks, columns, outcomes and errors: what the rest of the store uses."""
