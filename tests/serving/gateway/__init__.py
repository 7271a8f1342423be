"""The gateway: its HTTP, its protocols, its faults."""
