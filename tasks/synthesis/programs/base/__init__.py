"""What the programs of domains share."""
