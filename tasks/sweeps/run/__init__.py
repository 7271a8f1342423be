"""Run a plan: its services, its cells, their samples and attempts, and what ends a cell early."""
